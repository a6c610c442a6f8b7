"""Roots of falling functions."""

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.queueing.roots import falling_root


@given(root=st.floats(1e-3, 1e3), power=st.floats(0.2, 8.0), span=st.floats(1.01, 1e3))
@settings(max_examples=200, deadline=None)
def test_the_root_of_a_power_is_found_in_few_steps(root, power, span):
    asked = []

    def excess(x):
        asked.append(x)
        return power * log(root / x)

    found = falling_root(excess, root / span, root * span)
    assert found == pytest.approx(root, rel=1e-8)
    assert all(root / span <= x <= root * span for x in asked)
    assert len(asked) < 60


def test_a_step_is_found_by_its_bracket():
    assert falling_root(lambda x: 1.0 if x < 0.7 else -1e-3, 0.0, 5.0) == pytest.approx(0.7, rel=1e-8)
