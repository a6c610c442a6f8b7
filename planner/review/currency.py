"""A result document with its money in another currency, at a rate that the user gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.review.result import is_number

_OF_UNIT = ("value", "limit", "interval", "reference", "delta")  # amounts in the unit that stands beside them


@dataclass(frozen=True, slots=True)
class Currency:
    """Three letters, and what one of it costs in USD."""

    code: str
    usd: float


def converted(value: Any, currency: Currency, is_money: bool = False) -> Any:
    """`value` with every amount of USD in `currency`; names stay, because they are those of the format.

    Texts that quote a price keep it, as US dollars.
    """
    if isinstance(value, Mapping):
        money_unit = str(value.get("unit", "")).startswith("USD")
        return {
            key: converted(item, currency, is_money or _names_money(key) or (money_unit and key in _OF_UNIT))
            if key != "unit"
            else item
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [converted(item, currency, is_money) for item in value]
    if is_money and is_number(value):
        return value / currency.usd
    if isinstance(value, str):
        return re.sub(r"\bUSD\b", "US dollars", value)
    return value


def _names_money(key: str) -> bool:
    """usd_per_hour, spare_usd_per_hour, usd_per_hour_without, purchase_usd, usd_per_hour.rent3y."""
    return "usd" in key.partition(".")[0].split("_")
