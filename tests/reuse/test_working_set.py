"""Denning's working set by hand, against a scan of every window, and as an estimate of the exact curve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reuse import BlockRequests, WorkingSet, independent_hit_ratio, reuse_curve, working_set

uses = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), min_size=2, max_size=25).filter(
    lambda pairs: sum(step for _, step in pairs[1:]) > 0
)


def timed(blocks: list[int], times: list[float]) -> BlockRequests:
    """One block a request."""
    ones = np.ones(len(blocks))
    return BlockRequests(
        np.array(blocks, dtype=np.int64), np.arange(len(blocks) + 1), ones, ones, 1, np.array(times, dtype=float)
    )


def test_by_hand() -> None:
    # a at 0 and 4, b at 1, end at 10 with c: within the last 3 s there is a in [0, 3) and [4, 7), b in [1, 4)
    held = working_set(timed([0, 1, 0, 2], [0, 1, 4, 10]))
    assert held.between.tolist() == [4]
    assert float(held.blocks(3.0)) == pytest.approx((3 + 3 + 3) / 10)
    # without limit: a in all 10 s, b in 9
    assert float(held.blocks(100.0)) == pytest.approx((10 + 9) / 10)
    assert held.reused_within([3.9, 4.0]).tolist() == [0, 0.25]


@given(uses, st.integers(1, 12))
def test_it_is_the_time_average_of_blocks_in_the_window(pairs: list[tuple[int, int]], window: int) -> None:
    times = np.cumsum([0, *(step for _, step in pairs[1:])])
    blocks = [block for block, _ in pairs]
    held = working_set(timed(blocks, times.tolist()))
    moments = np.arange(0, times[-1]) + 0.5  # uses fall on whole seconds, so each half second stands for its second
    seen = [len({b for b, t in zip(blocks, times, strict=True) if now - window < t < now}) for now in moments]
    assert float(held.blocks(float(window))) == pytest.approx(np.mean(seen))


@given(uses)
def test_grows_and_bends_down(pairs: list[tuple[int, int]]) -> None:
    times = np.cumsum([0, *(step for _, step in pairs[1:])])
    held = working_set(timed([block for block, _ in pairs], times.tolist()))
    sizes = held.blocks(np.linspace(0, float(times[-1]), 30))
    assert sizes[0] == 0
    assert (np.diff(sizes) >= -1e-9).all()
    assert (np.diff(sizes, 2) <= 1e-9).all()  # concave: ds/dT is the share not yet reused


def zipf_stream(blocks: int, references: int) -> tuple[np.ndarray, np.ndarray]:
    popularity = 1.0 / np.arange(1, blocks + 1)
    draw = np.random.default_rng(3).choice(blocks, references, p=popularity / popularity.sum())
    return draw, popularity


@pytest.mark.parametrize("capacity", [20, 100, 400])
def test_both_estimates_meet_an_exact_cache_on_independent_references(capacity: int) -> None:
    draw, popularity = zipf_stream(1000, 40_000)
    source = timed(draw.tolist(), list(range(draw.size)))
    exact = float(reuse_curve(source).hit_ratio(capacity))
    assert float(working_set(source).hit_ratio(capacity)) == pytest.approx(exact, abs=0.01)
    # the trace starts cold, the formula does not: at most `capacity` of its references
    assert independent_hit_ratio(popularity, capacity) == pytest.approx(exact, abs=0.01 + capacity / draw.size)


def test_equal_popularity_by_hand() -> None:
    # n blocks alike: the chance to be among the last C is C / n
    assert independent_hit_ratio(np.ones(50), 20) == pytest.approx(0.4)
    assert independent_hit_ratio([3, 1, 0], 2) == 1
    assert independent_hit_ratio([3, 1, 0], 0) == pytest.approx(0, abs=1e-12)


def test_che_promises_too_much_for_sessions() -> None:
    # 400 sessions of 10 uses, one after another, never to return: at best 9 of 10 are found, in one block
    blocks = np.repeat(np.arange(400), 10)
    source = timed(blocks.tolist(), list(range(blocks.size)))
    assert float(working_set(source).hit_ratio(400)) == 0.9
    assert independent_hit_ratio(np.bincount(blocks), 400) == 1


def test_refusals() -> None:
    with pytest.raises(ValueError, match="requests have no time_s"):
        working_set(BlockRequests(np.array([1, 1]), np.array([0, 2]), np.ones(1), np.ones(1)))
    with pytest.raises(ValueError, match="all come at one time"):
        working_set(timed([1, 1], [5, 5]))
    for popularity in ([], [0.0], [-1.0, 2.0]):
        with pytest.raises(ValueError, match="popularity"):
            independent_hit_ratio(popularity, 1)


def test_references_serve_as_a_clock() -> None:
    source = BlockRequests(np.array([1, 2, 1, 2]), np.array([0, 2, 4]), np.ones(2), np.ones(2))
    held: WorkingSet = working_set(source, in_seconds=False)
    assert (held.between.tolist(), held.between_uses.tolist()) == ([2], [2])
    assert held.duration == 3
