"""How far a constant may lie from its global value, and at which levels (FIDELITY §5-6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.records import ClosedLoop, Floats
from planner.serving.stacked import CONSTANTS, Integers

LEVELS = ("global", "engine", "accelerator", "weights", "origin", "spread", "model", "cell")
COMMON_LEVELS = ("global", "waiting")  # step times as all engines have them, TTFT by engine
HELD_BACK = "held_back_requests"
WAITING = (
    "ttft_fixed_s", "ttft_steps", "own_prefill_factor", "burst_wait_factor",
    "uniform_window_fraction", "fixed_window_fraction", "burst_ahead_fraction", HELD_BACK,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Prior:
    """Where a constant starts, and one standard deviation in log units: of all, of an engine, of any finer level."""

    start: float
    of_all: float
    of_engine: float
    finer: float


# Wide for costs of hosts, narrow for multipliers of physics and for what a closed loop fixes: a benchmark of ten rounds
# starts one request in ten behind half a burst, and a scheduler takes a few steps to see a request and to answer it.
# These ridges are the bounds.
PRIORS: Mapping[str, Prior] = {
    "gemm_memory_factor": Prior(1.1, 0.15, 0.08, 0.05),
    "compute_factor": Prior(1.1, 0.2, 0.12, 0.08),
    "kernel_gap_s": Prior(1.8e-6, 0.7, 0.4, 0.2),
    "start_up_factor": Prior(0.7, 0.5, 0.25, 0.15),
    "host_step_s": Prior(0.15e-3, 0.9, 0.5, 0.3),
    "host_sequence_s": Prior(12e-6, 1.0, 0.7, 0.4),
    "collective_factor": Prior(0.9, 0.5, 0.3, 0.3),
    "experts_factor": Prior(0.85, 0.3, 0.2, 0.15),
    "decode_attention_factor": Prior(1.0, 0.25, 0.12, 0.1),
    "prefill_kernel_s": Prior(3e-6, 1.0, 0.5, 0.4),
    "prefill_factor": Prior(1.0, 0.2, 0.12, 0.1),
    "ttft_fixed_s": Prior(6e-3, 0.5, 0.4, 0.25),
    "ttft_steps": Prior(4.0, 0.7, 0.7, 0.4),
    "uniform_window_fraction": Prior(0.5, 0.3, 0.3, 0.15),
    "fixed_window_fraction": Prior(0.15, 1.0, 0.9, 0.4),
    "own_prefill_factor": Prior(1.0, 0.1, 0.1, 0.1),
    "burst_wait_factor": Prior(1.0, 0.3, 0.3, 0.2),
    "ttft_sequence_s": Prior(0.3e-3, 0.0, 0.0, 0.0),  # of open loops; a burst says nothing of it
    "burst_ahead_fraction": Prior(0.05, 0.5, 0.5, 0.25),
    "held_back_requests": Prior(0.001, 0.0, 0.0, 0.0),  # a setting of single cells
}
HELD_BACK_SD = 1.8
# Share of the finer deviation: a model's quirk, or that of one of its deployments, must not stand in for its engine's.
_SHARE = {"model": 0.7, "cell": 0.7}
_SAME = 0.0
LEAST_SD = 1e-3  # a deviation with less room than this is none
START: Floats = np.log([PRIORS[name].start for name in CONSTANTS])


def keys(run: ClosedLoop) -> Mapping[str, str]:
    """The group that a run belongs to at each level; empty where a level has nothing to say."""
    engine = run.engine.id
    return {
        "global": "",
        "engine": engine,
        "waiting": engine,
        "accelerator": f"{engine}/{run.accelerator.id}",
        "weights": f"{engine}/{run.weights}",
        "origin": f"{engine}/{run.origin}" if run.origin else "",
        "spread": f"{engine}/dp" if run.deployment.decode.dp > 1 else "",
        "model": run.model.id,
        "cell": f"{engine}/{run.model.id}/{run.weights}/{run.accelerator.id}",
    }


def deviation_sd(level: str) -> Floats:
    """Standard deviation of the deviations of a level [constants]."""
    if level == "global":
        return np.array([PRIORS[name].of_all for name in CONSTANTS])
    if level == "engine":
        return np.array([PRIORS[name].of_engine for name in CONSTANTS])
    if level == "waiting":
        return np.array([PRIORS[name].of_engine if name in WAITING else _SAME for name in CONSTANTS])
    if level == "cell":
        own = [_SAME if name in WAITING else _SHARE[level] * PRIORS[name].finer for name in CONSTANTS]
        return np.array([HELD_BACK_SD if name == HELD_BACK else sd for name, sd in zip(CONSTANTS, own, strict=True)])
    return _SHARE.get(level, 1.0) * np.array([PRIORS[name].finer for name in CONSTANTS])


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of a set of runs: `of_row` [rows, levels] holds the position of each run's group, -1 for none."""

    names: tuple[tuple[str, str], ...]  # (level, key)
    of_row: Integers
    sd: Floats  # [groups, constants]


def group(runs: Sequence[ClosedLoop], levels: Sequence[str] = LEVELS) -> Groups:
    """All groups that the runs fall into at the given levels."""
    found: dict[tuple[str, str], int] = {}
    of_row = np.full((len(runs), len(levels)), -1, dtype=np.intp)
    for row, run in enumerate(runs):
        by_level = keys(run)
        for column, level in enumerate(levels):
            if by_level[level] or level == "global":
                of_row[row, column] = found.setdefault((level, by_level[level]), len(found))
    return Groups(tuple(found), of_row, np.array([deviation_sd(level) for level, _ in found]))
