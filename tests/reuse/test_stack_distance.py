"""Exact curves against a least-recently-used cache written with an OrderedDict, by hand, and against physics."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reuse import BlockRequests, reuse_curve
from planner.reuse.counting import smaller_before
from planner.reuse.records import EVICTIONS, Eviction
from planner.reuse.stack_distance import MOST_ATOMS, leaf_first_distances, lru_distances

Chains = list[list[int]]
chains = st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=1, max_size=12)


def requests(rows: Chains, block_tokens: int | None = 4, input_tokens: list[int] | None = None) -> BlockRequests:
    prompts = input_tokens or [len(row) * (block_tokens or 1) for row in rows]
    return BlockRequests(
        blocks=np.array([block for row in rows for block in row], dtype=np.int64),
        offsets=np.cumsum([0, *map(len, rows)], dtype=np.int64),
        input_tokens=np.array(prompts, dtype=float),
        output_tokens=np.arange(1.0, len(rows) + 1),
        block_tokens=block_tokens,
    )


def replayed(rows: Chains, capacity: int, eviction: Eviction) -> list[int]:
    """Blocks found by each request in a cache that is really kept."""
    cache: OrderedDict[int, None] = OrderedDict()
    found = []

    def touch(block: int) -> None:
        cache[block] = None
        cache.move_to_end(block)
        if len(cache) > capacity:
            cache.popitem(last=False)

    for row in rows:
        hits, unbroken = 0, True
        for block in row:
            unbroken = unbroken and block in cache
            hits += unbroken
            if eviction == "lru":
                touch(block)
        if eviction == "leaf-first":
            for block in reversed(row):
                touch(block)
        found.append(hits)
    return found


@given(chains, st.integers(1, 20), st.sampled_from(EVICTIONS))
def test_hits_are_those_of_a_real_cache(rows: Chains, capacity: int, eviction: Eviction) -> None:
    reuse = reuse_curve(requests(rows), eviction)
    assert reuse.hit_blocks(capacity).tolist() == replayed(rows, capacity, eviction)


@given(chains, st.sampled_from(EVICTIONS))
def test_more_capacity_never_fewer_hits_and_none_beyond_the_ceiling(rows: Chains, eviction: Eviction) -> None:
    reuse = reuse_curve(requests(rows), eviction)
    ratios = reuse.hit_ratio(np.arange(0, 25))
    tokens = reuse.token_hit_ratio(np.arange(0, 25))
    assert tokens is not None
    assert ratios[0] == 0
    assert (np.diff(ratios) >= 0).all()
    assert (np.diff(tokens) >= 0).all()
    assert ratios[-1] == reuse.ceiling <= 1
    assert tokens[-1] == reuse.token_ceiling


@given(chains, st.integers(0, 20))
def test_ratios_count_the_hits_of_requests(rows: Chains, capacity: int) -> None:
    prompts = [max(0, 4 * len(row) - 3) for row in rows]  # a last block that is not full
    reuse = reuse_curve(requests(rows, 4, prompts))
    hits = reuse.hit_blocks(capacity)
    assert float(reuse.hit_ratio(capacity)) * max(reuse.distance.size, 1) == pytest.approx(hits.sum())
    cached = np.minimum(hits * 4.0, prompts)
    assert reuse.cached_tokens(capacity).tolist() == cached.tolist()
    ratio = reuse.token_hit_ratio(capacity)
    assert ratio is not None
    assert float(ratio) * sum(prompts) == pytest.approx(cached.sum())
    assert reuse.joint_law(capacity).token_hit_ratio == pytest.approx(float(ratio))


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60))
def test_counting_by_hand(pairs: list[tuple[int, bool]]) -> None:
    values = np.array([value for value, _ in pairs], dtype=np.int64)
    counted = np.array([flag for _, flag in pairs], dtype=bool)
    expected = [sum(c for v, c in pairs[:place] if v < value) for place, (value, _) in enumerate(pairs)]
    assert smaller_before(values, counted).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60), st.integers(0, 20))
def test_counting_part_by_part_is_the_same(pairs: list[tuple[int, bool]], together: int) -> None:
    values = np.array([value for value, _ in pairs], dtype=np.int64)
    counted = np.array([flag for _, flag in pairs], dtype=bool)
    at_once = smaller_before(values, counted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.reuse.counting._TOGETHER", together)
        assert smaller_before(values, counted).tolist() == at_once.tolist()


def test_distances_by_hand() -> None:
    # 1 2 3 | 1 2 3: two other blocks since the last use and the block itself make 3
    twice = requests([[1, 2, 3], [1, 2, 3]])
    assert lru_distances(twice).tolist() == [7] * 3 + [3, 3, 3]  # 7: one more than there are references
    # touched last to first, the stack from the top is 1 2 3
    assert leaf_first_distances(twice).tolist() == [7] * 3 + [1, 2, 3]
    assert leaf_first_distances(twice, leaf_first=False).tolist() == [7] * 3 + [3, 2, 1]


def test_a_missing_first_block_hides_the_others() -> None:
    # 9 is new, so 2 and 3 are of no use although they are there
    reuse = reuse_curve(requests([[1, 2, 3], [9, 2, 3]]))
    assert reuse.hit_blocks(100).tolist() == [0, 0]
    assert (lru_distances(reuse.source) <= 6).tolist() == [False] * 4 + [True] * 2


def test_round_robin_agents_are_a_step() -> None:
    # 4 agents of 5 blocks in turn: everything is found from 20 blocks on, and nothing below
    reuse = reuse_curve(requests([[10 * agent + block for block in range(5)] for _ in range(10) for agent in range(4)]))
    assert reuse.hit_ratio([1, 19, 20, 1000]).tolist() == [0, 0, 0.9, 0.9]


def test_curve_says_what_it_rests_on() -> None:
    rows = [[1, 2], [1, 2], [1, 3], [4, 5]]
    curve = reuse_curve(requests(rows)).hit_curve([2, 3, 100])
    assert curve.capacity_tokens is not None
    assert curve.capacity_tokens.tolist() == [8, 12, 400]
    # the second distinct block is the 2nd of 8 references, the third the 6th; there are not 100
    assert curve.cold_start_fraction.tolist() == [2 / 8, 6 / 8, 1]
    assert curve.ceiling == 3 / 8
    assert (curve.requests, curve.block_tokens) == (4, 4)


def test_the_grid_spans_the_curve() -> None:
    reuse = reuse_curve(requests([[100 * turn % 700 + block for block in range(6)] for turn in range(40)]))
    curve = reuse.hit_curve()
    assert curve.capacity_blocks.size <= 20
    assert curve.capacity_blocks[0] == 6
    assert curve.hit_ratio[-1] == curve.ceiling > curve.hit_ratio[0]


def test_no_block_size_gives_block_ratios_only() -> None:
    reuse = reuse_curve(requests([[1], [1]], None))
    assert reuse.hit_ratio(1) == 0.5
    assert reuse.token_hit_ratio(1) is None
    assert reuse.token_ceiling is None
    assert reuse.hit_curve([1]).capacity_tokens is None
    with pytest.raises(ValueError, match="block_tokens is not known"):
        reuse.joint_law(1)


def test_many_requests_are_merged_with_exact_means() -> None:
    draw = np.random.default_rng(7)
    sizes = draw.integers(1, 40, 6000)
    rows = [list(range(int(size))) if draw.random() < 0.5 else [10_000 + i] * int(size) for i, size in enumerate(sizes)]
    source = requests(rows, 16, [int(16 * size - 5) for size in sizes])
    law = reuse_curve(source).joint_law(1000)
    cached = reuse_curve(source).cached_tokens(1000)
    assert law.weights.size <= MOST_ATOMS
    assert law.weights.sum() == pytest.approx(1)
    assert law.weights @ law.cached_tokens == pytest.approx(cached.mean())
    assert law.weights @ law.input_tokens == pytest.approx(source.input_tokens.mean())
    assert law.weights @ law.output_tokens == pytest.approx(source.output_tokens.mean())
    assert (law.uncached_tokens >= 0).all()
    # the second moment of what is left to compute, which sets the wait, survives the merging
    assert law.weights @ law.uncached_tokens**2 == pytest.approx(((source.input_tokens - cached) ** 2).mean(), rel=0.01)


def test_instances_see_their_own_requests() -> None:
    source = requests([[1], [2], [1], [2], [1]])
    assert reuse_curve(source).hit_ratio(1) == 0  # in turn they push each other out of one shared block
    own = source.subset([True, False, True, False, True])
    assert reuse_curve(own).hit_ratio(1) == pytest.approx(2 / 3)
    assert own.output_tokens.tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 3])}, "offsets must run from 0"),
        ({"offsets": np.array([0])}, "offsets must run from 0"),
        ({"offsets": np.array([0, 3, 1, 2])}, "offsets must not descend"),
        ({"input_tokens": np.ones(3)}, "input_tokens must hold one number for each"),
        ({"block_tokens": 0}, "block_tokens must be at least 1"),
    ],
)
def test_misshapen_requests_are_refused(change: dict[str, object], message: str) -> None:
    good = {"blocks": np.array([1, 2]), "offsets": np.array([0, 1, 2]), "input_tokens": np.ones(2)}
    if change.get("offsets") is not None and np.size(change["offsets"]) == 4:
        good["input_tokens"] = np.ones(3)
    with pytest.raises(ValueError, match=message):
        BlockRequests(**{**good, "output_tokens": np.ones(2), **change})


def test_unknown_eviction_is_refused() -> None:
    with pytest.raises(ValueError, match="eviction must be one of lru, leaf-first, got fifo"):
        reuse_curve(requests([[1]]), "fifo")  # type: ignore[arg-type]
