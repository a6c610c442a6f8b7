"""A result document with its money in another currency, at a rate that the user gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MONEY = ("usd", "usd_per_hour", "usd_per_mtok", "usd_per_year", "usd_per_request")


@dataclass(frozen=True, slots=True)
class Currency:
    """Three letters, and what one of it costs in USD."""

    code: str
    usd: float


def converted(value: Any, currency: Currency, is_money: bool = False) -> Any:
    """`value` with every amount of USD in `currency`; names stay, because they are those of the format."""
    if isinstance(value, Mapping):
        money_unit = str(value.get("unit", "")).startswith("USD")
        return {
            key: converted(item, currency, is_money or _names_money(key) or (money_unit and key in ("value", "limit")))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [converted(item, currency, is_money) for item in value]
    if is_money and isinstance(value, int | float) and not isinstance(value, bool):
        return value / currency.usd
    return value


def _names_money(key: str) -> bool:
    """usd_per_hour, spare_usd_per_hour, purchase_usd, usd_per_hour.rent3y."""
    bare = key.partition(".")[0]
    return any(bare == name or bare.endswith(f"_{name}") for name in _MONEY)
