"""A size that holds at the load asked but loses its hits just beyond is passed over, and said to be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import small_scenarios as small

from planner import sizing
from planner.records import KvTier, Lengths, Scenario, Sessions, Target
from planner.serving.flow import plant_of
from planner.serving.residency import MARGIN_FRACTION, cliffs, on_edge, settled, sweep
from planner.sizing.tier_choice import chosen

DRAM = KvTier("host-dram", "host-dram", "DDR5", None, 8e12, 0.0, 500e9, 500e9, 0.5e-3, 5e-4, link_factor=0.79)
CHATS = Sessions(750, 10, 2000.0, 1000.0, 500.0, 300.0, 20.0, 1.0)


def in_sessions(*tiers: KvTier) -> Scenario:
    """Memory alone finds too little, 128 GB just enough."""
    own = np.arange(10) * 800.0 + 3000.0
    base = small.scenario((small.boxes_of(2),), deployment=small.SPLIT)
    lengths = Lengths(own, np.full(10, 300.0), np.full(10, 0.1))
    workload = replace(base.workload, lengths=lengths, sessions=CHATS, requests_per_s=30.0)
    return replace(base, workload=workload, tiers=tiers, targets=(Target("ttft", "mean", 1.0),))


def margin(scenario: Scenario) -> float:
    """Of the load at which half of the hits of the last place are lost, what is left above the load asked."""
    plant = plant_of(scenario, small.SPLIT)
    lost = cliffs(plant, sweep(plant, [0.1, 0.5, 1.0, 1.5, 3.0, 6.0]))[-1].lost_at_factor
    assert lost is not None
    return 1.0 - 1.0 / lost


def test_a_size_at_the_edge_is_passed_over() -> None:
    found = chosen(in_sessions(DRAM), small.SPLIT)
    assert margin(found) > MARGIN_FRACTION
    smaller = in_sessions(replace(DRAM, capacity_bytes=(found.tiers[0].capacity_bytes or 0.0) / 2.0))
    assert 0.0 < margin(smaller) < MARGIN_FRACTION
    assert any("would do at the load asked, but its hits are lost at less than 18% more" in n.text for n in found.notes)


def test_a_given_size_at_the_edge_is_said_to_be() -> None:
    given = in_sessions(replace(DRAM, capacity_bytes=128e9))
    plant = plant_of(given, small.SPLIT)
    assert on_edge(plant, settled(plant, "cold"))
    assert any("hits stand at the edge" in note.text for note in sizing.evaluate(given).notes)
    roomy = in_sessions(replace(DRAM, capacity_bytes=1e12))
    assert not any("hits stand at the edge" in note.text for note in sizing.evaluate(roomy).notes)
