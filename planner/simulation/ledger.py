"""What is known of every request of a run, by its number, and what its workers wrote down."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from planner.records import Floats
from planner.simulation.requests import Requests

NEVER = float("nan")


@dataclass(eq=False)
class Ledger:
    """Lists over requests. Times are seconds from the start of the run, NaN until they happen."""

    prompt_tokens: list[float]  # still to prefill; 0: ready to decode
    steps: list[int]  # decode steps still to do
    held: list[float]  # tokens in the cache once prefilled
    cached_tokens: list[float]  # of the prompt, found in a cache and not prefilled
    attention_s: list[float]  # of the whole prompt
    cached_attention_s: list[float]  # of the part that is not prefilled
    kv_bytes: list[float]  # on a rank, of the tokens in the cache
    kv_bytes_per_step: list[float]
    kv_reserved_bytes: list[float]  # what admission asks for
    start_s: list[float]  # first chunk
    prefilled_s: list[float]
    ready_s: list[float]  # at the pool that decodes
    residual_s: list[float]  # of the decode step in progress on arrival there
    joined_s: list[float]
    token_s: list[float]  # last token before a preemption
    first_gap_s: list[float]
    batch: list[float]  # of the worker at the first decode step
    finished_s: list[float]
    lost_s: dict[int, float] = field(default_factory=dict)  # moved by a failure -> when it stopped
    restored_s: dict[int, float] = field(default_factory=dict)  # moved by a failure -> decodes again, NaN until then

    @property
    def count(self) -> int:
        return len(self.steps)

    def share_s(self, request: int, tokens: float) -> float:
        """Attention of so many of the tokens that a request prefills [s]."""
        new_s = self.attention_s[request] - self.cached_attention_s[request]
        return new_s * tokens / (self.held[request] - self.cached_tokens[request])

    def forget(self, request: int) -> None:
        """Everything of a request must be prefilled, what was found in a cache too."""
        self.cached_tokens[request] = self.cached_attention_s[request] = 0.0
        self.prompt_tokens[request] = self.held[request]

    def move(self, request: int, now_s: float) -> None:
        """A failure makes a request begin again elsewhere."""
        self.lost_s[request] = now_s
        self.restored_s[request] = NEVER


def open_ledger(
    requests: Requests,
    attention_s: Callable[[Floats], Floats],
    kv_bytes: Callable[[Floats], Floats],
    reserved_output_fraction: float,
    steps: list[int] | None = None,
) -> Ledger:
    """Everything about requests that can be computed at once, before the run.

    `steps` of decoding, where they are not one per output after the first.
    """
    inputs, outputs = requests.input_tokens.astype(float), requests.output_tokens.astype(float)
    cached = np.zeros_like(inputs) if requests.cached_tokens is None else requests.cached_tokens
    prompt_bytes = kv_bytes(inputs)
    taken = outputs if steps is None else np.maximum(np.asarray(steps, dtype=float) + 1.0, 1.0)
    rise = (kv_bytes(inputs + outputs) - prompt_bytes) / taken
    count = requests.count
    return Ledger(
        prompt_tokens=(inputs - cached).tolist(),
        steps=(requests.output_tokens - 1).tolist() if steps is None else steps,
        held=inputs.tolist(),
        cached_tokens=cached.tolist(),
        attention_s=attention_s(inputs).tolist(),
        cached_attention_s=np.where(cached > 0.0, attention_s(np.maximum(cached, 1.0)), 0.0).tolist(),
        kv_bytes=prompt_bytes.tolist(),
        kv_bytes_per_step=rise.tolist(),
        kv_reserved_bytes=kv_bytes(inputs + reserved_output_fraction * outputs).tolist(),
        start_s=[NEVER] * count,
        prefilled_s=[NEVER] * count,
        ready_s=[NEVER] * count,
        residual_s=[0.0] * count,
        joined_s=[NEVER] * count,
        token_s=[NEVER] * count,
        first_gap_s=[NEVER] * count,
        batch=[NEVER] * count,
        finished_s=[NEVER] * count,
    )


@dataclass(eq=False)
class Log:
    """What the workers of one pool did, as flat arrays."""

    gaps: array[float] = field(default_factory=lambda: array("d"))  # time, gap, how many tokens
    states: array[float] = field(default_factory=lambda: array("d"))  # start, duration, sequences, tokens held
    tokens: float = 0.0  # given out by decode steps
    preemptions: int = 0
    most_kv_bytes: float = 0.0  # on any rank

    def gap_table(self) -> Floats:
        return np.asarray(self.gaps, dtype=float).reshape(-1, 3)

    def state_table(self) -> Floats:
        return np.asarray(self.states, dtype=float).reshape(-1, 4)
