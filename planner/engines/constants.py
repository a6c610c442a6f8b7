"""The constants of one engine on one deployment: its global ones, and how measured groups deviate from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from math import exp, log
from typing import Literal

from planner.records import EngineConstants, EngineProfile

Family = Literal["colocated", "disaggregated"]
NAMES = tuple(field.name for field in fields(EngineConstants))

# Tokenizing, hashing and finding a cached token, one process of an engine: agent replays with everything in memory
# (tests/data/measured) take 0.4 s more than their kernels on 75k tokens.
LOOK_UP_TOKEN_S = 5e-6

# A step is the same physics in both modes, and the measured disaggregated runs are nearly all of one model, with waits
# for routing in their TTFT: of their own constants only the pooled factors on TTFT carry over to plans (FIDELITY §6).
_POOLS_TTFT_STEPS_FACTOR, _POOLS_TTFT_SEQUENCE_FACTOR = 1.6, 0.4

# How far the deviations of known groups are trusted, against constants fitted without any group: a model or a cell
# that the fit never saw has its own quirks, and half of what groups add is such quirks. Chosen by leaving models and
# cells out (docs/accuracy.md).
_TRUST_NEW_CELL = 0.7
_TRUST_NEW_MODEL = 0.5


def groups(accelerator: str, weights: str, dp: int, model: str, origin: str = "") -> tuple[str, ...]:
    """The groups of runs that a deployment belongs to, as an engine's deviations name them.

    Runs call both layouts of 8-bit weights fp8: which one a model is stored in follows from the model.
    """
    weights = weights.removesuffix("_block")
    names = [
        f"accelerator/{accelerator}",
        f"weights/{weights}",
        f"model/{model}",
        f"cell/{model}/{weights}/{accelerator}",
    ]
    names += ["spread"] if dp > 1 else []
    return (*names, f"origin/{origin}") if origin else tuple(names)


def trust_in_groups(engine: EngineProfile, model: str, accelerator: str) -> float:
    """1 where the engine's runs hold this model on this accelerator, less for a new cell and a new model."""
    if (model, accelerator) in engine.measured_cells:
        return 1.0
    known = any(measured == model for measured, _ in engine.measured_cells)
    return _TRUST_NEW_CELL if known else _TRUST_NEW_MODEL


def constants_for(
    engine: EngineProfile,
    family: Family,
    *,
    model: str,
    accelerator: str,
    weights: str,
    dp: int = 1,
    origin: str = "",
) -> EngineConstants:
    """Constants of `engine` for one model, accelerator and weight format.

    ln theta = trust (engine + deviations of every group it belongs to) + (1 - trust) (all engines' common fit); a
    group that was never measured adds nothing (FIDELITY §5). Without deviations: the engine's own constants.
    """
    base = engine.colocated if family == "colocated" else engine.disaggregated
    if not engine.deviations:
        return base
    trust = trust_in_groups(engine, model, accelerator)
    named = groups(accelerator, weights, dp, model, origin)
    return replace(base, **dict(_moved(engine, family, base, named, trust)))


def _moved(
    engine: EngineProfile, family: Family, base: EngineConstants, named: tuple[str, ...], trust: float
) -> Iterator[tuple[str, float]]:
    found = [engine.deviations[key] for name in named if (key := f"{family}/{name}") in engine.deviations]
    common = engine.deviations.get(f"{family}/common", {})
    for name in NAMES:
        own = sum(deviation.get(name, 0.0) for deviation in found)
        value = getattr(base, name)
        if value > 0:
            yield name, exp(log(value) + trust * own + (1.0 - trust) * common.get(name, 0.0))


def serving_constants(
    engine: EngineProfile, colocated: bool, *, model: str, accelerator: str, weights: str, dp: int
) -> EngineConstants:
    """The constants that plans and simulations use for a worker of a shared pool, or of one of two pools."""
    constants = constants_for(engine, "colocated", model=model, accelerator=accelerator, weights=weights, dp=dp)
    if colocated:
        return constants
    return replace(
        constants,
        ttft_steps=constants.ttft_steps * _POOLS_TTFT_STEPS_FACTOR,
        ttft_sequence_s=constants.ttft_sequence_s * _POOLS_TTFT_SEQUENCE_FACTOR,
    )
