"""Quantities: what is read, what is refused and in which words, and how numbers are shown."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import units
from planner.units import parse


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("141 GB", "bytes", 141e9),
        ("141 GiB", "bytes", 141 * 2**30),  # 151,397,597,184
        ("80GiB", "bytes", 85_899_345_920),
        ("1 TB", "bytes", 1e12),
        ("512 B", "bytes", 512),
        ("400 Gb/s", "bytes_per_s", 50e9),  # eight bits a byte
        ("400 Gbit/s", "bytes_per_s", 50e9),
        ("400 Gbps", "bytes_per_s", 50e9),
        ("400 GB/s", "bytes_per_s", 400e9),
        ("4.8 TB/s", "bytes_per_s", 4.8e12),
        ("3.35e3 GB/s", "bytes_per_s", 3.35e12),
        ("989.5 TFLOP/s", "flops_per_s", 989.5e12),
        ("1979 TOP/s", "flops_per_s", 1979e12),
        ("800 ms", "seconds", 0.8),
        ("32 us", "seconds", 32e-6),
        ("32 µs", "seconds", 32e-6),
        ("5 min", "seconds", 300),
        ("0 ms", "seconds", 0),
        ("12 /s", "requests_per_s", 12),
        ("12 req/s", "requests_per_s", 12),
        ("700 /min", "requests_per_s", 700 / 60),
        ("3600 requests/h", "requests_per_s", 1),
        ("33500 USD", "usd", 33500),
        ("200 USD/h", "usd_per_hour", 200),
        ("2 $/h", "usd_per_hour", 2),
        ("1.20 USD/Mtok", "usd_per_mtok", 1.2),
        ("0.0012 USD/ktok", "usd_per_mtok", 1.2),
        ("1.3 kW", "watts", 1300),
        (64, "count", 64),
        ("64", "count", 64),
        (0.9, "ratio", 0.9),
    ],
)
def test_reads(text: object, kind: str, value: float) -> None:
    assert parse(text, kind) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (141, "bytes", '141 has no unit; want e.g. "141 GB"'),
        ("141", "bytes", '"141" has no unit; want e.g. "141 GB"'),
        (1e12, "flops_per_s", '1e12 has no unit; want e.g. "1e12 TFLOP/s"'),
        (12, "requests_per_s", '12 has no unit; want e.g. "12 /s"'),
        (200, "usd_per_hour", '200 has no unit; want e.g. "200 USD/h"'),
        ("4.8 TB", "bytes_per_s", '"4.8 TB" is a size in bytes, not a rate of bytes or bits; want e.g. "4.8 TB/s"'),
        ("400 Gb", "bytes_per_s", 'is a size in bits, not a rate of bytes or bits; want e.g. "400 Gb/s"'),
        ("400 Gb", "bytes", '"400 Gb" is a size in bits, not a size in bytes; want e.g. "400 GB"'),
        ("400 Gb/s", "bytes", '"400 Gb/s" is a rate of bytes or bits, not a size in bytes'),
        ("12 ms", "bytes", '"12 ms" is a time, not a size in bytes; want e.g. "12 GB"'),
        ("12 GB", "seconds", '"12 GB" is a size in bytes, not a time; want e.g. "12 ms"'),
        ("141 gb", "bytes", '"141 gb" has an unknown unit "gb"; want a size in bytes, e.g. "141 GB"'),
        ("5 parsecs", "seconds", '"5 parsecs" has an unknown unit "parsecs"; want a time, e.g. "5 ms"'),
        ("nan GB", "bytes", '"nan GB" is not a finite number'),
        ("inf", "seconds", '"inf" is not a finite number'),
        (".inf s", "seconds", '".inf s" is not a finite number'),
        (math.nan, "seconds", "nan is not a finite number"),
        (math.inf, "count", "inf is not a finite number"),
        ("-3 ms", "seconds", '"-3 ms" is negative'),
        (-1, "count", "-1 is negative"),
        ("1e400 s", "seconds", '"1e400 s" is too large to be a number'),
        ("1e308 TB", "bytes", '"1e308 TB" is too large to be a number'),
        ("fast", "seconds", '"fast" is not a time; want e.g. "12 ms"'),
        ("", "seconds", '"" is not a time'),
        (None, "seconds", "nothing is not a time"),
        ([1], "bytes", "a list is not a size"),
        ({}, "bytes", "a mapping is not a size"),
        (True, "count", "true is not a whole number"),
        (1.5, "count", "1.5 is not a whole number"),
        ("64 GB", "count", '"64 GB" has a unit; want a whole number, e.g. 64'),
        ("9" * 500, "bytes", "…"),
    ],
)
def test_refuses(text: object, kind: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse(text, kind)
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 250


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.booleans()), st.sampled_from(units.KINDS))
def test_never_anything_but_a_finite_number_or_a_sentence(text: object, kind: str) -> None:
    try:
        value = parse(text, kind)
    except ValueError:
        return
    assert math.isfinite(value)
    assert value >= 0


@given(st.floats(1e-3, 1e3), st.sampled_from([kind for kind in units.KINDS if kind not in ("count", "ratio")]))
def test_a_bare_number_is_never_a_quantity(number: float, kind: str) -> None:
    with pytest.raises(ValueError, match="has no unit"):
        parse(number, kind)


@given(st.floats(1e-9, 1e6))
def test_shown_times_read_back(seconds: float) -> None:
    shown = units.format_seconds(seconds).replace(",", "")
    assert parse(shown, "seconds") == pytest.approx(seconds, rel=5.1e-3)


@given(st.floats(1e6, 1e18))
def test_shown_rates_read_back(rate: float) -> None:
    assert parse(units.format_bytes_per_s(rate), "bytes_per_s") == pytest.approx(rate, rel=5.1e-3)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (units.format_seconds(0), "0 s"),
        (units.format_seconds(45e-6), "45.0 us"),
        (units.format_seconds(0.0123), "12.3 ms"),
        (units.format_seconds(0.9999), "1.00 s"),
        (units.format_seconds(300), "5.00 min"),
        (units.format_bytes(141e9), "141.0 GB"),
        (units.format_bytes(98304), "98.3 kB"),
        (units.format_bytes(999.96e9), "1.0 TB"),
        (units.format_bytes(512), "512 B"),
        (units.format_bytes_per_s(4.8e12), "4.80 TB/s"),
        (units.format_flops_per_s(989.4e12), "989 TFLOP/s"),
        (units.format_rate(1250), "1,250 /s"),
        (units.format_rate(0.25), "0.250 /s"),
        (units.format_usd(35.9), "35.90 USD"),
        (units.format_usd(-1e-12), "0.00 USD"),
        (units.format_usd(12400), "12,400 USD"),
        (units.format_usd_per_hour(35.9), "35.90 USD/h"),
        (units.format_usd_per_mtok(0.042), "0.042 USD/Mtok"),
        (units.format_usd_per_mtok(1.2), "1.20 USD/Mtok"),
        (units.format_watts(92400), "92.4 kW"),
        (units.format_count(12345), "12,345"),
        (units.format_count(61.44), "61.4"),
        (units.format_fraction(0.873), "87.3%"),
    ],
)
def test_shows(shown: str, text: str) -> None:
    assert shown == text
