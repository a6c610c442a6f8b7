"""`--currency`: money as people read it, in a currency and at a rate that they give."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from planner.cli.streams import Screen

if TYPE_CHECKING:
    from planner.review.currency import Currency

FOR_PEOPLE = ("table", "markdown", "html")  # formats in which money is shown; names of the others say USD
Renderer = Callable[[Screen], str]


def currency_of(text: str, shape: str) -> Currency | None:
    """The currency of ``EUR=1.09``, None for USD; InputError with what was wanted."""
    from planner.errors import InputError
    from planner.review.currency import Currency
    from planner.units import shown

    if text in ("", "USD"):
        return None
    code, _, rate = text.partition("=")
    try:
        usd = float(rate)
    except ValueError:
        usd = 0.0
    if not (len(code) == 3 and code.isascii() and code.isalpha() and code.isupper()) or not 1e-9 < usd < 1e9:
        raise InputError(f"--currency: {shown(text)}; want three letters and what one costs in USD, e.g. EUR=1.09")
    if shape not in FOR_PEOPLE:
        raise InputError(f"--currency: {shape} has USD in its names; {code} is for {', '.join(FOR_PEOPLE)}")
    return Currency(code, usd)


def in_currency(result: Mapping[str, Any], currency: Currency | None) -> Mapping[str, Any]:
    """The document with its money in `currency`; what is rendered of it must be `said` in it."""
    if currency is None:
        return result
    from planner.review.currency import converted

    found: Mapping[str, Any] = converted(result, currency)
    return found


def said(render: Renderer, currency: Currency | None) -> Renderer:
    """The renderer of a converted document, with the three letters of its currency for USD."""
    if currency is None:
        return render
    return lambda screen: told(render(screen), currency)


def told(text: str, currency: Currency | None) -> str:
    return text if currency is None else re.sub(r"\bUSD\b", currency.code, text)
