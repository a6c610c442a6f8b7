from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.files.nearest import did_you_mean, nearest

NAMES = ["h100-sxm", "h200-sxm", "b200", "gb200"]


def test_nearest() -> None:
    assert nearest("h100-smx", NAMES) == "h100-sxm"
    assert nearest("H100-SXM", NAMES) == "h100-sxm"
    assert nearest("h100", NAMES) == "h100-sxm"  # a part of a name is near it
    assert nearest("zebra", NAMES) == ""


def test_sentence() -> None:
    assert did_you_mean("h20-sxm", NAMES) == 'did you mean "h200-sxm"?'
    assert did_you_mean("zebra", NAMES) == "known: h100-sxm, h200-sxm, b200, gb200"
    assert did_you_mean("zebra", [f"name{n}" for n in range(20)]).endswith("name11 and 8 more")
    assert did_you_mean("zebra", []) == "none is known"


@given(st.text(), st.lists(st.text(max_size=10), max_size=5))
def test_nearest_is_one_of_them(name: str, known: list[str]) -> None:
    assert nearest(name, known) in ["", *known]
