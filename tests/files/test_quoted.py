"""Sheets of prices and failure rates: what is read, what is refused, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.files.quoted import read_cost_sheet, read_own_costs, read_reliability
from planner.records import Quoted


def known(name: str) -> str | None:
    return {"h100": "h100-sxm", "h100-sxm": "h100-sxm"}.get(name)


def sheet(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_shipped_values_have_a_range_a_date_and_a_source() -> None:
    own, rates = read_own_costs(), read_reliability()
    for record in (own, rates):
        for name in record.__slots__:
            quote: Quoted = getattr(record, name)
            assert quote.low <= quote.value <= quote.high, name
            assert quote.provenance.source and quote.provenance.retrieved, name
    assert own.interest_fraction.value == 0.08 and own.years.value == 4.0
    assert own.dram_bytes.value == 2048e9


def test_a_sheet_replaces_what_it_names(tmp_path: Path) -> None:
    costs = read_cost_sheet(
        sheet(
            tmp_path,
            "currency: {EUR: 1.10 USD}\n"
            "purchase: {h100: 20000 EUR}\n"
            "rent: {h100-sxm: {value: 2 USD/h, low: 1.5 USD/h, high: 3 EUR/h, source: offer}}\n"
            "electricity: 0.2 EUR/kWh\nyears: 5\n",
        ),
        known,
    )
    assert costs.purchase_usd["h100-sxm"].value == pytest.approx(22_000.0)
    rent = costs.rent_usd_per_hour["h100-sxm"]
    assert (rent.value, rent.low, rent.high) == pytest.approx((2.0, 1.5, 3.3))
    assert rent.provenance.source == "offer"
    assert costs.own is not None
    assert costs.own.electricity_usd_per_kwh.value == pytest.approx(0.22)
    assert costs.own.years.value == 5.0 and costs.own.pue_factor.value == read_own_costs().pue_factor.value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("host: 80000", '1:1: host: 80000 has no unit; want e.g. "80000 USD"'),
        ("host: 80000 EUR", 'host: "80000 EUR" is in EUR, without a rate; write currency: {EUR: 1.09 USD}'),
        ("rent: {h100: 2 GB}", "rent.h100"),
        ("rent: {h900: 2 USD/h}", "is not a known accelerator"),
        ("pue: 0.9", "want 1 to 10"),
        ("years: 0.5", "want 1 to 50"),
        ("power_use: 170 %", "want 0 to 1"),
        ("rent: {h100: 0 USD/h}", "rent.h100: is not above zero"),
        ("purchase: {h100: {value: 5 USD, low: 0 USD}}", "is not above zero"),
        ("hosts: 80000 USD", 'unknown key; did you mean "host"'),
        ("currency: {eur: 1.09 USD}", "is not the code of a currency"),
        ("currency: {EUR: 1.09}", "has no unit"),
        ("host: {value: 5 USD, low: 9 USD}", "does not lie between low and high"),
        ("host: {values: 5 USD}", "unknown key"),
        ("host: {low: 5 USD}", "is missing a value"),
        ("interest: 0.08", "has no unit"),
        ("rent: 3 USD/h", "is not a mapping"),
        ("[]", "is not a mapping"),
        ("", "is empty"),
    ],
)
def test_what_a_sheet_may_not_say(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_cost_sheet(sheet(tmp_path, text + "\n"), known)
    assert said in str(caught.value)
