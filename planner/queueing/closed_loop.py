"""A fixed number of clients that ask again at once, as benchmarks do (QUEUEING §4.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.queueing.service import Floats, ServiceLaw
from planner.queueing.trust import CAUTION, NONE, OK
from planner.queueing.waiting import checked_level

_LOCKED_SCV = 0.002  # outputs more alike than this keep clients in step: cohorts never mix
_BAND_ODDS, _BAND_ERROR = 3.0, 0.15  # of a TTFT quantile: of the chance to be above it, and of the time itself
_BISECTIONS = 60
_LEAST_CHANCE = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLoop:
    """One pool or pair of pools with `clients` requests in the system, without think time.

    Attributes
    ----------
    requests_per_s : throughput X.   tpot_s : mean gap.   ttft_mean_s : mean time to the first token.
    mean_prefilling, mean_decoding : requests in each phase.   prefill_utilization : share of time prefill is at work.
    ahead : chance that an arriving request finds 0, 1, … others in prefill, (clients,).
    own : law of the time of a prompt's own prefill.   one_s, one_scv : of a request ahead of it.   lanes : prefill
        servers.
    cohorts : whether outputs are so alike that clients move in step; waits are then not predicted.
    """

    clients: int
    requests_per_s: float
    tpot_s: float
    ttft_mean_s: float
    mean_prefilling: float
    mean_decoding: float
    prefill_utilization: float
    ahead: Floats
    own: ServiceLaw
    one_s: float
    one_scv: float
    lanes: int
    cohorts: bool

    def ttft_quantile_s(self, q: float) -> float:
        """q-quantile of TTFT: the requests found ahead, each a gamma time, and the own prefill."""
        from scipy.special import gammaincc

        level = float(checked_level(q))
        count = np.maximum(0.0, np.arange(self.ahead.size) - (self.lanes - 1.0))  # have to end before it starts
        waits = (count > 0.0) & (self.ahead > _LEAST_CHANCE)
        base = float(self.ahead[waits] @ count[waits])
        spread = max(self.one_scv, 0.02)
        scale = self._wait_s / base if base > 0.0 and self._wait_s > 0.0 else 0.0
        shape = count[waits] / spread

        def above(t: float) -> float:
            left = np.maximum(0.0, t - self.own.values_s)
            if scale == 0.0:
                return float(self.own.weights @ (t < self.own.values_s))
            late = gammaincc(shape[:, None], left / (scale * spread)) * self.ahead[waits][:, None]
            return float(np.where(t < self.own.values_s, 1.0, late.sum(axis=0)) @ self.own.weights)

        low, high = 0.0, max(self.ttft_mean_s, float(self.own.values_s[-1]))
        while above(high) > 1.0 - level:
            high *= 2.0
        while high - low > 1e-7 * high:
            middle = (low + high) / 2.0
            low, high = (middle, high) if above(middle) > 1.0 - level else (low, middle)
        return high

    @property
    def _wait_s(self) -> float:
        return self.ttft_mean_s - self.own.mean_s

    def ttft_band_s(self, q: float) -> tuple[float, float]:
        """Lowest and highest q-quantile of TTFT that the checked errors allow; the widest possible with cohorts."""
        rest = 1.0 - float(checked_level(q))
        shortest = float(self.own.values_s[0])
        if self.cohorts:
            # at worst all start together: the last one waits for everybody
            everybody = self.clients / self.lanes
            spread = 3.0 * np.sqrt(self.own.scv * everybody) * self.own.mean_s
            return shortest, 1.02 * max(self.ttft_quantile_s(q), self.own.mean_s * everybody + spread)
        low = self.ttft_quantile_s(1.0 - min(0.9, rest * _BAND_ODDS)) / (1.0 + _BAND_ERROR)
        return max(shortest, low), self.ttft_quantile_s(1.0 - rest / _BAND_ODDS) * (1.0 + _BAND_ERROR)

    @property
    def trust(self) -> str:
        """Of TTFT: "no closed form" for cohorts, else "caution". Throughput and TPOT hold to 3 % either way."""
        return NONE if self.cohorts else (CAUTION if self.prefill_utilization > 0.3 else OK)

    @property
    def trust_reason(self) -> str:
        """Why `trust` is not "ok"; empty where it is."""
        if self.cohorts:
            return "outputs of one length keep the clients in step: TTFT depends on how they started"
        if self.trust == CAUTION:
            return "TTFT of a closed loop: its upper quantiles are given as a range"
        return ""


def chunked(
    clients: int,
    prompts: ServiceLaw,
    outputs: ServiceLaw,
    step_base_s: float,
    step_sequence_s: float,
    prefill_token_s: float,
    token_budget: float,
) -> ClosedLoop:
    """One engine that fills every step up to `token_budget` with prompts, decodes first.

    Parameters
    ----------
    clients : >= 1.   prompts, outputs : laws of input and output tokens (the values are counts).
    A step with b decoding requests and q prompt tokens lasts base + sequence x b + prefill_token x q seconds.

    Raises
    ------
    ValueError
        For arguments outside their domain, or a budget that does not exceed the clients.
    """
    n = _checked(clients, outputs, step_base_s, step_sequence_s, prefill_token_s)
    if not token_budget > clients:
        raise ValueError(f"token_budget must be > clients ({clients}), got {token_budget}")
    batch = clients - n
    room = token_budget - batch
    decode_s = step_base_s + step_sequence_s * batch
    full_s = decode_s + prefill_token_s * room
    gaps = outputs.mean_s - 1.0
    up = batch / (gaps * np.where(n > 0, full_s, decode_s))
    down = room / (prompts.mean_s * full_s)
    state = _birth_death(up, down)
    rate = float(state[1:] @ down[1:])
    chunks = np.ceil(prompts.values_s / room[:, None])
    own_s = float(state @ (decode_s * (chunks @ prompts.weights))) + prefill_token_s * prompts.mean_s
    settled = float(state @ batch)
    settled_s = step_base_s + step_sequence_s * settled
    own = ServiceLaw(
        settled_s * np.ceil(prompts.values_s / (token_budget - settled)) + prefill_token_s * prompts.values_s,
        prompts.weights,
    )
    one_s = float(state @ (prompts.mean_s * full_s / room))
    packs = prompts.mean_s < token_budget - settled
    return _assembled(
        clients, state, up, rate, gaps, own.scaled(own_s / own.mean_s), one_s, prompts.scv, packs, outputs
    )


def whole_prompt(
    clients: int,
    prompts: ServiceLaw,
    outputs: ServiceLaw,
    step_base_s: float,
    step_sequence_s: float,
    prefill_token_s: float,
) -> ClosedLoop:
    """One engine that reads whole prompts first, one a step, while decoding stands still. Arguments as `chunked`.

    No request leaves decode while prompts wait, so a stall serves the prompts that one decode step has let in.
    """
    n = _checked(clients, outputs, step_base_s, step_sequence_s, prefill_token_s)
    gaps = outputs.mean_s - 1.0
    own = ServiceLaw(step_base_s + prefill_token_s * prompts.values_s, prompts.weights)
    batch = clients - n
    # per cycle of one decode step, a batch b lets b/gaps requests go and reads as many prompts before the next
    step_s = step_base_s + step_sequence_s * batch
    let_in = np.minimum(np.maximum(batch - 1.0, 0.0) / gaps, float(clients))  # by the others
    cycle_s = step_s + let_in * own.mean_s
    settled, others = float(clients), (clients - 1.0) / clients
    for _ in range(_BISECTIONS):
        # N = X (TTFT + gaps TPOT), TTFT the prompts of the same step ahead, half of them, and the own
        cycle = float(np.interp(settled, batch[::-1], cycle_s[::-1]))
        rate = settled / (gaps * cycle)
        ttft_s = own.mean_s * (1.0 + rate * cycle / 2.0 * others)
        settled = 0.5 * settled + 0.5 * clients * gaps * cycle / (gaps * cycle + ttft_s)
    chances = _poisson(rate * cycle / 2.0 * others, clients)
    return ClosedLoop(
        clients=clients,
        requests_per_s=clients / (ttft_s + gaps * cycle),
        tpot_s=cycle,
        ttft_mean_s=ttft_s,
        mean_prefilling=clients - settled,
        mean_decoding=settled,
        prefill_utilization=rate * own.mean_s,
        ahead=chances,
        own=own,
        one_s=own.mean_s,
        one_scv=own.scv,
        lanes=1,
        cohorts=outputs.scv < _LOCKED_SCV,
    )


def disaggregated(
    clients: int,
    prefill: ServiceLaw,
    outputs: ServiceLaw,
    step_base_s: float,
    step_sequence_s: float,
    prefill_servers: int = 1,
    decode_replicas: int = 1,
) -> ClosedLoop:
    """`prefill_servers` that take `prefill` seconds a prompt, and decode replicas with steps base + sequence x b.

    Arguments and errors otherwise as `chunked`; the time to move the KV cache is not counted.
    """
    n = _checked(clients, outputs, step_base_s, step_sequence_s, 0.0)
    if prefill_servers < 1 or decode_replicas < 1:
        raise ValueError(f"prefill_servers and decode_replicas must be >= 1, got {prefill_servers}, {decode_replicas}")
    batch = clients - n
    gaps = outputs.mean_s - 1.0
    up = batch / (gaps * (step_base_s + step_sequence_s * batch / decode_replicas))
    down = np.minimum(n, prefill_servers) / prefill.mean_s
    state = _birth_death(up, down)
    rate = float(state @ down)
    return _assembled(
        clients, state, up, rate, gaps, prefill, prefill.mean_s, prefill.scv, False, outputs, prefill_servers
    )


def _checked(clients: int, outputs: ServiceLaw, *times_s: float) -> Floats:
    """States 0 … clients of the chain."""
    if clients < 1 or clients != int(clients):
        raise ValueError(f"clients must be a whole number >= 1, got {clients}")
    if not outputs.mean_s > 1.0:
        raise ValueError(f"outputs must have a mean above 1 token, got {outputs.mean_s}")
    if not all(np.isfinite(value) and value >= 0.0 for value in times_s) or not times_s[0] > 0.0:
        raise ValueError(f"step times must be finite and >= 0, the base > 0, got {times_s}")
    return np.arange(clients + 1.0)


def _birth_death(up: Floats, down: Floats) -> Floats:
    """Stationary law of a chain with rates up(n) from n and down(n) from n."""
    with np.errstate(divide="ignore"):
        logs = np.append(0.0, np.cumsum(np.log(up[:-1]) - np.log(down[1:])))
    state = np.exp(logs - logs.max())
    return np.asarray(state / state.sum())


def _assembled(
    clients: int,
    state: Floats,
    up: Floats,
    rate: float,
    gaps: float,
    own: ServiceLaw,
    one_s: float,
    scv: float,
    packs: bool,
    outputs: ServiceLaw,
    lanes: int = 1,
) -> ClosedLoop:
    """The chain's means with the correction for prompts that are not exponential (kappa of QUEUEING §4.4)."""
    n = np.arange(state.size)
    prefilling = float(state @ n)
    busy = rate * one_s / lanes if lanes > 1 else 1.0 - float(state[0])
    start = 1.0 if packs else (1.0 + scv) / 2.0
    correction = start + (1.0 - start) * min(busy, 1.0) ** 8
    ttft_s = own.mean_s + correction * max(prefilling / rate - one_s, 0.0)
    tpot_s = (clients - prefilling) / (rate * gaps)
    throughput = clients / (ttft_s + gaps * tpot_s)
    seen = state[:-1] * up[:-1]
    return ClosedLoop(
        clients=clients,
        requests_per_s=throughput,
        tpot_s=tpot_s,
        ttft_mean_s=ttft_s,
        mean_prefilling=throughput * ttft_s,
        mean_decoding=throughput * gaps * tpot_s,
        prefill_utilization=min(busy, 1.0),
        ahead=seen / seen.sum(),
        own=own,
        one_s=one_s,
        one_scv=scv,
        lanes=lanes,
        cohorts=outputs.scv < _LOCKED_SCV,
    )


def _poisson(mean: float, most: int) -> Floats:
    from scipy.special import gammaln, xlogy

    counts = np.arange(most + 1.0)
    chances = np.exp(xlogy(counts, mean) - mean - gammaln(counts + 1.0))
    return np.asarray(chances / chances.sum())
