"""Prints how far the queueing formulas are from exact and simulated values, and writes docs/queueing.md."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from planner.queueing import (
    ServiceLaw,
    batch_law,
    central_queue,
    chunked,
    closed_loop,
    join_shortest_queue,
    mean_gap_quantile_s,
    round_robin,
    two_choices,
    whole_prompt,
)
from planner.queueing.waiting import Wait

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import queueing_ranks  # noqa: E402  (it stands beside this file)

DATA = ROOT / "tests" / "data" / "queueing"
TARGET = ROOT / "docs" / "queueing.md"
POLICIES: dict[str, Callable[..., Wait]] = {
    "central": central_queue,
    "shortest": join_shortest_queue,
    "two choices": two_choices,
    "round robin": round_robin,
}
STEP_DEFAULTS = {
    **{"mode": 0, "Im": 1000, "Iscv": 0, "Ikind": 1, "Om": 200, "Oscv": 1, "Okind": 1, "Sscv": 0},
    **{"a": 0.01, "c": 1e-4, "d": 0, "e": 5e-5, "B": 256, "C": 512},
}
LEAST_WAITING = 0.02  # rows where fewer wait have no P99 to speak of
Row = dict[str, Any]


@cache
def read(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def service_of(row: dict[str, str]) -> ServiceLaw:
    """The unit-mean service law of a row."""
    parameters, scv, name = json.loads(row["service_params"]), float(row["service_scv"]), row["service"]
    if name == "exp":
        return ServiceLaw.exponential(1.0)
    if name == "lognormal":
        return ServiceLaw.lognormal(1.0, scv)
    if name in ("det", "gamma", "erlang"):
        return ServiceLaw.gamma(1.0, scv)
    if name.startswith("h2"):
        return ServiceLaw.hyperexponential(parameters["p"], parameters["means"])
    if name == "bimodal":
        long = parameters["p_long"]
        return ServiceLaw(np.array([parameters["short"], parameters["long"]]), np.array([1.0 - long, long]))
    atoms = np.array([(float(a["value"]), float(a["weight"])) for a in read("emp_laws.csv") if a["law"] == name])
    return ServiceLaw(atoms[:, 0], atoms[:, 1])


@cache
def waits(name: str, single: bool = True) -> list[Row]:
    """Every row of a file of waits, with our wait: of a single point, or as an array would have it."""
    out = []
    for row in read(name):
        law, servers = service_of(row), int(row["servers"])
        policy = row.get("policy", "central")
        more = {"arrival_scv": float(row["arrival_scv"])} if policy == "central" else {}
        rate = servers * float(row["rho"]) / law.mean_s
        wait = POLICIES[policy](servers if single else np.array([servers]), rate, law, **more)
        wait = wait if single else wait.at(0)
        values = {key: float(row[key]) for key in ("p_wait", "mean_wait", "p50", "p90", "p99", "rho", "arrival_scv")}
        noise = float(row["se_p99"] or 0.0)
        scv = float(row["service_scv"])
        out.append(
            {**row, **values, "se_p99": noise, "service_scv": scv, "servers": servers, "policy": policy, "wait": wait}
        )
    return [judged(row) for row in out if row["p_wait"] >= LEAST_WAITING]


def judged(row: Row) -> Row:
    """The row with our errors over its values, and whether the printed band holds its P99, two standard errors of a
    simulated one allowed."""
    wait = row["wait"]
    (p90, p99), (low, high) = wait.quantile_s([0.9, 0.99]), wait.band(0.99)
    ours = {"p_wait": wait.probability, "mean_wait": wait.mean_s, "p90": p90, "p99": p99}
    return {
        **row,
        "errors": {name: float(value) / row[name] - 1.0 for name, value in ours.items() if row[name] > 0.0},
        "inside": bool(low - 2.0 * row["se_p99"] <= row["p99"] <= high + 2.0 * row["se_p99"]),
        "width": float(high - low) / max(float(p99), 1e-9),
        "trust": str(wait.trust),
    }


def error(row: Row, column: str) -> float:
    """Ours over the row's, less 1."""
    return float(row["errors"][column])


def inside(row: Row) -> bool:
    """Whether the printed band holds the P99."""
    return bool(row["inside"])


def summary(errors: Iterable[float]) -> str:
    """Median / P90 / largest absolute error, %."""
    sizes = 100.0 * np.abs(np.array(list(errors)))
    if sizes.size == 0:
        return "-"
    return " / ".join(f"{value:.1f}" for value in (np.median(sizes), np.quantile(sizes, 0.9), sizes.max()))


def wait_table(title: str, groups: dict[str, list[Row]]) -> str:
    lines = [
        f"### {title}",
        "",
        "| | rows | P(W>0) | E[W] | P90 | P99 | in band | band |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in groups.items():
        if not rows:
            continue
        late = [row for row in rows if row["p_wait"] >= 0.11 and row["p90"] > 0.0]
        cells = [summary(error(row, column) for row in rows) for column in ("p_wait", "mean_wait")]
        cells += [
            summary(error(row, "p90") for row in late),
            summary(error(row, "p99") for row in rows if row["p99"] > 0),
        ]
        share = 100.0 * np.mean([inside(row) for row in rows])
        widths = [row["width"] for row in rows]
        lines.append(
            f"| {name} | {len(rows)} | {' | '.join(cells)} | {share:.0f} % | {100.0 * np.median(widths):.0f} % |"
        )
    return "\n".join(lines)


def poisson_groups(rows: list[Row]) -> dict[str, list[Row]]:
    chosen = [row for row in rows if row["arrival_scv"] == 1.0 and row["policy"] == "central"]
    groups = {"all": chosen}
    for low, high in ((-1.0, 1.1), (1.1, 2.5), (2.5, 6.0), (6.0, 99.0)):
        name = f"SCV up to {high:g}" if high < 99.0 else "SCV above 6"
        groups[name] = [row for row in chosen if low < row["service_scv"] <= high]
    for mark in ("ok", "caution", "no closed form"):
        groups[f"marked {mark}"] = [row for row in chosen if row["trust"] == mark]
    return groups


# -------------------------------------------------------------------------------------------------- serving engines


def step_cases(kind: str) -> list[tuple[dict[str, float], dict[str, float]]]:
    """(parameters, measured columns) of the serve_steps rows of one kind."""
    return [
        (
            {**STEP_DEFAULTS, **json.loads(row["params"])},
            {name: float(value) for name, value in row.items() if name not in ("case_id", "kind", "params") and value},
        )
        for row in read("serve_steps.csv")
        if row["kind"] == kind
    ]


def lengths(mean: float, scv: float, kind: float) -> ServiceLaw:
    """A law of lengths as the simulations drew it."""
    if kind == 0 or scv == 0:
        return ServiceLaw.deterministic(mean)
    if kind == 3:
        return ServiceLaw.from_samples(np.linspace(scv * mean, mean, 64))
    if scv == 1.0:
        even = (np.arange(4800) + 0.5) / 4800
        return ServiceLaw.from_samples(-mean * np.log1p(-even)).compressed(96)
    return ServiceLaw.gamma(mean, scv)


def open_decode(parameters: dict[str, float], measured: dict[str, float]) -> dict[str, float]:
    output, scv = measured["out_mean"], measured["out_scv"]
    context = parameters["Im"] + output * (1.0 + scv) / 2.0
    steps = parameters["a"] + (parameters["c"] + parameters["d"] * context) * np.arange(1.0, parameters["B"] + 1.0)
    law = batch_law(parameters["lam"], output, steps, 1, ServiceLaw.gamma(output, parameters["Oscv"]))
    out = {
        "b": float(law.mean_batch[0, 0]),
        "itl": float(law.mean_itl_s[0, 0]),
        "itl99": float(law.itl_quantile_s(0.99)[0]),
    }
    if measured["qd99"] > 0.1:  # else less than 1 % wait
        boundary = float(law.mean_itl_s[0, 0]) / 2.0
        out |= {
            "qd": float(law.wait_mean_s[0, 0]) + boundary,
            "qd99": float(law.wait_quantile_s(0.99)[0, 0]) + boundary,
        }
    return out


def shared_engine(parameters: dict[str, float], measured: dict[str, float]) -> dict[str, float]:
    prompts = lengths(parameters["Im"], parameters["Iscv"], parameters["Ikind"])
    steps = (parameters["a"], parameters["c"], parameters["e"])
    arguments = (parameters["lam"], prompts.values_s, prompts.weights, measured["out_mean"], *steps)
    in_chunks = parameters["mode"] == 1
    law = chunked(*arguments, parameters["C"]) if in_chunks else whole_prompt(*arguments)
    even = (np.arange(20_000) + 0.5) / 20_000
    outputs, count = np.unique(np.maximum(1.0, np.round(-parameters["Om"] * np.log1p(-even))), return_counts=True)
    added = parameters["e"] * prompts.values_s + (0.0 if in_chunks else parameters["a"])
    moments = (float(prompts.weights @ added), float(prompts.weights @ added**2))
    decode_s = parameters["a"] + parameters["c"] * float(law.mean_batch)
    longest = float(law.itl_quantile_s(0.9999)) if in_chunks else np.inf
    load = parameters["lam"] * moments[0]
    return {
        "b": float(law.mean_batch),
        "itl": float(law.mean_itl_s),
        "itl99": float(law.itl_quantile_s(0.99)),
        "ttft": float(law.ttft_mean_s),
        "ttft99": float(law.ttft_quantile_s(0.99)),
        "tpot99": mean_gap_quantile_s(
            0.99, outputs - 1.0, count / 20_000, decode_s, float(law.mean_itl_s), moments, load, longest
        ),
    }


def loop(parameters: dict[str, float], measured: dict[str, float]) -> closed_loop.ClosedLoop:
    outputs = lengths(parameters["Om"], parameters["Oscv"], parameters["Okind"])
    outputs = outputs.scaled(measured["out_mean"] / outputs.mean_s)
    clients, base, slope = int(parameters["nclient"]), parameters["a"], parameters["c"]
    if "kp" in parameters:
        prefill = lengths(parameters["Sp"], parameters["Sscv"], 1)
        pools = (int(parameters["kp"]), int(parameters["kd"]))
        return closed_loop.disaggregated(clients, prefill, outputs, base, slope, *pools)
    prompts = lengths(parameters["Im"], parameters["Iscv"], parameters["Ikind"])
    return closed_loop.chunked(clients, prompts, outputs, base, slope, parameters["e"], parameters["C"])


def closed(parameters: dict[str, float], measured: dict[str, float]) -> dict[str, float]:
    law = loop(parameters, measured)
    return {
        "thr": law.requests_per_s,
        "tpot": law.tpot_s,
        "ttft": law.ttft_mean_s,
        "ttft99": law.ttft_quantile_s(0.99),
    }


ENGINES: dict[str, tuple[str, Callable[[dict[str, float], dict[str, float]], dict[str, float]]]] = {
    "open_decode": ("decode only", open_decode),
    "open_decode_capped": ("decode only, batch capped", open_decode),
    "open_chunked": ("chunked prefill", shared_engine),
    "open_prefill_first": ("whole prompts first", shared_engine),
    "closed_chunked": ("closed loop, chunked", closed),
    "closed_disagg": ("closed loop, two pools", closed),
}
COLUMNS = {
    "b": "batch",
    "itl": "mean ITL",
    "itl99": "P99 ITL",
    "ttft": "mean TTFT",
    "ttft99": "P99 TTFT",
    "tpot": "mean TPOT",
    "tpot99": "P99 TPOT",
    "thr": "throughput",
    "qd": "mean wait",
    "qd99": "P99 wait",
}


@cache
def step_errors(kind: str) -> dict[str, list[float]]:
    """Relative errors by column."""
    found: dict[str, list[float]] = {}
    for parameters, measured in step_cases(kind):
        for name, value in ENGINES[kind][1](parameters, measured).items():
            found.setdefault(name, []).append(value / measured[name] - 1.0)
    return found


def step_table() -> str:
    lines = [f"| | {' | '.join(COLUMNS.values())} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for kind, (name, _) in ENGINES.items():
        errors = step_errors(kind)
        lines.append(f"| {name} | {' | '.join(summary(errors.get(column, [])) for column in COLUMNS)} |")
    return "\n".join(lines)


def loops_inside() -> tuple[int, int]:
    """Closed-loop rows whose simulated P99 TTFT lies in the printed range, and all of them."""
    held = []
    for kind in ("closed_chunked", "closed_disagg"):
        for parameters, measured in step_cases(kind):
            low, high = loop(parameters, measured).ttft_band_s(0.99)
            held.append(low <= measured["ttft99"] <= high)
    return sum(held), len(held)


HEAD = """# How good the queueing is

Generated by `python tools/queueing_table.py`; do not edit. All errors are relative, in %: median / P90 / largest.
References: exact solutions and long simulations (`tests/data/queueing/`); rows where at least 2 % of the requests wait.
Simulated P99s carry a standard error of 1-5 %, which is part of what is shown.

Every wait has a band, `Wait.band(q)`, meant to hold the true quantile in 19 of 20 cases, and a mark: `ok`, `caution`
or `no closed form`, with the reason. "In band" is the share of rows whose P99 lies in it, "band" its median width.

## Waiting for a server

A single point (all arguments scalar) is *refined*: M/M/k, M/D/k, M/H2/k up to 16 servers, E_k/G/1 (round robin) and
GI/G/1 are solved, other delays tabulated by FFT. Arrays, as a search uses them, are *fitted* to three moments: the same
mean and P(W>0), a little less tail. For scale, on 566 cases of this kind a conditional exponential with the
Allen-Cunneen mean has P99 errors of 1.8 / 16 / 451 %, and Lee-Longton means of 1.5 / 19 / 143 %.
"""

WHERE = """## Where not to trust it

| mark | when |
|---|---|
| no closed form | load of 1 or more: the reason says by how much, and what restores stability |
| | P99 in the gap between short and long jobs: (1-q)/P(W>0) within a factor 2 of all servers holding long jobs |
| | 16 servers or more, SCV 6 or more, load up to 0.8, unless solved |
| | arrivals other than Poisson where less than 10 % wait; counts spread more than a renewal stream's can |
| | closed loop whose outputs are of one length: clients move in cohorts |
| caution | the largest 1 % of jobs carry over 60 % of the second moment; SCV above 6 |
| | P(W>0) within 20 % of 1-q: the quantile jumps from 0 |
| | arrivals with another SCV than 1; a P99 TTFT in closed loop (take the range) |
| | load above 0.97, for arrays |
| caution, gaps and first tokens | under a trace, steps with the mean chunk over 6 % off the linear law (experts) |
| | under a trace, several prompts in a step, of which the others add over 10 % to an own prefill |
| | P50 to P99.9 of the gaps within a factor 2 of where steps with prefill begin; load that moves |
| | ranks in step: a batch in which a request nearly brings another |
| | several replicas where prefill takes over 5 % of the mean gap; few output tokens, for TPOT |
| | ranks in step: over 90 % busy, long prompts that hold up a worker for many steps, load that moves |
| | two pools: few requests of uneven contexts in a step |
"""


def build() -> str:
    """The whole page."""
    exact, simulated = waits("exact.csv", True), waits("simulated.csv", True)
    arrays = waits("exact.csv", False), waits("simulated.csv", False)
    held, loops = loops_inside()
    bursts = [row for row in exact + simulated if row["arrival_scv"] != 1.0]
    by_scv = {
        f"arrival SCV {scv:g}": [row for row in bursts if row["arrival_scv"] == scv]
        for scv in sorted({row["arrival_scv"] for row in bursts})
    }
    routed = {
        name: [row for row in simulated if row["policy"] == policy]
        for policy, name in (
            ("shortest", "shortest queue"),
            ("two choices", "two choices"),
            ("round robin", "round robin"),
        )
    }
    fitted = {
        name: [row for row in arrays[1] if row["policy"] == policy]
        for policy, name in (
            ("shortest", "shortest queue"),
            ("two choices", "two choices"),
            ("round robin", "round robin"),
        )
    }
    parts = [
        HEAD,
        wait_table("Poisson arrivals, exact references, refined", poisson_groups(exact)),
        wait_table("Poisson arrivals, exact references, fitted", poisson_groups(arrays[0])),
        wait_table("Poisson arrivals, simulated references, refined", poisson_groups(simulated)),
        wait_table("Poisson arrivals, simulated references, fitted", poisson_groups(arrays[1])),
        wait_table("Renewal arrivals, refined", {"one server": [r for r in bursts if r["servers"] == 1], **by_scv}),
        wait_table("Separate queues behind a router, refined", routed),
        wait_table("Separate queues behind a router, fitted", fitted),
        "## Serving engines\n\nAgainst token-step simulations; ITL over tokens, TTFT and TPOT over requests.\n",
        step_table(),
        f"\nThe range printed for P99 TTFT in closed loop holds {held} of {loops} rows.\n",
        queueing_ranks.tables(read, summary),
        WHERE,
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


if __name__ == "__main__":
    page = build()
    TARGET.write_text(page, encoding="utf-8")
    sys.stdout.write(page)
