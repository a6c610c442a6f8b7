"""What one evaluation yields before intervals are put around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from planner.records import FormulaBand, Note, PoolState, TransferState

Latencies = Mapping[str, Mapping[str, float]]
Bands = Mapping[str, Mapping[str, FormulaBand]]


@dataclass(frozen=True)
class Outcome:
    """One deployment at one factor on its step times. Statistics are keyed by records.STATISTICS.

    End-to-end times cost as much as all else, and few deployments are asked for them or for bands: `read_e2e` and
    `read_bands`, of the four latencies, are called then.
    """

    ttft_s: Mapping[str, float]
    itl_s: Mapping[str, float]
    tpot_s: Mapping[str, float]
    ttft_parts_s: Mapping[str, float]
    step_parts_s: Mapping[str, float]
    prefill: PoolState | None
    decode: PoolState
    transfer: TransferState | None
    prefill_time_fraction: float = 0.0
    notes: tuple[Note, ...] = ()
    chained: bool = False  # a shared pool whose steps bend: by the chain of its steps
    read_e2e: Callable[[], Mapping[str, float]] = field(default=dict, compare=False, repr=False)
    read_bands: Callable[[Latencies], Bands] = field(default=lambda _: {}, compare=False, repr=False)
    # "ttft_s" and "itl_s" -> the time that a share of requests or of tokens stays within; empty where nothing settles
    quantile_s: Mapping[str, Callable[[float], float]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def e2e_s(self) -> Mapping[str, float]:
        """No quantile is below that of the first token, whose law may stand on other lengths."""
        return {name: max(value, self.ttft_s[name]) for name, value in self.read_e2e().items()}

    @cached_property
    def formula_bands(self) -> Bands:
        latencies = {"ttft_s": self.ttft_s, "itl_s": self.itl_s, "tpot_s": self.tpot_s, "e2e_s": self.e2e_s}
        return self.read_bands(latencies)

    def statistic(self, metric: str, name: str) -> float:
        found: Mapping[str, float] = getattr(self, f"{metric}_s")
        return found[name]
