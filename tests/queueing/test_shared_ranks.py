"""Chunked prefill beside decoding on ranks that step together, against physics and the token-step simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueing_cases import ranks, table

from planner.queueing import ServiceLaw, chunked
from planner.queueing.mean_gap import averaged_gap_quantile_s
from planner.queueing.shared_ranks import LEVELS, shared_ranks


@dataclass(frozen=True)
class Steps:
    """Linear steps: base + c b/ranks + e tokens on the slowest rank, and a part of all."""

    ranks: int = 1
    base_s: float = 0.01
    sequence_s: float = 1e-4
    token_s: float = 5e-5
    shared_token_s: float = 0.0

    def rank_s(self, batch: float, tokens: np.ndarray) -> np.ndarray:
        return self.base_s + self.sequence_s * batch / self.ranks + self.token_s * tokens

    def shared_s(self, batch: float, tokens: np.ndarray) -> np.ndarray:
        return self.shared_token_s * (batch + tokens)


def test_seldom_prompts_leave_gaps_alone() -> None:
    point = shared_ranks(1e-4, ServiceLaw.deterministic(500.0), 101.0, 4, 2048.0, Steps(4))
    # a lone request decodes in steps of 10 ms; its prompt took 10 + 25 ms in one chunk
    assert point.mean_gap_s == pytest.approx(0.010, rel=0.01)
    assert point.first.own_s == pytest.approx([0.035], rel=0.01)
    assert point.batch == pytest.approx(1e-4 * 100.0 * 0.010, abs=2e-3)


def test_one_rank_agrees_with_the_chunked_engine() -> None:
    law = ServiceLaw.gamma(1000.0, 0.5)
    point = shared_ranks(3.0, law, 200.0, 1, 512.0, Steps())
    known = chunked(3.0, law.values_s, law.weights, 200.0, 0.01, 1e-4, 5e-5, 512.0)
    assert point.mean_gap_s == pytest.approx(float(known.mean_itl_s), rel=0.05)
    wait = float(np.trapezoid(point.first.tails, point.first.times_s)) + point.residual_s
    assert wait + float(law.weights @ point.first.own_s) == pytest.approx(float(known.ttft_mean_s), rel=0.08)


@pytest.mark.parametrize("ranks_count", [1, 4])
@pytest.mark.parametrize("law", [ServiceLaw.deterministic(20.0), ServiceLaw.gamma(20.0, 0.5)])
def test_a_budget_that_no_step_reaches_is_as_good_as_an_endless_one(ranks_count: int, law: ServiceLaw) -> None:
    """Cells as wide as several short prompts would take steps that read one for steps that read none."""
    steps = Steps(ranks_count, token_s=2e-4)
    near, far = (shared_ranks(40.0, law, 60.0, ranks_count, budget, steps) for budget in (1024.0, 16384.0))
    assert far.mean_gap_s == pytest.approx(near.mean_gap_s, rel=0.01)
    assert far.mixed_share == pytest.approx(near.mixed_share, rel=0.05)
    assert far.load < near.load
    # one rank: a step is plain where nobody came in the one before, and requests begin behind one that was not
    if ranks_count == 1:
        assert far.mixed_share >= 0.9 * -np.expm1(-40.0 * far.decode_s)


@dataclass(frozen=True)
class JumpingSteps(Steps):
    """Any prompt token makes a step longer at once, as a second kernel does."""

    def rank_s(self, batch: float, tokens: np.ndarray) -> np.ndarray:
        return super().rank_s(batch, tokens) + 0.005 * (tokens > 0.0)


@pytest.mark.parametrize(("rate", "budget"), [(5.0, 1024.0), (8.0, 720.0), (9.0, 720.0)])
def test_a_settled_batch_is_the_one_its_gaps_lead_to(rate: float, budget: float) -> None:
    law = ServiceLaw(np.array([500.0, 1500.0, 6000.0]), np.array([0.51, 0.33, 0.16]))
    point = shared_ranks(rate, law, 250.0, 1, budget, JumpingSteps(base_s=0.007, sequence_s=5e-5, token_s=3e-5))
    assert point.stable
    assert point.batch == pytest.approx(rate * 249.0 * point.mean_gap_s, rel=1.5e-3)  # Little's law


@settings(max_examples=15)
@given(rate=st.floats(0.2, 6.0), count=st.integers(2, 16))
def test_load_lengthens_gaps_and_first_tokens(rate: float, count: int) -> None:
    law, steps = ServiceLaw.gamma(1500.0, 1.0), Steps(count, shared_token_s=1e-6)
    light, heavy = (shared_ranks(each, law, 150.0, count, 2048.0, steps) for each in (rate, 1.5 * rate))
    assert light.stable
    if heavy.stable:
        assert heavy.mean_gap_s >= light.mean_gap_s * 0.999
        assert law.weights @ heavy.first.own_s >= law.weights @ light.first.own_s * 0.995
    assert np.all(np.diff(light.gaps_s) >= 0.0)
    assert np.all(np.diff(light.first.tails) <= 0.0)
    # Little: requests that decode are arrivals times their gaps
    assert light.batch == pytest.approx(rate * 149.0 * light.mean_gap_s, rel=0.02, abs=0.01)


def test_more_than_a_step_holds_never_settles() -> None:
    point = shared_ranks(400.0, ServiceLaw.deterministic(2000.0), 100.0, 4, 2048.0, Steps(4))
    assert not point.stable
    assert point.load >= 1.0
    assert np.all(np.isinf(point.gaps_s))


@pytest.mark.parametrize(
    ("rate", "count", "budget"), [(0.0, 2, 512.0), (np.nan, 2, 512.0), (1.0, 0, 512.0), (1.0, 2, 0.0)]
)
def test_what_makes_no_sense_is_refused(rate: float, count: int, budget: float) -> None:
    with pytest.raises(ValueError, match="arrivals_per_s"):
        shared_ranks(rate, ServiceLaw.deterministic(100.0), 10.0, count, budget, Steps())


def test_means_of_many_gaps_close_in() -> None:
    # variance 4 of one gap and of none in common: of 100 gaps it is 0.04, P97.7 two deviations above the mean
    wide = averaged_gap_quantile_s(0.97725, [100.0], [1.0], 10.0, (4.0, 4.0), 30.0)
    assert wide == pytest.approx(10.4, rel=0.002)
    assert averaged_gap_quantile_s(0.97725, [1.0], [1.0], 10.0, (4.0, 40.0), 30.0) == pytest.approx(14.2, rel=0.02)


def test_against_simulated_workers() -> None:
    errors: dict[str, list[float]] = {}
    for row in table.read("shared_ranks.csv")[:24]:  # R25 is marked: its batch hardly settles
        for name, value in ranks.shared(row).items():
            errors.setdefault(name, []).append(abs(value / float(row[name]) - 1.0))
    limits = {"batch": (0.05, 0.12), "itl": (0.05, 0.12), "itl99": (0.04, 0.10), "ttft": (0.03, 0.09)}
    for name, (median, high) in limits.items():
        assert np.median(errors[name]) < median, name
        assert np.quantile(errors[name], 0.9) < high, name
    assert LEVELS[0] == 0.0
    assert LEVELS[-1] > 0.9999
