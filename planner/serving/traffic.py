"""A workload as the queueing forms want it: atoms, moments and the windows in which its load moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.queueing.moving import window_rates
from planner.queueing.occupancy import context_moments
from planner.queueing.service import ServiceLaw, scv_of
from planner.records import Arrivals, Floats, Lengths, Scenario, Workload

Integers = NDArray[np.intp]
INPUT_ATOMS = 96
PROMPT_LENGTHS = 12  # cuts by length of those, where prompts of one length are cached differently
JOINT_INPUTS, JOINT_OUTPUTS = 12, 24  # outputs finer: they make most of an end-to-end time
WINDOW_S = 60.0  # long against a request's stay in the decode pool, short against the drift of a trace (QUEUEING §2.3)
MAX_WINDOWS = 12
# Template, tokenizer and transport of a message of a chat: what first tokens of chats that find all in memory take more
# than plain prompts do, 32 to 47 ms with 16 to 128 clients (tests/data/measured/chat_clients.csv).
CHAT_FRONT_END_S = 0.04
LEAST_STEPS = 1e-6  # where every output is one token, nothing is decoded; a pool of that load is as good as idle


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Open-loop load, reduced once and shared by every candidate.

    `window_requests_per_s` are rates of *decode work* per window, expressed as arrivals of the mean request;
    `window_weights` their share of the time. Stationary load has one window.
    """

    requests_per_s: float  # what the targets must survive: the mean, or the peak when one is given
    mean_requests_per_s: float  # what is paid for
    input_tokens: Floats  # atoms, ascending
    cached_tokens: Floats  # of each atom found in a cache: not prefilled, and resident all the same (MODELLING §9)
    fetched_tokens: Floats  # (tiers, atoms) of the cached ones, those below the accelerator's memory
    input_weights: Floats
    joint_input_tokens: Floats  # joint atoms of one request
    joint_output_tokens: Floats
    joint_weights: Floats
    mean_input_tokens: float
    mean_new_tokens: float  # of a prompt, those that are prefilled
    mean_output_tokens: float
    longest_input_tokens: float
    longest_tokens: float  # prompt and output of the longest request
    mean_steps: float  # decode steps of a request: outputs after the first, over those of a step
    steps_law: ServiceLaw  # law of those steps, in steps
    context_moments: tuple[float, float, float]  # of a resident request, output-biased (QUEUEING §5)
    context_scv: float
    window_requests_per_s: Floats
    window_weights: Floats
    arrivals: Arrivals | None
    step_tokens: float = 1.0  # of a sequence, by speculation
    front_end_s: float = 0.0  # of a request of a session, before it is queued

    @property
    def new_tokens(self) -> Floats:
        """Tokens of each input atom that are prefilled."""
        return self.input_tokens - self.cached_tokens

    def at_inputs(self, input_tokens: Floats, values: Floats) -> Floats:
        """`values`, one per input atom, at other prompt lengths: the mean over atoms of a length, linear between."""
        lengths, first = np.unique(self.input_tokens, return_index=True)
        mass = np.add.reduceat(self.input_weights, first)
        return np.interp(input_tokens, lengths, np.add.reduceat(values * self.input_weights, first) / mass)


def traffic(workload: Workload, step_tokens: float = 1.0) -> Traffic:
    """Reduce a workload to what the closed forms read (QUEUEING §2, §4.1, §5; MODELLING §7.2).

    `step_tokens` above 1: a decode step gives a sequence several tokens (speculation), and requests take fewer.
    """
    lengths = workload.lengths
    steps = np.maximum(lengths.output_tokens - 1.0, 0.0) / step_tokens
    mean_steps = max(float(lengths.weights @ steps), LEAST_STEPS)
    sized_rate = workload.requests_per_s * workload.peak_factor
    moments = context_moments(lengths.input_tokens, np.maximum(lengths.output_tokens, 1.0), lengths.weights)
    cached = _cached(workload, lengths.input_tokens, lengths.cached_tokens)
    fetched = _fetched(lengths, cached)
    inputs, atom_cached, atom_fetched, input_weights = _reduced_prompts(
        lengths.input_tokens, cached, fetched, lengths.weights
    )
    joint_input, joint_output, joint_weights = joint_reduced(lengths, JOINT_INPUTS, JOINT_OUTPUTS)
    rates, weights = _windows(workload, mean_steps * step_tokens, sized_rate)
    return Traffic(
        requests_per_s=sized_rate,
        mean_requests_per_s=workload.requests_per_s,
        input_tokens=inputs,
        cached_tokens=atom_cached,
        fetched_tokens=atom_fetched,
        input_weights=input_weights,
        joint_input_tokens=joint_input,
        joint_output_tokens=joint_output,
        joint_weights=joint_weights,
        mean_input_tokens=float(lengths.weights @ lengths.input_tokens),
        mean_new_tokens=float(lengths.weights @ lengths.input_tokens) - float(input_weights @ atom_cached),
        mean_output_tokens=float(lengths.weights @ lengths.output_tokens),
        longest_input_tokens=float(lengths.input_tokens.max()),
        longest_tokens=float((lengths.input_tokens + lengths.output_tokens).max()),
        mean_steps=mean_steps,
        steps_law=_steps_law(steps, lengths.weights),
        context_moments=moments,
        context_scv=float(scv_of(moments[0], moments[1])),
        window_requests_per_s=rates,
        window_weights=weights,
        arrivals=workload.arrivals,
        step_tokens=step_tokens,
        front_end_s=CHAT_FRONT_END_S if workload.sessions is not None else 0.0,
    )


def with_found(load: Traffic, workload: Workload) -> Traffic:
    """The load of requests of the same lengths and rate that find something else in caches."""
    lengths = workload.lengths
    cached = _cached(workload, lengths.input_tokens, lengths.cached_tokens)
    atoms = _reduced_prompts(lengths.input_tokens, cached, _fetched(lengths, cached), lengths.weights)
    inputs, atom_cached, atom_fetched, weights = atoms
    return replace(
        load,
        input_tokens=inputs,
        cached_tokens=atom_cached,
        fetched_tokens=atom_fetched,
        input_weights=weights,
        mean_new_tokens=load.mean_input_tokens - float(weights @ atom_cached),
    )


def scenario_traffic(scenario: Scenario) -> Traffic:
    """The load of a scenario, with the steps that its speculation leaves."""
    return traffic(scenario.workload, scenario.speculation.step_tokens if scenario.speculation else 1.0)


def reduced(values: Floats, weights: Floats, atoms: int) -> tuple[Floats, Floats]:
    """At most `atoms` atoms with the same mean: half for the bulk, half for the top tenth, where waits are made."""
    unique, inverse = np.unique(values, return_inverse=True)
    mass = np.asarray(np.bincount(inverse, weights=weights), dtype=float)
    if unique.size <= atoms:
        return unique.astype(float), mass / mass.sum()
    return _binned(unique, mass, _tail_edges(atoms))


def _cached(workload: Workload, input_tokens: Floats, cached_tokens: Floats | None) -> Floats:
    """Tokens of each prompt in the cache; the last token is always computed, because its logits are wanted."""
    found = workload.prefix_hit_fraction * input_tokens if cached_tokens is None else cached_tokens
    return np.clip(found, 0.0, np.maximum(input_tokens - 1.0, 0.0))


def _fetched(lengths: Lengths, cached: Floats) -> Floats:
    """Tokens that each tier hands over, of those that are used."""
    if lengths.fetched_tokens is None or lengths.cached_tokens is None:
        return np.zeros((0, cached.size))
    return lengths.fetched_tokens * (cached / np.maximum(lengths.cached_tokens, 1e-9))


def _reduced_prompts(
    inputs: Floats, cached: Floats, fetched: Floats, weights: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """At most INPUT_ATOMS atoms (input, cached, fetched by tier, weight), ascending by input, with all means kept.

    Where prompts of one length are all cached alike the cut is by length alone, else by length and then by what is
    left to prefill, because that is what makes the service times uneven.
    """
    atoms, mass = reduced(inputs, weights, INPUT_ATOMS)
    if not cached.any():
        return atoms, np.zeros_like(atoms), np.zeros((fetched.shape[0], atoms.size)), mass
    lengths, first, inverse = np.unique(inputs, return_index=True, return_inverse=True)
    if not fetched.any() and np.allclose(cached, cached[first][inverse]):
        found = np.minimum(np.interp(atoms, lengths, cached[first]), np.maximum(atoms - 1.0, 0.0))
        return atoms, found, np.zeros((fetched.shape[0], atoms.size)), mass
    cells = [
        cell
        for part in _parts(np.arange(inputs.size), inputs, weights, _tail_edges(PROMPT_LENGTHS))
        for cell in _parts(part, inputs - cached, weights, np.linspace(0.0, 1.0, INPUT_ATOMS // PROMPT_LENGTHS + 1))
    ]
    together, starts = np.concatenate(cells), np.cumsum([0, *map(len, cells[:-1])])
    mass = np.add.reduceat(weights[together], starts)
    means = [np.add.reduceat((weights * values)[together], starts) / mass for values in (inputs, cached, *fetched)]
    order = np.argsort(means[0], kind="stable")
    tiers = np.array(means[2:]).reshape(fetched.shape[0], mass.size)[:, order]
    return means[0][order], means[1][order], tiers, mass[order] / mass.sum()


def joint_reduced(lengths: Lengths, inputs: int, outputs: int) -> tuple[Floats, Floats, Floats]:
    """Joint atoms (input, output, weight): cut by input, then each part by output, finer towards the long requests."""
    if lengths.weights.size <= inputs * outputs:
        return lengths.input_tokens, lengths.output_tokens, lengths.weights
    everything = np.arange(lengths.weights.size)
    cells = [
        cell
        for part in _parts(everything, lengths.input_tokens, lengths.weights, _tail_edges(inputs))
        for cell in _parts(part, lengths.output_tokens, lengths.weights, _tail_edges(outputs))
    ]
    mass = np.array([lengths.weights[cell].sum() for cell in cells])
    mean_input = np.array([lengths.weights[cell] @ lengths.input_tokens[cell] for cell in cells]) / mass
    mean_output = np.array([lengths.weights[cell] @ lengths.output_tokens[cell] for cell in cells]) / mass
    return mean_input, mean_output, mass / mass.sum()


def _parts(chosen: Integers, values: Floats, weights: Floats, edges: Floats) -> list[Integers]:
    """`chosen` in ascending order of value, split where its mass passes the edges; empty parts left out."""
    order = chosen[np.argsort(values[chosen], kind="stable")]
    mass = weights[order] / weights[order].sum()
    middle = np.cumsum(mass) - mass / 2.0
    cuts = [0, *np.searchsorted(middle, edges[1:-1]).tolist(), order.size]
    return [order[start:end] for start, end in pairwise(cuts) if weights[order[start:end]].any()]


def _tail_edges(atoms: int) -> Floats:
    half = atoms // 2
    return np.concatenate(
        [np.linspace(0.0, 0.9, half, endpoint=False), 1.0 - 0.1 * np.linspace(1.0, 0.0, half + 1) ** 2]
    )


def _binned(values: Floats, mass: Floats, edges: Floats) -> tuple[Floats, Floats]:
    share = mass / mass.sum()
    middle = np.cumsum(share) - share / 2.0
    index = np.clip(np.searchsorted(edges, middle, side="right") - 1, 0, edges.size - 2)
    weight = np.asarray(np.bincount(index, weights=share, minlength=edges.size - 1), dtype=float)
    total = np.asarray(np.bincount(index, weights=share * values, minlength=edges.size - 1), dtype=float)
    kept = weight > 0
    return total[kept] / weight[kept], weight[kept]


def _steps_law(steps: Floats, weights: Floats) -> ServiceLaw:
    atoms, mass = reduced(np.maximum(steps, 1e-9), weights, INPUT_ATOMS)
    return ServiceLaw(atoms, mass)


def _windows(workload: Workload, mean_outputs: float, sized_rate: float) -> tuple[Floats, Floats]:
    arrivals = workload.arrivals
    if arrivals is None or mean_outputs <= LEAST_STEPS:
        return np.array([sized_rate]), np.array([1.0])
    window_s = min(WINDOW_S, arrivals.duration_s / 4.0)
    steps = np.maximum(arrivals.output_tokens - 1.0, 0.0)
    rates = window_rates(arrivals.time_s, steps, window_s, arrivals.duration_s) / mean_outputs * workload.peak_factor
    share = np.full(rates.size, 1.0 / rates.size)
    return _binned(*_sorted(rates, share), _tail_edges(MAX_WINDOWS)) if rates.size > MAX_WINDOWS else (rates, share)


def _sorted(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(values)
    return values[order], weights[order]


def trace_work(traffic: Traffic, atom_work_s: Floats) -> tuple[Floats, Floats, float]:
    """Arrival times, work of each request and duration of a trace, at the sized rate; work is interpolated in length.

    A peak factor squeezes the trace in time. Raises ValueError without a trace.
    """
    arrivals = traffic.arrivals
    if arrivals is None:
        raise ValueError("traffic has no trace")
    squeeze = traffic.mean_requests_per_s / traffic.requests_per_s
    work_s = _work_of(traffic, arrivals, atom_work_s)
    return arrivals.time_s * squeeze, work_s, arrivals.duration_s * squeeze


def _work_of(traffic: Traffic, arrivals: Arrivals, atom_work_s: Floats) -> Floats:
    """Work of each request: by length, and where prompts are cached differently by the tokens left to prefill."""
    if arrivals.cached_tokens is None:
        return traffic.at_inputs(arrivals.input_tokens, atom_work_s)
    new = np.maximum(arrivals.input_tokens - arrivals.cached_tokens, 1.0)
    order = np.argsort(traffic.new_tokens, kind="stable")
    work_s = np.interp(new, traffic.new_tokens[order], atom_work_s[order])
    return np.asarray(work_s)
