"""Shared pools whose workers have attention ranks are offered where prompts go in chunks, and win where they should."""

from __future__ import annotations

import pytest
import small_scenarios as small

from planner.records import Pool, Scenario, Target
from planner.serving.role import Role
from planner.serving.traffic import scenario_traffic
from planner.sizing import colocated
from planner.sizing.cost import price_basis
from planner.sizing.search import Candidate


def offered(question: Scenario, basis: str) -> list[tuple[Pool, Role]]:
    return colocated.shapes_worth_sizing(question, scenario_traffic(question), question.targets, basis)


def test_ranks_are_offered_to_chunks_alone() -> None:
    question = small.scenario(("h200-sxm",), "Qwen/Qwen3-30B-A3B", requests_per_s=30.0)
    in_step = [role for _, role in offered(question, "rent3y") if role.dp > 1]
    assert in_step
    assert all(colocated.is_sized(role, "colocated-chunked") for role in in_step)
    assert not any(colocated.is_sized(role, "colocated-whole-prompt") for role in in_step)


@pytest.mark.slow
def test_ranks_share_experts_that_replicas_would_copy() -> None:
    """235 billion parameters at 8 bits: workers of four ranks hold one copy of the experts together."""
    question = small.scenario(
        ("h200-sxm",),
        "Qwen/Qwen3-235B-A22B",
        weights="fp8",
        requests_per_s=24.0,
        lengths=small.fixed_lengths(1500.0, 300.0),
        targets=(Target("ttft", "p99", 2.0), Target("itl", "p99", 0.12)),
    )
    basis = price_basis(question.decode_accelerators, "rent3y")
    shapes = offered(question, basis)

    def best(among: list[tuple[Pool, Role]]) -> Candidate:
        load = scenario_traffic(question)
        return colocated.search(question, load, "colocated-chunked", question.targets, basis, among).candidates[0]

    found, alone = best(shapes), best([(pool, role) for pool, role in shapes if role.dp == 1])
    assert found.deployment.decode.dp > 1
    assert found.accelerators <= alone.accelerators
    assert found.violation < alone.violation
