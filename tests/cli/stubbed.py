"""Runs the program in a process of its own on a hand-built plan: `python stubbed.py PLAN ARGUMENT…`.

PLAN is a name of `hand_plans`, or BUG or INTERRUPT for a computation that fails or is stopped.
"""

from __future__ import annotations

import sys

import hand_plans

import planner.files.scenario
import planner.sizing
from planner.cli.main import main
from planner.records import Plan, Scenario


def compute(scenario: Scenario) -> Plan:
    """The plan asked for, whatever the scenario."""
    if wanted == "BUG":
        raise RuntimeError("a formula\nwent wrong")
    if wanted == "INTERRUPT":
        raise KeyboardInterrupt
    plan: Plan = getattr(hand_plans, wanted)
    return plan


wanted = sys.argv.pop(1)
planner.files.scenario.load_scenario = lambda path, catalog_dirs=(), open_catalog=None, judge=None: hand_plans.SCENARIO
planner.sizing.size = compute  # type: ignore[attr-defined]
planner.sizing.evaluate = compute  # type: ignore[attr-defined]
sys.exit(main())
