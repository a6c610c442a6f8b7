"""The shipped examples and their plans, sized once per process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import planner
from planner.records import Deployment, Plan, Scenario
from planner.serving.role import Role, build_role
from planner.serving.traffic import Traffic, traffic

FOLDER = Path(__file__).parents[2] / "docs" / "examples"
# Examples with caches are left out: the witnesses here compute every token of a prompt.
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml") if not path.stem.startswith("kv-")))


@cache
def scenario(name: str) -> Scenario:
    return planner.load_scenario(FOLDER / f"{name}.yaml")


@cache
def plan(name: str) -> Plan:
    return planner.size(scenario(name))


@cache
def load(name: str) -> Traffic:
    return traffic(scenario(name).workload)


def chosen(name: str) -> Deployment:
    deployment = plan(name).deployment
    assert deployment is not None
    return deployment


def roles(name: str, deployment: Deployment) -> tuple[Role, Role]:
    """The prefill and the decode worker of a disaggregated deployment."""
    question, given = scenario(name), load(name)
    assert deployment.prefill is not None
    first, second = deployment.prefill, deployment.decode
    return (
        build_role(question, given, "prefill", first, question.accelerator(first.accelerator)),
        build_role(question, given, "decode", second, question.accelerator(second.accelerator)),
    )
