"""No plan that `size` finds is one that its engine or connector refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_scenarios import engine, scenario

from planner.engines.rules import why_not
from planner.sizing import size


@pytest.mark.parametrize(
    ("name", "connector"),
    [("vllm", "nixl"), ("vllm", "nixl/llm-d"), ("vllm", "lmcache"), ("sglang", "mooncake"), ("tensorrt-llm", "nixl")],
)
def test_plans_run_on_their_engine(name: str, connector: str) -> None:
    asked = replace(scenario(), engine=replace(engine(name), connector=connector))
    plan = size(asked)
    found = [plan.deployment, *(other.deployment for other in plan.alternatives)]
    for deployment in found:
        assert deployment is not None
        reason = why_not(
            asked.engine, deployment.mode, deployment.prefill, deployment.decode, asked.model, asked.weights
        )
        assert reason == ""
        assert deployment.decode.max_batch % deployment.decode.dp == 0
