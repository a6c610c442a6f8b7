"""Engine constants that fit measured TTFT and TPOT: robust Gauss-Newton with priors and shrunken deviations.

ln theta_row = ln theta_0 + sum over levels of beta(level, key of the row)                        (FIDELITY §5)
minimise sum of (nu + 1) / 2 ln(1 + r^2 / nu) + sum of (beta / sd)^2 / 2, r = ln(predicted / measured) / sigma.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from planner.calibration.levels import (
    COMMON_LEVELS,
    HELD_BACK,
    LEAST_SD,
    LEVELS,
    START,
    WAITING,
    Groups,
    deviation_sd,
    group,
)
from planner.engines.constants import Family, constants_for
from planner.records import ClosedLoop, EngineConstants, EngineProfile, Floats
from planner.serving.closed_loop import Answer, Colocated, Disaggregated, Loop, Point, solve
from planner.serving.stacked import COLUMN, CONSTANTS, PHYSICAL, Integers, as_row

Booleans = NDArray[np.bool_]

DEGREES = 4.0  # of freedom of the residuals: tails as heavy as benchmarks have them
SIGMA = (0.06, 0.25)  # of ln TPOT, ln TTFT
# Waits hold settings that no label records: they must not bend step times, nor what all engines and models share. What
# a measured cell waits longer than its groups is fitted afterwards, with the rest known.
SHARED_SIGMA, CELL_SIGMA = (0.06, 0.4), (0.06, 0.18)
_SEEN = 3.5  # where the search for requests held back starts, in log: at their smallest they show in no time
ROUNDS = 30
_STEP = 1e-4
_LONGEST_STEP = 0.7
_WARM, _COLD = 3, 6


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Runs and what was measured of them. `offset` [rows, constants]: log constants before any deviation."""

    runs: tuple[ClosedLoop, ...]
    loop: Loop[Point]
    measured: Floats  # [rows, 2] ln TPOT, ln TTFT; not a number where nothing was measured
    offset: Floats


def fit_data(runs: Sequence[ClosedLoop], times_s: Sequence[tuple[float, float]], offset: Floats | None = None) -> Data:
    """Runs of one family with their measured (TPOT, TTFT) [s]; constants start from `START` where nothing is given."""
    apart = runs[0].deployment.prefill is not None
    start = np.tile(START, (len(runs), 1)) if offset is None else offset
    loop: Loop[Point] = Disaggregated(runs) if apart else Colocated(runs)
    return Data(tuple(runs), loop, np.log(np.array(times_s, dtype=float)), start)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Fitted deviations [groups, constants]."""

    groups: Groups
    beta: Floats

    def of(self, level: str, key: str) -> Floats:
        """Deviations of one group [constants]; zeros where it was never seen."""
        position = {name: number for number, name in enumerate(self.groups.names)}.get((level, key))
        return np.zeros(len(CONSTANTS)) if position is None else self.beta[position]

    def log_constants(self, runs: Sequence[ClosedLoop], offset: Floats, levels: Sequence[str] = LEVELS) -> Floats:
        """ln theta of runs [rows, constants]; groups that the fit never saw add nothing."""
        known = {name: position for position, name in enumerate(self.groups.names)}
        found = group(runs, levels)
        position = np.array([known.get(name, -1) for name in found.names])
        padded = np.vstack([self.beta, np.zeros(self.beta.shape[1])])  # -1 reads the last row, zeros
        of_row = np.where(found.of_row >= 0, position[found.of_row], -1)
        return np.asarray(offset + padded[of_row].sum(axis=1), dtype=float)


def log_answer(answer: Answer) -> Floats:
    """[rows, 2] ln TPOT, ln TTFT."""
    return np.log(np.stack([answer.tpot_s, answer.ttft_s], axis=1))


def fit(
    data: Data,
    use: Floats,
    levels: Sequence[str] = LEVELS,
    sigma: tuple[float, float] = SHARED_SIGMA,
    scale: Callable[[Groups], Floats] | None = None,
) -> Fit:
    """Fit the deviations to the runs where `use` is 1 (shape [rows]); `scale` gives factors on the prior deviations."""
    chosen = np.flatnonzero(use)
    groups = group([data.runs[i] for i in chosen], levels)
    of_row = np.full((len(use), groups.of_row.shape[1]), -1, dtype=np.intp)
    of_row[chosen] = groups.of_row
    sd = groups.sd if scale is None else groups.sd * scale(groups)
    cell = np.array([level == "cell" for level, _ in groups.names])[:, None]
    start = np.where(cell & _named(HELD_BACK), _SEEN, 0.0)
    beta = minimize(data, use, of_row, sd, sigma, start=start).beta
    waits = cell & _named(*WAITING)
    if not np.any(waits):
        return Fit(groups, beta)
    padded = np.vstack([np.where(waits, 0.0, beta), np.zeros(beta.shape[1])])
    known = replace(data, offset=data.offset + padded[of_row].sum(axis=1))
    wide = np.where(waits, np.maximum(sd, deviation_sd("accelerator")), 0.0)
    own = minimize(known, use, of_row, wide, CELL_SIGMA, start=np.where(waits, beta, 0.0)).beta
    return Fit(groups, np.where(waits, own, beta))


def _named(*names: str) -> Booleans:
    """Which constants are called so."""
    return np.array([name in names for name in CONSTANTS])


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Best deviations [groups, constants], and the information that the runs hold of the free ones."""

    beta: Floats
    free: Booleans  # [groups * constants]
    normal: Floats  # of the free ones, without priors

    def posterior_sd(self, sd: Floats) -> Floats:
        """Standard deviation of every deviation once the runs are known [groups, constants]."""
        result = sd.ravel().copy()
        precision = self.normal + np.diag(1.0 / sd.ravel()[self.free] ** 2)
        result[self.free] = np.sqrt(np.diag(np.linalg.inv(precision)))
        return result.reshape(sd.shape)


def minimize(
    data: Data,
    use: Floats,
    of_row: Integers,
    sd: Floats,
    sigma: tuple[float, float] = SIGMA,
    start: Floats | None = None,
) -> Minimum:
    """Damped Gauss-Newton on all deviations at once, from `start` or from none.

    `of_row` [rows, levels] says which group a row reads, -1 none.
    """
    from scipy.linalg import solve as solve_positive

    free = sd.ravel() > LEAST_SD
    precision = 1.0 / sd.ravel()[free] ** 2
    width = np.array(sigma)
    beta = best_beta = np.zeros(sd.shape) if start is None else start
    batch: Floats | None = None
    normal, gradient = np.zeros((len(precision),) * 2), np.zeros(len(precision))
    damping, best = 1e-3, np.inf
    for _ in range(ROUNDS):
        padded = np.vstack([beta, np.zeros(sd.shape[1])])
        answer, slope = slopes(data.loop, data.offset + padded[of_row].sum(axis=1), batch)
        residual = (log_answer(answer) - data.measured) / width
        counted = np.isfinite(residual) & (use[:, None] > 0)
        residual = np.where(counted, residual, 0.0)
        cost = _cost(residual) + float(np.sum(beta.ravel()[free] ** 2 * precision)) / 2
        if cost > best * (1 + 1e-9):
            damping *= 8.0
        else:
            settled = best - cost < 1e-4 * cost
            best, best_beta, batch = cost, beta, answer.batch
            damping = max(damping / 4.0, 1e-6)
            weight = np.where(counted, (DEGREES + 1) / (DEGREES + residual**2), 0.0)
            normal, gradient = _normal(slope / width[None, :, None], residual, weight, of_row, free)
            if settled:
                break
        change = np.zeros(sd.size)
        system = normal + np.diag(precision + damping * np.diag(normal))
        change[free] = solve_positive(system, -(gradient + precision * best_beta.ravel()[free]), assume_a="pos")
        beta = best_beta + np.clip(change, -_LONGEST_STEP, _LONGEST_STEP).reshape(sd.shape)
    return Minimum(best_beta, free, normal)


def _cost(residual: Floats) -> float:
    """Minus the log likelihood of Student-t residuals."""
    return float(np.sum((DEGREES + 1) / 2 * np.log1p(residual**2 / DEGREES)))


def _normal(slope: Floats, residual: Floats, weight: Floats, of_row: Integers, free: Booleans) -> tuple[Floats, Floats]:
    """Normal matrix and gradient over all free deviations; a row reaches those of its own groups only."""
    from scipy.sparse import csr_array

    rows, _, constants = slope.shape
    row, level = np.nonzero(of_row >= 0)
    columns = of_row[row, level][:, None] * constants + np.arange(constants)
    at = (np.repeat(row, constants), columns.ravel())
    total = np.zeros((int(np.sum(free)),) * 2)
    gradient = np.zeros(len(total))
    for target in range(2):
        each = csr_array((slope[row, target].ravel(), at), shape=(rows, len(free)))[:, free]
        weighted = each.T.multiply(weight[:, target]).tocsr()
        total += (weighted @ each).toarray()
        gradient += weighted @ residual[:, target]
    return total, gradient


def slopes(loop: Loop[Point], theta: Floats, batch: Floats | None = None) -> tuple[Answer, Floats]:
    """The loop's answer, and d ln (TPOT, TTFT) / d ln constant of each row [rows, 2, constants].

    The batch is a fixed point b = g(b, theta), so d/d theta = direct + d/db g_theta / (1 - g_b); only `PHYSICAL`
    constants need the steps anew.
    """
    constants = np.exp(theta)
    answer = solve(loop, constants, batch, _COLD if batch is None else _WARM)
    at = answer.batch
    here = loop.point(constants, at)
    base = _with_batch(loop.answer(constants, here))
    moved = _with_batch(loop.answer(constants, loop.point(constants, at * (1.0 + _STEP))))
    by_batch = (moved - base) / _STEP
    slope = np.zeros((loop.rows, 2, len(CONSTANTS)))
    for name, column in COLUMN.items():
        changed = constants.copy()
        changed[:, column] *= 1.0 + _STEP
        point = loop.point(changed, at) if name in PHYSICAL else here
        direct = (_with_batch(loop.answer(changed, point)) - base) / _STEP
        chain = direct[:, 2] / np.maximum(1.0 - by_batch[:, 2], 0.2)
        slope[:, :, column] = direct[:, :2] + by_batch[:, :2] * chain[:, None]
    return answer, slope


def _with_batch(answer: Answer) -> Floats:
    return np.log(np.stack([answer.tpot_s, answer.ttft_s, answer.batch], axis=1))


# ------------------------------------------------------------------------------------ constants of every engine at once

DISAGGREGATED_LEVELS = ("global", "engine", "accelerator", "weights", "spread", "model")
DISAGGREGATED_SIGMA = (0.10, 0.40)
# Almost every disaggregated run is of one model: what physics deviates by belongs to that model and its groups, and
# little of it to every engine everywhere. What is waited for is shared.
_DISAGGREGATED_SCALE = {"global": 0.3, "engine": 0.7, "accelerator": 2.0, "weights": 2.0, "spread": 2.0, "model": 5.0}


def _disaggregated_scale(groups: Groups) -> Floats:
    """Factor on the prior deviations of every group [groups, constants]."""
    return np.array([np.where(_named(*WAITING), 1.0, _DISAGGREGATED_SCALE[level]) for level, _ in groups.names])


@dataclass(frozen=True, slots=True, eq=False)
class EngineFit:
    """Log constants of engines, deviations of measured groups, and the common fit that no group entered.

    Keys as in an engine profile: base by (family, engine), deviations by (family, engine, group). `cells` holds the
    engine, model and accelerator of every run used.
    """

    base: Mapping[tuple[str, str], Floats]
    deviations: Mapping[tuple[str, str, str], Floats]
    cells: frozenset[tuple[str, str, str]]

    def profile(self, engine: EngineProfile) -> EngineProfile:
        """`engine` with these constants, deviations and measured cells."""

        def constants(family: str) -> EngineConstants:
            return EngineConstants(
                **dict(zip(CONSTANTS, map(float, np.exp(self.base[family, engine.id])), strict=True))
            )

        return replace(
            engine,
            colocated=constants("colocated"),
            disaggregated=constants("disaggregated"),
            deviations={
                f"{family}/{name}": dict(zip(CONSTANTS, map(float, values), strict=True))
                for (family, of, name), values in self.deviations.items()
                if of == engine.id
            },
            measured_cells=frozenset((model, part) for of, model, part in self.cells if of == engine.id),
        )


def fit_colocated(colocated: Data, use: Floats) -> tuple[Fit, Fit]:
    """The fit with every level, and the common one that no group enters."""
    return fit(colocated, use), fit(colocated, use, COMMON_LEVELS)


def fit_engines(
    colocated: Data,
    use: Floats,
    disaggregated: Data | None = None,
    use_too: Floats | None = None,
    done: tuple[Fit, Fit] | None = None,
) -> EngineFit:
    """Constants of both families from the runs where `use` (colocated) and `use_too` (disaggregated) are 1.

    `done`: what `fit_colocated` found for the same colocated runs.
    """
    full, common = done or fit_colocated(colocated, use)
    apart: Fit | None = None
    if disaggregated is not None and use_too is not None and np.any(use_too):
        offset = full.log_constants(disaggregated.runs, disaggregated.offset)
        moved = replace(disaggregated, offset=offset)
        apart = fit(moved, use_too, DISAGGREGATED_LEVELS, DISAGGREGATED_SIGMA, scale=_disaggregated_scale)
    everything = [(colocated, use)]
    if disaggregated is not None and use_too is not None:
        everything.append((disaggregated, use_too))
    cells = frozenset(
        (run.engine.id, run.model.id, run.accelerator.id)
        for data, used in everything
        for run, one in zip(data.runs, used, strict=True)
        if one
    )
    engines = sorted({engine for engine, _, _ in cells})
    base: dict[tuple[str, str], Floats] = {}
    deviations: dict[tuple[str, str, str], Floats] = {}
    for family, more in (("colocated", None), ("disaggregated", apart)):
        parts = [full] if more is None else [full, more]
        everywhere = START + common.of("global", "") + (more.of("global", "") if more else 0.0)
        base[family, "generic"] = everywhere
        for engine in engines:
            shared = everywhere + common.of("waiting", engine)
            own = START + sum(part.of("global", "") + part.of("engine", engine) for part in parts)
            base[family, engine] = own
            deviations[family, engine, "common"] = shared - own
            for name, value in _group_deviations(parts, engine).items():
                deviations[family, engine, name] = value
    return EngineFit(base, deviations, cells)


def _group_deviations(parts: Sequence[Fit], engine: str) -> dict[str, Floats]:
    """Deviations of the groups of one engine, under the names of `engines.constants.groups`."""
    found: dict[str, Floats] = {}
    for part in parts:
        for (level, key), beta in zip(part.groups.names, part.beta, strict=True):
            of, _, rest = key.partition("/")
            if level == "model":
                name = f"model/{key}"
            elif level in ("global", "engine") or of != engine:
                continue
            else:
                name = "spread" if level == "spread" else f"{level}/{rest}"
            found[name] = found.get(name, 0.0) + beta
    return found


def log_constants(runs: Sequence[ClosedLoop], profiles: Mapping[str, EngineProfile], family: Family) -> Floats:
    """ln theta of runs [rows, constants], as the product looks constants up."""
    seen: dict[tuple[object, ...], Floats] = {}
    rows = []
    for run in runs:
        dp = run.deployment.decode.dp
        key = (run.engine.id, run.model.id, run.accelerator.id, run.weights, dp > 1, run.origin)
        if key not in seen:
            constants = constants_for(
                profiles[run.engine.id],
                family,
                model=run.model.id,
                accelerator=run.accelerator.id,
                weights=run.weights,
                dp=dp,
                origin=run.origin,
            )
            seen[key] = np.log(as_row(constants))
        rows.append(seen[key])
    return np.array(rows)
