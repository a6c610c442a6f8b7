"""Step times as tables, so that the event loop computes no roofline.

A step of a worker is split into what each rank does alone (`decode_line`, `added_s`, `prefill_s`, prompt attention)
and what all ranks do together (`shared_s`: experts and the collectives). The worker's step lasts as long as its
slowest rank, plus the shared part.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from planner.records import Floats
from planner.roofline.steps import StepTime, decode_s, mixed_s, prefill_step_s, step
from planner.roofline.worker import Worker

CONTEXT_NODES = 72
TOKEN_NODES = 64
BATCH_NODES = 24
EXACT_TOKENS = 2048  # shared part: every whole number of tokens up to here, then in geometric steps
SHARED_PARTS = ("experts_s", "collectives_s")
PROMPT_PARTS = (*SHARED_PARTS, "attention_prefill_s")


class StepLaw(Protocol):
    """Times of one step [s]; batches and tokens are per rank unless said."""

    @property
    def prefill_factor(self) -> float:
        """Of the shared part that prompt tokens add."""

    def decode_line(self, batch: int, context_tokens: float) -> tuple[float, float, float]:
        """Rank part of a decode step at a mean context, its rise per token of it, and for how many tokens it holds."""

    def shared_s(self, batch: float, prompt_tokens: float = 0.0) -> float:
        """Shared part of a step that decodes `batch` sequences and reads prompt tokens, on all ranks together."""

    def added_s(self, batch: int, tokens: float) -> float:
        """What prompt tokens beside a decoding batch add to the rank part, their attention apart."""

    def prefill_s(self, tokens: float) -> float:
        """Rank part of a step that only prefills, attention apart."""

    def attention_s(self, prompt_tokens: Floats) -> Floats:
        """Attention of whole prompts; a step that takes a share of a prompt takes that share of it."""


@dataclass(frozen=True, eq=False)
class TabulatedSteps:
    """The roofline steps of one worker on grids, linear between their nodes."""

    worker: Worker
    max_batch: int  # per rank
    token_budget: int  # per rank
    longest_tokens: float  # prompt and output of the longest request

    @property
    def prefill_factor(self) -> float:
        return self.worker.constants.prefill_factor

    # ------------------------------------------------------------------------------------------------------- decode

    @cached_property
    def _contexts(self) -> list[float]:
        longest = max(self.longest_tokens * 1.01, 256.0)
        windows = [float(kind.window_tokens) for kind in self.worker.softmax if kind.window_tokens]
        nodes = np.concatenate([np.geomspace(32.0, longest, CONTEXT_NODES), windows, [0.0]])
        return [float(x) for x in np.unique(nodes[nodes <= longest])]

    @cached_property
    def _decode(self) -> list[list[float]]:
        batch = np.arange(self.max_batch + 1, dtype=float)[:, None]
        dp = self.worker.dp
        time = step(self.worker, batch, np.asarray(self._contexts), expert_tokens=dp * batch)
        return _without(time, SHARED_PARTS).tolist()  # type: ignore[no-any-return]

    def decode_line(self, batch: int, context_tokens: float) -> tuple[float, float, float]:
        nodes, row = self._contexts, self._decode[batch]
        cell = min(bisect_right(nodes, context_tokens), len(nodes) - 1) - 1
        low, high = nodes[cell], nodes[cell + 1]
        slope = (row[cell + 1] - row[cell]) / (high - low)
        return row[cell] + slope * (context_tokens - low), slope, high - context_tokens

    # ------------------------------------------------------------------------------------------------------- shared

    @cached_property
    def _shared(self) -> tuple[list[float], list[float]]:
        """By tokens of any kind: of a sequence those that a step verifies."""
        dp, plain = self.worker.dp, replace(self.worker, speculation=None)
        most = float(dp * (self.worker.verified_tokens * self.max_batch + self.token_budget) + 1)
        nodes = np.arange(min(EXACT_TOKENS, most) + 1.0)
        if most > EXACT_TOKENS:
            nodes = np.unique(np.concatenate([nodes, np.geomspace(EXACT_TOKENS, most, TOKEN_NODES)]))
        time = step(plain, nodes / dp, 1.0, expert_tokens=nodes)
        return nodes.tolist(), (time.experts_s + time.collectives_s).tolist()

    def shared_s(self, batch: float, prompt_tokens: float = 0.0) -> float:
        nodes, times = self._shared
        tokens = self.worker.verified_tokens * batch + prompt_tokens
        if tokens < EXACT_TOKENS:
            cell = min(int(tokens), len(nodes) - 2)
        else:
            cell = min(bisect_right(nodes, tokens), len(nodes) - 1) - 1
        low = nodes[cell]
        return times[cell] + (times[cell + 1] - times[cell]) * (tokens - low) / (nodes[cell + 1] - low)

    # ------------------------------------------------------------------------------------------------------ prefill

    @cached_property
    def _tokens(self) -> list[float]:
        """Nodes of prompt tokens, close together near a full step, where a busy worker is."""
        budget = float(max(self.token_budget, 2))
        grid = np.concatenate(
            [np.geomspace(1.0, budget, TOKEN_NODES), np.linspace(budget / 2.0, budget, TOKEN_NODES // 2)]
        )
        return [float(x) for x in np.unique(grid)]

    @cached_property
    def _batches(self) -> list[int]:
        return [int(x) for x in np.unique(np.append(0, np.geomspace(1, max(self.max_batch, 2), BATCH_NODES).round()))]

    @cached_property
    def _added(self) -> list[list[float]]:
        dp, tokens = self.worker.dp, np.asarray(self._tokens)
        batch = np.asarray(self._batches, dtype=float)[:, None] * dp
        both = mixed_s(self.worker, batch, 1.0, tokens, tokens, expert_tokens=batch + dp * tokens)
        plain = decode_s(self.worker, batch, 1.0)
        return (_without(both, PROMPT_PARTS) - _without(plain, PROMPT_PARTS)).tolist()  # type: ignore[no-any-return]

    def added_s(self, batch: int, tokens: float) -> float:
        batches = self._batches
        row = min(bisect_right(batches, batch), len(batches) - 1) - 1
        share = (batch - batches[row]) / (batches[row + 1] - batches[row])
        low, high = self._between(self._added[row], tokens), self._between(self._added[row + 1], tokens)
        return low + share * (high - low)

    @cached_property
    def _prefill(self) -> list[float]:
        tokens = np.asarray(self._tokens)
        alone = prefill_step_s(self.worker, tokens, tokens, tokens * self.worker.dp)
        return _without(alone, PROMPT_PARTS).tolist()  # type: ignore[no-any-return]

    def prefill_s(self, tokens: float) -> float:
        return self._between(self._prefill, tokens)

    def _between(self, times: list[float], tokens: float) -> float:
        nodes = self._tokens
        cell = max(min(bisect_right(nodes, tokens), len(nodes) - 1) - 1, 0)
        low = nodes[cell]
        return times[cell] + (times[cell + 1] - times[cell]) * (tokens - low) / (nodes[cell + 1] - low)

    def attention_s(self, prompt_tokens: Floats) -> Floats:
        lengths = np.asarray(prompt_tokens, dtype=float)
        whole = step(self.worker, 0.0, 0.0, lengths, lengths, expert_tokens=lengths).attention_prefill_s
        return np.asarray(whole * self.prefill_factor)


def _without(time: StepTime, left_out: tuple[str, ...]) -> Floats:
    return np.asarray(sum(part for name, part in time.parts_s.items() if name not in left_out))
