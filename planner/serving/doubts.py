"""Where the laws of a pool leave out what its token-step simulation shows: marks beside those of the wait.

Each doubt is plain arithmetic on the solved point; docs/queueing.md says what the marks are worth.
"""

from __future__ import annotations

from collections.abc import Iterable

Mark = tuple[str, str]  # trust and its reason

OK: Mark = ("ok", "")
RANKS = "ranks of attention DP step together: the wait for the step in progress is that of the mean load"
MOVING = "under moving load this is a bound from above, over windows of it"
SPREAD = "few requests of uneven contexts share a step: a step is taken at their mean context"
BENT = "steps with prompts of this length are not linear in their tokens: {error:+.0%} from the linear law"
SHARED = "several replicas: how far the router spares busy ones from prefills is a law fitted to simulations"
PACKED = "several prompts often share a step, and each waits for all of them"
SHORT = "the first gap takes much of the mean: requests with few output tokens see more of it than tokens do"
GROWING = "a request in the batch lengthens steps so much that it nearly brings another: close to where nothing settles"
EDGE = "{name} of the gaps sits between steps with and without prefill"

MOST_BENT = 0.06  # of a step that prefills
MOST_PACKED = 0.1  # of a prompt's own prefill
MOST_SPREAD = 0.025  # standard deviation of a step over its mean that contexts alone give
MOST_SPREAD_FACTOR = 5.0  # variance of a batch over its mean: 1 / (1 - growth), growth up to 0.8
MOST_ADDED = 0.05  # of a mean gap
EDGE_FACTOR = 2.0  # between the share of gaps that prefill lengthens and 1 - q

_ORDER = ("ok", "caution", "no closed form")


def worst(marks: Iterable[Mark]) -> Mark:
    """The first of the gravest marks; ok where there are none."""
    return max(marks, key=lambda mark: _ORDER.index(mark[0]), default=OK)


def mark(doubtful: bool, reason: str) -> Mark:
    """A caution where something is doubtful."""
    return ("caution", reason) if doubtful else OK


def ranks_mark(dp: int) -> Mark:
    """Prompts on several ranks that step together while load moves."""
    return mark(dp > 1, RANKS)


def spread_mark(attention_fraction: float, context_scv: float, batch: float) -> Mark:
    """Contexts of `batch` requests, SCV `context_scv`, in a step of which attention is so large a share.

    Their sum spreads by sqrt(SCV / b) of itself, and only attention grows with it.
    """
    spread = attention_fraction * (context_scv / max(batch, 1.0)) ** 0.5
    return mark(spread > MOST_SPREAD, SPREAD)


def bent_mark(linear_s: float, true_s: float) -> Mark:
    """The law's step with a mean chunk beside the roofline's."""
    error = linear_s / true_s - 1.0
    return mark(abs(error) > MOST_BENT, BENT.format(error=error))


def shared_mark(prefill_s: float, mean_gap_s: float, replicas: float) -> Mark:
    """What prefills add to the mean gap: as if prompts came to a replica whatever it does, exact for one replica."""
    return mark(replicas > 1 and prefill_s > MOST_ADDED * mean_gap_s, SHARED)


def packed_mark(prompts_per_s: float, step_s: float, prompt_s: float, own_s: float) -> Mark:
    """Prompts that come within the same step, of which each adds `prompt_s`, beside a prompt's own prefill."""
    return mark(prompts_per_s * step_s * prompt_s > MOST_PACKED * own_s, PACKED)


def short_mark(behind_s: float, mean_gap_s: float, unevenness_factor: float) -> Mark:
    """Means over requests are taken as means over tokens: off by `behind_s` times E[1/n] E[n] - 1 over steps n."""
    return mark(behind_s * unevenness_factor > MOST_ADDED * mean_gap_s, SHORT)


def growing_mark(batch: float, batch_variance: float) -> Mark:
    """A batch whose size leads to more of it: errors of step times grow with its variance over its mean."""
    return mark(batch_variance > MOST_SPREAD_FACTOR * batch, GROWING)


def edge_mark(name: str, tail_fraction: float, lengthened_fraction: float) -> Mark:
    """A quantile of the gaps, 1 - q from the top, near the jump from plain steps to those that prefill lengthens."""
    low, high = tail_fraction / EDGE_FACTOR, tail_fraction * EDGE_FACTOR
    return mark(low <= lengthened_fraction <= high, EDGE.format(name=name))
