"""Holds cells of the map against simulation, token step by token step: docs/simulated-cells.md.

The price of a family rises in steps of whole workers. At the highest load that a price is good for, the map says, the
family's plan just keeps its targets and its headroom. That plan is simulated at several loads, which gives the load it
truly carries; dollars per request by the map and by the simulation give the winner and the advantage of both.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from planner.files.catalog import Catalog
from planner.files.models import load_model
from planner.records import Deployment, Lengths, Scenario, Target, Workload
from planner.simulation.simulate import Setting, simulate
from planner.sizing import evaluate
from planner.sizing.candidates import MAX_UTILIZATION
from planner.sizing.crossover.evaluate import evaluate_cells
from planner.sizing.crossover.map import RATIO_ERROR_FACTOR, cells_over

PAGE = Path(__file__).resolve().parent.parent / "docs" / "simulated-cells.md"
CELLS, EDGE = 30, 0.7
HEAD = """# Cells of the map, simulated

Written by `make confirm`; do not edit.

Thirty cells spread over models, lengths, loads and targets, in which both one pool and two meet the targets. The price
of a family rises in steps of whole workers. At the highest load that a price is good for, the map says, the plan just
keeps its targets and its headroom. There it is simulated token step by token step, at higher and lower loads, until the
load is known that it truly carries. The price over that load is the cost of a request; the ratio of the two families'
costs is the advantage, by the map and simulated. The headroom is a rule, and kept by both.
"""
TABLE = (
    "| model | tokens | ITL, TTFT P99 | one pool / two pools | carries by the map [req/s] | simulated over that |"
    " two pools cost over one, by the map | simulated |",
    "|---|---|---|---|---|---|---|---|",
)
FAMILIES = ("colocated-chunked", "disaggregated")
REQUESTS = 4000
STEP, FINEST = 1.06, 0.01  # of a load
STEPS = np.geomspace(1.0, 6.0, 96)
LENGTHS = Lengths(
    input_tokens=np.array([0.3, 1.0, 4.0, 0.3, 1.0, 4.0]),
    output_tokens=np.array([0.4, 0.4, 0.4, 2.0, 2.0, 2.0]),
    weights=np.array([0.3, 0.21, 0.1, 0.2, 0.13, 0.06]),
)
ENDS = {  # of the quantities that cells are spread over
    "input_tokens": (300.0, 8000.0),
    "output_tokens": (50.0, 600.0),
    "rate": (10.0, 80.0),
    "itl": (0.012, 0.08),
    "ttft": (0.4, 3.0),
}


@dataclass(frozen=True, slots=True)
class Family:
    """One family in one cell. `map_per_s` and `simulated_per_s`: the highest load that its plan carries."""

    name: str
    deployment: Deployment
    usd_per_hour: float
    map_per_s: float
    simulated_per_s: float
    idle_fraction: float  # what TTFT takes of its target with nobody else there

    def usd_per_million(self, simulated: bool) -> float:
        rate = self.simulated_per_s if simulated else self.map_per_s
        return self.usd_per_hour / 3600.0 / rate * 1e6


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A cell with both families."""

    model: str
    at: dict[str, float]
    one: Family
    two: Family

    def ratio(self, simulated: bool) -> float:
        """What two pools cost over one pool."""
        return self.two.usd_per_million(simulated) / self.one.usd_per_million(simulated)

    @property
    def off_fraction(self) -> float:
        """By how much the simulated ratio of costs differs from the map's, of the latter."""
        return abs(self.ratio(True) / self.ratio(False) - 1.0)

    @property
    def off_points(self) -> float:
        """The difference of what the cheaper family saves, in percent of what the dearer one costs."""
        saved = [(ratio - 1.0) / max(ratio, 1.0) for ratio in (self.ratio(False), self.ratio(True))]
        return 100.0 * abs(saved[1] - saved[0])

    @property
    def edge(self) -> bool:
        """Whether a target hardly leaves room for any wait: there a percent of TTFT is several of load."""
        return max(self.one.idle_fraction, self.two.idle_fraction) > EDGE

    @property
    def same_winner(self) -> bool:
        return (self.ratio(True) > 1.0) == (self.ratio(False) > 1.0)

    @property
    def tie(self) -> bool:
        return abs(np.log(self.ratio(False))) < np.log(RATIO_ERROR_FACTOR)


def questions() -> tuple[Scenario, ...]:
    """A small dense model, a large one and one of experts."""
    opened = Catalog()
    of = (
        ("meta-llama/Llama-3.1-8B", "bf16", 4),
        ("meta-llama/Llama-3.1-70B", "fp8", 8),
        ("openai/gpt-oss-120b", "", 8),
    )
    found = []
    for name, weights, box in of:
        model = load_model(name, Path())
        chip = replace(opened.accelerator("h100-sxm"), scaleup_domain=box, node_accelerators=box)
        found.append(
            Scenario(
                name=name,
                model=model,
                weights=weights or model.checkpoint_format,
                kv_dtype="bf16",
                engine=opened.engine("vllm"),
                prefill_accelerators=(chip,),
                decode_accelerators=(chip,),
                network_bytes_per_s=50e9,
                workload=Workload(10.0, LENGTHS),
                targets=(Target("ttft", "p99", 1.0), Target("itl", "p99", 0.04)),
                budgets=(),
                deployment=None,
            )
        )
    return tuple(found)


def asked(question: Scenario, at: dict[str, float]) -> Scenario:
    """The question of one cell."""
    lengths = question.workload.lengths
    means = lengths.weights @ lengths.input_tokens, lengths.weights @ lengths.output_tokens
    scaled = Lengths(
        lengths.input_tokens * at["input_tokens"] / means[0],
        np.maximum(lengths.output_tokens * at["output_tokens"] / means[1], 1.0),
        lengths.weights,
    )
    targets = (Target("ttft", "p99", at["ttft"]), Target("itl", "p99", at["itl"]))
    return replace(
        question, workload=replace(question.workload, requests_per_s=at["rate"], lengths=scaled), targets=targets
    )


def ends_of_prices(question: Scenario, at: dict[str, float]) -> dict[str, tuple[float, Deployment, float]]:
    """By family: the highest load that costs what the cell's does, with the plan and the price there."""
    values = {name: np.full(STEPS.size, value) for name, value in at.items()}
    values["rate"] = at["rate"] * STEPS
    bought = evaluate_cells(cells_over(question, values), "rent3y")
    found = {}
    for name in FAMILIES:
        one = bought[name]
        if np.isfinite(one.cost[0]):
            last = int(np.flatnonzero(one.cost <= one.cost[0] * (1.0 + 1e-9))[-1])
            deployment = one.deployments[last]
            assert deployment is not None
            found[name] = (float(values["rate"][last]), deployment, float(one.cost[last]))
    return found


def carried_per_s(question: Scenario, deployment: Deployment, start_per_s: float) -> float:
    """The highest load at which the simulation keeps the targets, within the headroom that the map keeps too."""

    def at(rate: float) -> Scenario:
        return replace(question, workload=replace(question.workload, requests_per_s=rate), deployment=deployment)

    def holds(rate: float) -> bool:
        busy = [limit.value for limit in evaluate(at(rate)).limits if limit.name.endswith("utilization")]
        if rate > start_per_s and max(busy) > MAX_UTILIZATION:
            return False
        found = simulate(at(rate), deployment, Setting(requests=REQUESTS, seed=1))
        return all(found.statistic(one.metric, one.statistic).value <= one.limit_s for one in question.targets)

    low, high = start_per_s, start_per_s * STEP
    if holds(low):
        while holds(high):
            low, high = high, high * STEP
    else:
        low, high = low / STEP, low
        while not holds(low):
            low, high = low / STEP, low
    while high / low > 1.0 + FINEST:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def idle_fraction(question: Scenario, deployment: Deployment, rate: float) -> float:
    """TTFT at a hundredth of the load over its target."""
    quiet = replace(question.workload, requests_per_s=0.01 * rate)
    found = evaluate(replace(question, workload=quiet, deployment=deployment)).prediction
    assert found is not None
    return max(found.ttft_s[one.statistic] / one.limit_s for one in question.targets if one.metric == "ttft")


def confirmed(count: int) -> Iterator[Confirmed]:
    """Cells in which both families fit, until there are so many."""
    rng, of = np.random.default_rng(11), questions()
    made = 0
    while made < count:
        at = {name: float(np.exp(rng.uniform(*np.log(ends)))) for name, ends in ENDS.items()}
        question = of[made % len(of)]
        found = ends_of_prices(question, at)
        if len(found) < len(FAMILIES):
            continue
        families = [
            Family(
                name,
                plan,
                usd,
                rate,
                carried_per_s(asked(question, at), plan, rate),
                idle_fraction(asked(question, at), plan, rate),
            )
            for name, (rate, plan, usd) in found.items()
        ]
        made += 1
        yield Confirmed(question.name, at, *families)


def summary(found: Sequence[Confirmed]) -> str:
    """The outcome in words."""
    off = np.array([one.off_fraction for one in found])
    other = [one for one in found if not one.same_winner]
    ties = sum(one.tie for one in other)
    told = f"; of the other {len(other)} the map calls {ties} a tie" if other else ""
    near = np.array([one.edge for one in found])
    points = np.array([one.off_points for one in found])
    parts = (
        f"The same winner in {len(found) - len(other)} of {len(found)} cells{told}.",
        f"The ratio of costs is within 10 % in {np.sum(off <= 0.1)}, half of them within {100 * np.median(off):.0f} %.",
        "What the cheaper family saves, in percent of what the dearer one costs, is within 10 points in",
        f"{np.sum(points <= 10.0)}, the worst {points.max():.0f} points off.",
        f"In {np.sum(near)} cells (~) a lone request already takes more than {100 * EDGE:.0f} % of the TTFT target,",
        f"so that a percent of time is several of load: {np.sum(off[near] <= 0.1)} of those are within 10 %,",
        f"the worst {100 * off[near].max(initial=0.0):.0f} % off;",
        f"of the others {np.sum(off[~near] <= 0.1)} of {np.sum(~near)}, the worst {100 * off[~near].max():.0f} % off.",
    )
    return "\n".join(textwrap.wrap(" ".join(parts), 120))


def page(found: Sequence[Confirmed]) -> str:
    """docs/simulated-cells.md."""
    lines = [HEAD, summary(found), "", *TABLE]
    for one in found:
        at, mark = one.at, "" if one.same_winner else " (other winner)"
        plans = " / ".join(_plan(family.deployment) for family in (one.one, one.two))
        carried = " / ".join(f"{family.simulated_per_s / family.map_per_s:.2f}" for family in (one.one, one.two))
        load = f"{one.one.map_per_s:.1f} / {one.two.map_per_s:.1f}"
        name = one.model.rpartition("/")[2] + (" ~" if one.edge else "")
        lines.append(
            f"| {name} | {at['input_tokens']:,.0f} + {at['output_tokens']:,.0f} | "
            f"{1e3 * at['itl']:.0f} ms, {at['ttft']:.1f} s | {plans} | {load} | "
            f"{carried} | {one.ratio(False):.2f} | {one.ratio(True):.2f}{mark} |"
        )
    return "\n".join(lines) + "\n"


def _plan(deployment: Deployment) -> str:
    pools = [pool for pool in (deployment.prefill, deployment.decode) if pool is not None]
    return " + ".join(f"{pool.replicas} x tp {pool.tp}" for pool in pools)


def main() -> None:
    found = []
    for one in confirmed(CELLS):
        found.append(one)
        sys.stderr.write(
            f"{len(found)} of {CELLS}: {one.ratio(False):.2f} by the map, {one.ratio(True):.2f} simulated\n"
        )
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
