"""How many requests decode at once: a processor-sharing node whose speed depends on the batch (QUEUEING §4.1, §5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.queueing.service import Floats, ServiceLaw
from planner.queueing.waiting import checked_level, checked_points

_PARTS = 16  # of a range of batches, tried at once
_STATES = 1024  # up to here the lattice is 0, 1, 2, …; beyond, about as many points


@dataclass(frozen=True, slots=True, eq=False)
class BatchLaw:
    """Batch and gaps of a decode pool; arrays are (replica counts m, windows w) unless said.

    Attributes
    ----------
    load : arrival rate over the rate of full batches; 1 or more never settles.   stable : load < 1.
    mean_batch, variance_batch : of one replica's batch, over time.
    mean_itl_s : mean gap between two tokens of a request.
    wait_probability : chance that all batches are full, P(N >= B), which is the chance to wait.
    wait_mean_s, delay_mean_s : mean wait of all requests, and of those that wait.
    """

    arrivals_per_s: Floats  # (w,)
    load: Floats
    stable: NDArray[np.bool_]
    mean_batch: Floats
    variance_batch: Floats
    mean_itl_s: Floats
    wait_probability: Floats
    delay_mean_s: Floats
    wait_mean_s: Floats
    lattice: Floats  # (m, states): requests in service in the pool
    batches: Floats  # (m, states): batch that a token finds itself in
    step_s: Floats  # (cap,): t(1..cap)
    token_mass: Floats  # (m, w, states), sums to 1 over states

    def itl_quantile_s(self, q: float, window_weights: ArrayLike | None = None) -> Floats:
        """q-quantile of the gaps over all tokens of all windows, shape (m,).

        `window_weights`, shape (w,), is the share of the tokens in each window; in proportion to its arrival rate by
        default, which is right for equally long windows. Tokens of a window that never settles count as endless.
        """
        level = float(checked_level(q))
        weights = self.arrivals_per_s + 1e-300 if window_weights is None else np.asarray(window_weights, dtype=float)
        if weights.shape != self.arrivals_per_s.shape or np.any(weights < 0.0) or not np.sum(weights) > 0.0:
            raise ValueError(f"window_weights must be >= 0, not all 0, of shape {self.arrivals_per_s.shape}")
        tokens = np.where(self.stable, weights / np.sum(weights), 0.0)
        mixed = np.einsum("mw,mws->ms", tokens, self.token_mass)
        return self._quantile(mixed, level)

    def _quantile(self, mass: Floats, level: float) -> Floats:
        cumulative = np.cumsum(mass, axis=1)
        reached = cumulative >= level - 1e-12
        index = np.argmax(reached, axis=1)
        rows = np.arange(index.size)
        batch = self.batches[rows, index]
        # between lattice points more than 1 apart the mass is spread evenly
        before = np.where(index > 0, cumulative[rows, index - 1], 0.0)
        gap = self.lattice[rows, index] - self.lattice[rows, np.maximum(index - 1, 0)]
        share = (level - before) / np.maximum(mass[rows, index], 1e-300) - 0.5
        slope = np.where(gap > 1.0, self.batches[rows, index] - self.batches[rows, np.maximum(index - 1, 0)], 0.0)
        gaps = np.interp(batch + slope * share, np.arange(1.0, self.step_s.size + 1.0), self.step_s)
        return np.where(reached.any(axis=1), gaps, np.inf)

    def wait_quantile_s(self, q: float) -> Floats:
        """q-quantile of the wait for a place in a batch; exponential beyond its probability (QUEUEING §4.1)."""
        level = float(checked_level(q))
        ratio = np.maximum(1.0, self.wait_probability / (1.0 - level))
        quantile = np.where(ratio > 1.0, self.delay_mean_s, 0.0) * np.log(ratio)
        return np.where(self.stable, quantile, np.inf)


def batch_law(
    arrivals_per_s: ArrayLike,
    steps_per_request: float,
    step_s: ArrayLike,
    replicas: ArrayLike = 1,
    steps_law: ServiceLaw | None = None,
) -> BatchLaw:
    """Batch of `replicas` decode engines behind a least-requests router (QUEUEING §4.1).

    Requests arrive at random and stay for a number of steps; only its mean matters. In the pool, n requests leave at
    rate n / (steps t(n/k)), so p_n = p_(n-1) rate steps t(n/k) / n up to k B, and geometric beyond.

    Parameters
    ----------
    arrivals_per_s : shape (w,) or scalar, >= 0: to the whole pool, one per window of time.
    steps_per_request : mean decode steps of a request, > 0.
    step_s : shape (B,), > 0: time of one step with 1..B requests in it; B caps the batch.
    replicas : shape (m,) or scalar, whole numbers >= 1.
    steps_law : law of the steps of a request, for the wait when batches are full; deterministic by default.

    Raises
    ------
    ValueError
        For any argument outside its domain.

    Id: itl.mean.  mean over tokens of the step time t(n), n by the batch law; the parts shown are one step at the
        mean batch  (QUEUEING §4.1)
    Id: load.mean_batch.  mean number of requests in service per worker, by the batch law  (QUEUEING §4.1)
    """
    counts, rates, steps, times = _checked_batch(arrivals_per_s, steps_per_request, step_s, replicas)
    cap = times.size
    load = rates * steps * times[-1] / (cap * counts[:, None])
    stable = load < 1.0
    usable = np.where(stable, load, 0.0)
    lattice, widths, log_steps = _lattices(counts, times)
    mass, full = _masses(rates * steps, usable, lattice, widths, log_steps)
    step = np.interp(lattice / counts[:, None], np.arange(1.0, cap + 1.0), times)
    mean = np.einsum("mws,ms->mw", mass, lattice)
    square = np.einsum("mws,ms->mw", mass, lattice**2)
    mass *= (lattice / step)[:, None, :]
    per_second = np.sum(mass, axis=2)
    mass /= per_second[..., None]
    # the router keeps batches within one of each other: adds the variance of rounding to whole numbers
    variance = np.maximum(0.0, square - mean**2) / counts[:, None] ** 2 + (1.0 - 1.0 / counts[:, None] ** 2) / 6.0
    full = np.where(stable, full, 1.0)
    delay = _full_delay(counts * cap, steps_law or ServiceLaw.deterministic(1.0), steps * times[-1], usable)
    return BatchLaw(
        arrivals_per_s=rates,
        load=load,
        stable=stable,
        mean_batch=np.where(stable, mean / counts[:, None], float(cap)),
        variance_batch=np.where(stable, variance, 0.0),
        mean_itl_s=np.where(stable, mean / per_second, np.inf),
        wait_probability=full,
        delay_mean_s=np.where(stable, delay, np.inf),
        wait_mean_s=np.where(stable, full * delay, np.inf),
        lattice=lattice,
        # a token is more often in the larger of the whole-number batches, (k-1)/2k above their mean
        batches=np.clip(lattice / counts[:, None] + (1.0 - 1.0 / counts[:, None]) / 2.0, 1.0, cap),
        step_s=times,
        token_mass=mass,
    )


def _checked_batch(
    arrivals_per_s: ArrayLike, steps_per_request: float, step_s: ArrayLike, replicas: ArrayLike
) -> tuple[Floats, Floats, float, Floats]:
    steps, times = float(steps_per_request), np.asarray(step_s, dtype=float)
    counts, rates = np.atleast_1d(np.asarray(replicas)), np.atleast_1d(np.asarray(arrivals_per_s))
    checked_points(counts[:, None], rates, 1.0)
    if not (steps > 0.0 and np.isfinite(steps)):
        raise ValueError(f"steps_per_request must be finite and > 0, got {steps_per_request}")
    if times.ndim != 1 or times.size == 0 or not np.all((times > 0.0) & np.isfinite(times)):
        raise ValueError("step_s must be a 1-D array of finite times > 0")
    return counts.astype(float), rates.astype(float), steps, times


def _lattices(counts: Floats, times: Floats) -> tuple[Floats, Floats, Floats]:
    """Per replica count: requests in service n, the number of states each stands for, and sum_(i<=n) log t(i/k).

    Rows are padded with states that stand for nothing.
    """
    logs = np.concatenate([np.log(times[:1]), np.log(times)])  # t(0) stands for t(1): no replica runs half a request
    integral = np.concatenate([[0.0], np.cumsum((logs[1:] + logs[:-1]) / 2.0)])
    rows = [_lattice(count, times, logs, integral) for count in counts]
    longest = max(n.size for n, _, _ in rows)
    lattice, widths, log_steps = np.empty((3, len(rows), longest))
    for row, (n, width, log_step) in enumerate(rows):
        lattice[row, : n.size], lattice[row, n.size :] = n, n[-1]
        widths[row, : n.size], widths[row, n.size :] = width, 0.0
        log_steps[row, : n.size], log_steps[row, n.size :] = log_step, log_step[-1]
    return lattice, widths, log_steps


def _lattice(count: float, times: Floats, logs: Floats, integral: Floats) -> tuple[Floats, Floats, Floats]:
    """One row. Large pools use every n up to where steps of `h` in sqrt(n) pass 1, then such steps: the law is
    smooth there and at least sqrt(n) wide, so the trapezoidal rule is exact for all purposes."""
    total = count * times.size
    if total <= _STATES:
        n = np.arange(total + 1.0)
        steps = np.interp(np.maximum(n, 1.0) / count, np.arange(1.0, times.size + 1.0), times)
        terms = np.log(steps)
        terms[0] = 0.0
        return n, np.ones(n.size), np.cumsum(terms)
    h = max(0.1, np.sqrt(total) / _STATES)
    joint = float(np.floor(0.25 / h**2)) + 1.0
    roots = np.linspace(np.sqrt(joint), np.sqrt(total), int(np.ceil((np.sqrt(total) - np.sqrt(joint)) / h)) + 1)
    n = np.concatenate([np.arange(joint), roots**2])
    widths = np.concatenate([np.ones(int(joint)), 2.0 * roots * (roots[1] - roots[0])])
    widths[int(joint)] = 0.5 + widths[int(joint)] / 2.0
    widths[-1] = 0.5 + widths[-1] / 2.0
    return n, widths, _smooth_log_steps(n, count, logs, integral)


def _smooth_log_steps(n: Floats, count: float, logs: Floats, integral: Floats) -> Floats:
    """sum_(i<=n) log t(i/k) by Euler-Maclaurin: k times the integral up to n/k, plus half the end values.

    `logs` are log t(0..B) and `integral` their running integral.
    """
    x = n / count
    left = np.minimum(x.astype(np.intp), logs.size - 2)
    part, rise = x - left, logs[left + 1] - logs[left]
    area = integral[left] + part * logs[left] + part**2 * rise / 2.0
    return np.asarray(count * area + (logs[left] + part * rise - logs[0]) / 2.0)


def _masses(offered: Floats, load: Floats, lattice: Floats, widths: Floats, log_steps: Floats) -> tuple[Floats, Floats]:
    """Probability of every lattice point, shape (m, w, states), all n >= k B on the last; and that last share."""
    from scipy.special import gammaln

    logs = lattice[:, None, :] * np.log(np.maximum(offered, 1e-290))[:, None]
    logs += (log_steps - gammaln(lattice + 1.0))[:, None, :]
    logs -= np.max(logs, axis=2, keepdims=True)
    mass = np.exp(logs, out=logs)
    last = np.argmax(lattice, axis=1)
    rows = np.arange(last.size)
    at_cap = mass[rows, :, last]
    mass *= widths[:, None, :]
    mass[rows, :, last] += at_cap * load / (1.0 - load)  # beyond the cap the law is geometric
    total = np.sum(mass, axis=2)
    mass /= total[..., None]
    return mass, at_cap / (1.0 - load) / total


def _full_delay(places: Floats, steps_law: ServiceLaw, mean_s: float, load: Floats) -> Floats:
    """Mean wait of a request that finds all `places` taken: D1 = g_1 + load/(1-load) y_1 (QUEUEING §4.1)."""
    scale = mean_s / steps_law.mean_s
    first = steps_law.residual_minimum_moments(places)[0] * scale
    residual = steps_law.residual_moment(1) * scale / places
    return np.asarray(first[:, None] + load / (1.0 - load) * residual[:, None])


def context_moments(
    input_tokens: ArrayLike, output_tokens: ArrayLike, weights: ArrayLike
) -> tuple[float, float, float]:
    """First three moments of the tokens a request in service holds (QUEUEING §5).

    At a random time a request is seen with a chance in proportion to its output O, and holds I + u O, u uniform.
    Arguments are one joint law: equally long arrays of tokens >= 0 and weights.
    """
    i, o, w = (np.asarray(value, dtype=float) for value in (input_tokens, output_tokens, weights))
    if np.any(i < 0.0) or np.any(o < 0.0) or np.any(w < 0.0) or not np.sum(w * o) > 0.0:
        raise ValueError("input_tokens, output_tokens and weights must be >= 0, with some output")
    mean_output = float(np.sum(w * o))
    return (
        float(np.sum(w * (o * i + o**2 / 2.0))) / mean_output,
        float(np.sum(w * (o * i**2 + o**2 * i + o**3 / 3.0))) / mean_output,
        float(np.sum(w * (o * i**3 + 1.5 * o**2 * i**2 + o**3 * i + o**4 / 4.0))) / mean_output,
    )


def kv_tokens_quantile(
    mean_requests: ArrayLike,
    variance_requests: ArrayLike,
    context: tuple[ArrayLike, ArrayLike, ArrayLike],
    q: float,
) -> Floats:
    """q-quantile over time of the tokens that one replica holds: a shifted gamma (QUEUEING §5).

    Parameters
    ----------
    mean_requests, variance_requests : of the batch, arrays that broadcast; with `context` from `context_moments`.

    Returns
    -------
    Tokens, 0 where there are no requests. Raises ValueError for negative arguments or q outside (0, 1).

    Id: kv.demand_tokens.  tokens held over time: mean batch * mean context, and a shifted gamma for quantiles
        (QUEUEING §5)
    """
    from scipy.special import gammaincinv

    level = float(checked_level(q))
    count, spread = np.asarray(mean_requests, dtype=float), np.asarray(variance_requests, dtype=float)
    if not (np.all(count >= 0.0) and np.all(spread >= 0.0)):
        raise ValueError("mean_requests and variance_requests must be >= 0")
    mean, deviation, alpha = _shifted_gamma(count, spread, context)
    quantile = mean + deviation * (gammaincinv(alpha, level) - alpha) / np.sqrt(alpha)
    return np.asarray(np.maximum(0.0, quantile))


def _shifted_gamma(
    count: Floats, spread: Floats | float, context: tuple[ArrayLike, ArrayLike, ArrayLike]
) -> tuple[Floats, Floats, Floats]:
    """Mean, deviation and shape (4 / skewness^2) of the tokens held."""
    k1, k2, k3 = (np.asarray(value, dtype=float) for value in context)
    deviation = np.sqrt(np.maximum(0.0, count * (k2 - k1**2) + spread * k1**2))
    return count * k1, deviation, 4.0 * np.maximum(count, 1e-9) * k2**3 / k3**2


def batch_for_memory(
    capacity_tokens: ArrayLike, context: tuple[ArrayLike, ArrayLike, ArrayLike], q: float = 0.999
) -> NDArray[np.int64]:
    """Largest batch whose q-quantile of tokens held fits `capacity_tokens`; 0 where not even one request does.

    Arguments broadcast; `context` comes from `context_moments`. Found by cutting the range of whole numbers again and
    again into `_PARTS`, whose ends are tried at once.
    """
    capacity, k1, k2, k3 = np.broadcast_arrays(
        *(np.asarray(value, dtype=float) for value in (capacity_tokens, *context))
    )
    if not np.all(np.isfinite(capacity)):
        raise ValueError("capacity_tokens must be finite")
    low = np.zeros(capacity.shape)
    high = np.floor(np.maximum(0.0, capacity) / k1) + 1.0
    shares, context = np.arange(1, _PARTS) / _PARTS, (k1[..., None], k2[..., None], k3[..., None])
    while np.any(high - low > 1.0):
        tried = np.floor(low[..., None] + (high - low)[..., None] * shares)
        fits = np.sum(_fits(tried, capacity[..., None], context, q), axis=-1)  # more requests never hold less
        ends = np.concatenate([low[..., None], tried, high[..., None]], axis=-1)
        low, high = (np.take_along_axis(ends, (fits + more)[..., None], axis=-1)[..., 0] for more in (0, 1))
    return low.astype(np.int64)


def _fits(count: Floats, capacity: Floats, context: tuple[Floats, Floats, Floats], q: float) -> NDArray[np.bool_]:
    """Whether `kv_tokens_quantile` of a steady batch is within the capacity, by the law itself: much the faster way."""
    from scipy.special import gammainc

    mean, deviation, alpha = _shifted_gamma(count, 0.0, context)
    place = alpha + np.sqrt(alpha) * (capacity - mean) / np.where(deviation > 0.0, deviation, 1.0)
    return np.where(deviation > 0.0, gammainc(alpha, np.maximum(place, 0.0)) >= q, mean <= capacity)


def batch_for_reservation(
    capacity_tokens: ArrayLike, input_tokens: ArrayLike, output_tokens: ArrayLike, weights: ArrayLike
) -> Floats:
    """Batch at which admission that reserves input and output tokens of every request fills up (QUEUEING §5).

    (M - E[R^2]/(2 E[R])) / E[O R]/E[O] with R = I + O: the space left idle while the next request does not fit yet,
    over what a resident request holds. A cap for `batch_law`: a sizing rule, not a latency estimate.

    Parameters
    ----------
    capacity_tokens : M, any shape.   The others are one joint law as in `context_moments`.

    Returns
    -------
    Requests, not rounded, >= 0. Raises ValueError as `context_moments`.
    """
    context_moments(input_tokens, output_tokens, weights)
    i, o, w = (np.asarray(value, dtype=float) for value in (input_tokens, output_tokens, weights))
    held = i + o
    idle = float(w @ held**2) / (2.0 * float(w @ held))
    resident = float(w @ (o * held)) / float(w @ o)
    return np.asarray(np.maximum(0.0, (np.asarray(capacity_tokens, dtype=float) - idle) / resident))
