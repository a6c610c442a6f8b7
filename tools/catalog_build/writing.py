"""CSV rows in, YAML text out, the same bytes every time."""

from __future__ import annotations

import csv
import json
import re
from decimal import Decimal
from pathlib import Path

RETRIEVED = "2026-08-22"
Row = dict[str, str]

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 _./+-]*|[0-9][0-9.]* (?:[A-Za-z/]+)|[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off"}


def read_csv(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def scalar(text: str) -> str:
    """`text` as one YAML scalar, plain where that is safe inside a flow mapping."""
    plain = _PLAIN.fullmatch(text) and text.casefold() not in _WORDS and text == text.strip()
    return text if plain else json.dumps(text, ensure_ascii=False)


def number(value: float | str | Decimal) -> str:
    """The shortest plain decimal for `value`: no exponent, no trailing zeros."""
    text = format(Decimal(str(value)).normalize(), "f")
    return text if text != "-0" else "0"


def rounded(value: float, digits: int = 4) -> str:
    """`value` to `digits` significant digits."""
    return number(Decimal(f"{value:.{digits}g}"))


def rate(gigabytes_per_s: str) -> str:
    """GB/s as a quantity."""
    value = Decimal(gigabytes_per_s)
    return f"{number(value / 1000)} TB/s" if value >= 1000 else f"{number(value)} GB/s"


def sourced(value: str, source: str, kind: str, retrieved: str = RETRIEVED) -> str:
    """A value with where it comes from, as a flow mapping on one line."""
    return f"{{value: {value}, kind: {kind}, retrieved: {retrieved}, source: {scalar(source)}}}"


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def slug(text: str) -> str:
    """`text` as a file name: lower case, words joined by hyphens."""
    return re.sub(r"[^a-z0-9.]+", "-", text.casefold()).strip("-.")
