"""Axes of a map: what people write, and every way to get it wrong."""

from __future__ import annotations

import pytest

from planner.errors import InputError
from planner.files.axes import check_size, read_axes


def test_a_range_is_log_spaced_between_its_ends() -> None:
    x, y = read_axes("input_tokens=256..131072:10", "itl=10ms..40ms:3")
    assert x.name == "input_tokens" and len(x.values) == 10
    assert x.values[0] == 256.0 and x.values[-1] == 131072.0 and x.values[1] == pytest.approx(512.0)
    assert y.values == pytest.approx((0.01, 0.02, 0.04))  # base units


def test_spellings_people_know_are_taken() -> None:
    x, y = read_axes("isl=1..10", "clients=1..8")
    assert (x.name, y.name) == ("input_tokens", "concurrency") and len(x.values) == 40
    x, y = read_axes("nic=100Gb/s..400Gb/s:2", "rate=1 /s..10 /s:2")
    assert x.values == (12.5e9, 50e9) and y.values == (1.0, 10.0)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ("input_tokens", "want NAME=low..high"),
        ("input_token=1..2", 'did you mean "input_tokens"'),
        ("color=1..2", "not a quantity a map can vary"),
        ("input_tokens=", "is not a range"),
        ("input_tokens=1024", "is not a range"),
        ("input_tokens=..1024", "is not a range"),
        ("input_tokens=1024..256", "is reversed"),
        ("input_tokens=256..256", "is empty"),
        ("input_tokens=256..1024 s", "has a unit"),
        ("itl=10..20", "has no unit"),
        ("itl=10 ms..1 s", "mixes ms and s"),
        ("itl=10 GB..20 GB", "not a time"),
        ("rate=0/s..10/s", "out of range"),
        ("rate=-1/s..10/s", "negative"),
        ("input_tokens=1..1e99", "out of range"),
        ("input_tokens=1..10:0", "at least 2"),
        ("input_tokens=1..10:many", "not a number of points"),
        ("input_tokens=1..10:1", "1 points; want at least 2"),
        ("input_tokens=1..10:1000000000", "1,000,000,000 points; want at least 2, at most 1,000,000"),
        ("network=100GB..200GB", "not a rate"),
    ],
)
def test_faults_say_what_to_write(x: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_axes(x, "output_tokens=10..1000")
    assert said in str(caught.value)


def test_faults_of_both_axes_come_together() -> None:
    with pytest.raises(InputError) as caught:
        read_axes("inputs=1..2", "itl=2ms..1ms")
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        ("itl=1ms..2ms", "itl=1ms..2ms", "vary two different"),
        ("rate=1/s..2/s", "concurrency=1..2", "open loop"),
    ],
)
def test_axes_that_exclude_each_other(x: str, y: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_axes(x, y)


def test_a_huge_grid_needs_a_yes() -> None:
    axes = read_axes("input_tokens=1..10:2000", "output_tokens=1..10:600")
    with pytest.raises(InputError, match="--yes"):
        check_size(axes, 1, allowed=False)
    check_size(axes, 1, allowed=True)
