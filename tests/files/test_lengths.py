"""Length laws: matched to their statistics, cut into atoms that keep them, and reduced from traces."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.files import lengths
from planner.files.lengths import Marginal, atoms, from_mean_p99, from_mean_scv, from_p50_p99, from_rows, independent
from planner.records import Floats


def quantile(values: Floats, weights: Floats, probability: float) -> float:
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), probability - 1e-12)])


def test_mean_and_p99_by_hand() -> None:
    # ln(16000 / 4000) = 1.386294; 2.326348^2 = 5.411894; sqrt(5.411894 - 2.772589) = 1.624594
    # sigma = 2.326348 - 1.624594 = 0.701754; mu = ln 4000 - 0.701754^2 / 2 = 8.294050 - 0.246229 = 8.047820
    law = from_mean_p99(4000, 16000)
    assert law.sigma == pytest.approx(0.701754, abs=1e-6)
    assert law.mu == pytest.approx(8.047820, abs=1e-6)
    assert law.mean == pytest.approx(4000)
    assert law.p99 == pytest.approx(16000)


def test_mean_and_scv_by_hand() -> None:
    # sigma^2 = ln(1 + 1) = 0.693147; the second moment is mean^2 (1 + scv) = 2e6
    law = from_mean_scv(1000, 1)
    assert law.sigma**2 == pytest.approx(0.693147, abs=1e-6)
    assert exp(2 * law.mu + 2 * law.sigma**2) == pytest.approx(2e6)


def test_p50_and_p99_by_hand() -> None:
    law = from_p50_p99(200, 2000)  # sigma = ln 10 / 2.326348 = 0.989785
    assert law.sigma == pytest.approx(0.989785, abs=1e-6)
    assert exp(law.mu) == pytest.approx(200)
    assert law.p99 == pytest.approx(2000)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: from_mean_p99(400, 300), "p99 300 is below the mean 400"),
        (lambda: from_mean_p99(100, 1500), "no lognormal has a p99 of 1500 with a mean of 100"),  # 15.0 > 14.97
        (lambda: from_p50_p99(300, 200), "p99 200 is below p50 300"),
        (lambda: from_p50_p99(1, 1e6), "wider than any length law"),
        (lambda: from_mean_scv(100, 201), "scv 201 is wider than any length law"),
    ],
)
def test_impossible_laws(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        build()  # type: ignore[operator]


def test_the_widest_mean_and_p99_is_accepted() -> None:
    assert from_mean_p99(100, 1496).sigma == pytest.approx(lengths.Z99, abs=0.05)


def test_no_spread_is_one_atom() -> None:
    for law in (lengths.fixed(500), from_mean_p99(500, 500), from_mean_scv(500, 0), from_p50_p99(500, 500)):
        values, weights = atoms(law, 64)
        assert values == pytest.approx([500])
        assert weights == pytest.approx([1])
    joint = independent(lengths.fixed(4000), lengths.fixed(500))
    assert joint.weights.size == 1


@given(st.floats(1, 1e5), st.floats(0, 5), st.sampled_from([16, 32, 64]))
def test_atoms_keep_the_mean(mean: float, scv: float, most: int) -> None:
    values, weights = atoms(from_mean_scv(mean, scv), most)
    assert values.size <= most
    assert weights.sum() == pytest.approx(1)
    assert weights @ values == pytest.approx(mean, rel=1e-9)
    assert values.min() >= 1 - 1e-12
    assert (weights > 0).all()


@given(st.floats(100, 1e5), st.floats(1.05, 10), st.sampled_from([32, 64]))
def test_atoms_keep_the_p99(mean: float, ratio: float, most: int) -> None:
    law = from_mean_p99(mean, mean * ratio)
    values, weights = atoms(law, most)
    if exp(law.mu) > 20:  # rounding up to one token does not reach the tail
        assert quantile(values, weights, 0.99) == pytest.approx(law.p99, rel=0.64 / most)


def test_atoms_keep_the_second_moment() -> None:
    values, weights = atoms(from_mean_scv(4000, 0.64), 64)
    assert weights @ values**2 == pytest.approx(4000**2 * 1.64, rel=0.002)


def test_joint_law_is_a_product() -> None:
    joint = independent(Marginal(8, 0.7), Marginal(6, 0.7))
    assert joint.weights.size == 64 * 32
    assert joint.weights.sum() == pytest.approx(1)
    input_mean, output_mean = exp(8 + 0.245), exp(6 + 0.245)
    assert joint.weights @ joint.input_tokens == pytest.approx(input_mean)
    assert joint.weights @ (joint.input_tokens * joint.output_tokens) == pytest.approx(input_mean * output_mean)


def test_rows_that_repeat_are_one_atom() -> None:
    joint = from_rows(np.array([10.0, 20, 10, 10]), np.array([1.0, 2, 1, 3]))
    assert joint.input_tokens.tolist() == [10, 10, 20]
    assert joint.output_tokens.tolist() == [1, 3, 2]
    assert joint.weights.tolist() == [0.5, 0.25, 0.25]


@pytest.mark.parametrize("rows", [2049, 3000, 50_000])
def test_many_rows_are_merged(rows: int) -> None:
    random = np.random.default_rng(rows)
    inputs = np.rint(random.lognormal(7, 1, rows)) + 1
    outputs = np.rint(random.lognormal(5, 1, rows) + inputs / 50) + 1
    joint = from_rows(inputs, outputs)
    assert joint.weights.size <= lengths.MOST_ATOMS
    assert joint.weights.sum() == pytest.approx(1)
    assert joint.weights @ joint.input_tokens == pytest.approx(inputs.mean(), rel=1e-12)
    assert joint.weights @ joint.output_tokens == pytest.approx(outputs.mean(), rel=1e-12)
    assert joint.weights @ joint.input_tokens**2 == pytest.approx((inputs**2).mean(), rel=0.01)
    product = (inputs * outputs).mean()
    assert joint.weights @ (joint.input_tokens * joint.output_tokens) == pytest.approx(product, rel=0.01)
    for probability in (0.5, 0.9, 0.99):
        for column, law in ((inputs, joint.input_tokens), (outputs, joint.output_tokens)):
            own = float(np.quantile(column, probability))
            assert quantile(law, joint.weights, probability) == pytest.approx(own, rel=0.08)
