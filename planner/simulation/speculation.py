"""Decode steps of requests whose steps accept a random number of drafted tokens."""

from __future__ import annotations

import numpy as np

from planner.records import Speculation
from planner.simulation.requests import Integers


def verify_steps(output_tokens: Integers, speculation: Speculation, random: np.random.Generator) -> list[int]:
    """Steps that each request needs for its outputs after the first.

    Drafts are accepted one after the other until one fails, each with the same chance; the steps for n tokens are
    then about normal, n / (1 + a) with variance n v / (1 + a)^3 (renewal theorem), a and v mean and variance of what
    a step accepts.
    """
    mean, variance = acceptance_moments(speculation)
    tokens = np.maximum(output_tokens.astype(float) - 1.0, 0.0)
    spread = np.sqrt(tokens * variance / mean**3)
    drawn = tokens / mean + spread * random.standard_normal(tokens.size)
    least = np.ceil(tokens / (1.0 + speculation.draft_tokens))
    return np.clip(np.floor(drawn + random.random(tokens.size)), least, tokens).astype(int).tolist()  # type: ignore[no-any-return]


def acceptance_moments(speculation: Speculation) -> tuple[float, float]:
    """Mean and variance of the tokens that a step gives a sequence: 1 + a truncated geometric law of mean a."""
    chance = acceptance_rate(speculation.draft_tokens, speculation.accepted_tokens)
    kept = np.arange(speculation.draft_tokens + 1)
    law = chance**kept * np.where(kept < speculation.draft_tokens, 1.0 - chance, 1.0)
    mean = float(law @ kept)
    return 1.0 + mean, float(law @ kept**2) - mean**2


def acceptance_rate(draft_tokens: int, accepted_tokens: float) -> float:
    """Chance that one draft is accepted, of which the mean a = p (1 - p^k) / (1 - p) comes; by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if sum(middle**i for i in range(1, draft_tokens + 1)) < accepted_tokens:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0
