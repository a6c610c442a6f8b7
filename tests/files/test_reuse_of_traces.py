"""Hit ratios of whole public traces against an independent program's, to its printed digits."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from real_traces import DATA, unpacked

from planner.files.traces import load_traces
from planner.records import Trace
from planner.reuse import BlockRequests, TraceReuse, reuse_curve, working_set
from planner.reuse.stack_distance import leaf_first_distances, lru_distances, prefix_distances

PRINTED = 1e-6


def expected() -> dict[str, list[dict[str, str]]]:
    by_trace = defaultdict(list)
    with (DATA / "expected_reuse.csv").open() as stream:
        for row in csv.DictReader(stream):
            by_trace[row["trace"]].append(row)
    return by_trace


EXPECTED = expected()


def requests_of(trace: Trace) -> BlockRequests:
    assert trace.blocks is not None
    blocks = trace.blocks
    return BlockRequests(blocks.ids, blocks.offsets, trace.input_tokens, trace.output_tokens, blocks.block_tokens)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.mark.parametrize("name", EXPECTED)
def test_every_rule_on_every_trace(name: str, folder: Path) -> None:
    file, _, stagger = name.partition("@stagger=")
    trace = load_traces([unpacked(file, folder)], stagger_s=float(stagger) if stagger else None)
    source, rows = requests_of(trace), EXPECTED[name]
    lru, leaf_first = reuse_curve(source), reuse_curve(source, "leaf-first")
    together = prefix_distances(leaf_first_distances(source, leaf_first=False), source.offsets)
    capacities = np.array([float(row["capacity_blocks"]) for row in rows])
    counts = (source.requests, source.blocks.size, lru.distinct_blocks, source.block_tokens or 0)
    assert counts == tuple(int(rows[0][key]) for key in ("requests", "block_refs", "distinct_blocks", "block_size"))
    for column, ratios in (
        ("hit_ratio", lru.hit_ratio(capacities)),
        ("hit_ratio_plain", TraceReuse(source, "lru", lru_distances(source)).hit_ratio(capacities)),
        ("hit_ratio_lookup_first", TraceReuse(source, "lru", together).hit_ratio(capacities)),
        ("hit_ratio_leaf_first", leaf_first.hit_ratio(capacities)),
        ("token_hit_ratio", lru.token_hit_ratio(capacities)),
    ):
        if rows[0][column]:
            assert ratios == pytest.approx([float(row[column]) for row in rows], abs=PRINTED), column
        else:
            assert ratios is None


def test_the_working_set_estimates_the_curve(folder: Path) -> None:
    """Read as a capacity, a window gives the hit ratio by the share that comes back within it (Denning)."""
    name = "mooncake_conversation_5k.jsonl"
    source = requests_of(load_traces([unpacked(name, folder)]))
    capacities = [float(row["capacity_blocks"]) for row in EXPECTED[name]]
    estimate = working_set(source, in_seconds=False).hit_ratio(capacities)
    assert estimate == pytest.approx(reuse_curve(source).hit_ratio(capacities), abs=0.015)
