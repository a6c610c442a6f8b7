"""What one evaluation yields before intervals are put around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from planner.records import FormulaBand, Note, PoolState, TransferState

Bands = Mapping[str, Mapping[str, FormulaBand]]


@dataclass(frozen=True)
class Outcome:
    """One deployment at one factor on its step times. Statistics are keyed by records.STATISTICS."""

    ttft_s: Mapping[str, float]
    itl_s: Mapping[str, float]
    tpot_s: Mapping[str, float]
    e2e_s: Mapping[str, float]
    ttft_parts_s: Mapping[str, float]
    step_parts_s: Mapping[str, float]
    prefill: PoolState | None
    decode: PoolState
    transfer: TransferState | None
    prefill_time_fraction: float = 0.0
    notes: tuple[Note, ...] = ()
    chained: bool = False  # a shared pool whose steps bend: by the chain of its steps
    read_bands: Callable[[], Bands] = field(default=dict, compare=False, repr=False)  # for few, so where asked for
    # "ttft_s" and "itl_s" -> the time that a share of requests or of tokens stays within; empty where nothing settles
    quantile_s: Mapping[str, Callable[[float], float]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def formula_bands(self) -> Bands:
        return self.read_bands()

    def statistic(self, metric: str, name: str) -> float:
        return {"ttft": self.ttft_s, "itl": self.itl_s, "tpot": self.tpot_s, "e2e": self.e2e_s}[metric][name]
