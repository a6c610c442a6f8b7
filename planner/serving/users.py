"""What users in sessions see where the rate they send is more than settles in an open loop: they wait, and send less.

Means are those of the settled state (`serving.flow`). The wait for room is that of a queue in which as many requests
end one after another as stand in front: an Erlang law of that many stages; prompts, answers and steps add theirs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.records import PROBABILITY, Deployment, Floats, Note, Prediction, Scenario
from planner.serving.flow import Flow, Loaded, plant_of
from planner.serving.residency import settled
from planner.units import format_seconds

Statistics = dict[str, float]


def with_waiting_users(prediction: Prediction, scenario: Scenario, deployment: Deployment) -> Prediction:
    """The prediction, with times of the closed loop where the open one is not bounded.

    Nothing is said about how much longer they may be: intervals begin without the wait, and their upper ends stay open.
    """
    sessions = scenario.workload.sessions
    if sessions is None or np.isfinite(prediction.ttft_s["mean"]):
        return prediction
    plant = plant_of(scenario, deployment)
    state = settled(plant, "cold")
    loaded, flow = plant.loaded(state.workload), state.flow
    ttft, itl, e2e = _ttft(loaded, flow), _itl(loaded, flow), _e2e(loaded, flow)
    tpot = dict.fromkeys(itl, flow.itl_s)
    no_wait = {"ttft_s": flow.wait_s / ttft["mean"], "e2e_s": flow.wait_s / e2e["mean"]}
    found = {"ttft_s": ttft, "itl_s": itl, "tpot_s": tpot, "e2e_s": e2e}
    return replace(
        prediction,
        ttft_s=ttft,
        itl_s=itl,
        tpot_s=tpot,
        e2e_s=e2e,
        intervals={
            metric: {name: (value * (1.0 - no_wait.get(metric, 0.0)), None) for name, value in values.items()}
            for metric, values in found.items()
        },
        requests_per_s_max=max(prediction.requests_per_s_max, flow.requests_per_s),
        output_tokens_per_s=flow.requests_per_s * loaded.load.mean_output_tokens,
        ttft_parts_s=dict.fromkeys(prediction.ttft_parts_s, 0.0)
        | {"wait_s": flow.wait_s, "prefill_s": flow.own_s, "front_end_s": flow.ttft_s - flow.wait_s - flow.own_s},
        notes=(*prediction.notes, Note("caution", _told(sessions.users, flow))),
    )


def _told(users: int, flow: Flow) -> str:
    if flow.saturated:
        text = f"{users:,} users ask for more than is carried: they wait {format_seconds(flow.wait_s)} for room"
    else:
        text = f"{users:,} users come near what is carried: they wait {format_seconds(flow.wait_s)} in the mean"
    return f"{text} and send less; times are those of that closed loop, with no upper end to their intervals"


def _own_s(loaded: Loaded, flow: Flow) -> Floats:
    """What each input atom feels of its own prefill, at the mean of the settled state."""
    alone = loaded.prefill.own_prefill_s
    return np.asarray(alone * (flow.own_s / float(loaded.load.input_weights @ alone)))


def _ttft(loaded: Loaded, flow: Flow) -> Statistics:
    own_s = _own_s(loaded, flow)
    rest_s = flow.ttft_s - flow.wait_s - flow.own_s
    return _statistics(flow, own_s + rest_s, loaded.load.input_weights)


def _e2e(loaded: Loaded, flow: Flow) -> Statistics:
    load = loaded.load
    own_s = load.at_inputs(load.joint_input_tokens, _own_s(loaded, flow))
    steps = np.maximum(load.joint_output_tokens - 1.0, 0.0) / load.step_tokens
    rest_s = flow.ttft_s - flow.wait_s - flow.own_s
    return _statistics(flow, own_s + rest_s + steps * flow.itl_s, load.joint_weights)


def _itl(loaded: Loaded, flow: Flow) -> Statistics:
    """A step without prefill, or one with as much of a prompt as fits; shares of both give the mean."""
    batch = np.array([max(flow.batch, 1.0)])
    least = min(float(loaded.decode.decode(batch).total_s[0]), flow.itl_s)
    room = max(min(loaded.decode.token_budget - flow.batch, loaded.load.mean_new_tokens), 1.0)
    most = max(float(np.ravel(loaded.decode.mixed(batch, np.array([room])).total_s)[0]), flow.itl_s)
    share = (flow.itl_s - least) / (most - least) if most > least else 0.0
    return {"mean": flow.itl_s} | {name: most if share > 1.0 - q else least for name, q in PROBABILITY.items()}


def _statistics(flow: Flow, times_s: Floats, weights: Floats) -> Statistics:
    """Of atoms with an independent wait of `flow.wait_s` in the mean on top."""
    from scipy.special import gammainc

    stages = max(flow.requests_per_s * flow.wait_s, 1.0)
    wait_s = max(flow.wait_s, 1e-9)

    def quantile(q: float) -> float:
        low, high = 0.0, float(times_s.max()) + 50.0 * wait_s
        for _ in range(60):
            middle = (low + high) / 2.0
            within = gammainc(stages, np.maximum(middle - times_s, 0.0) * (stages / wait_s))
            low, high = (middle, high) if float(weights @ within) < q else (low, middle)
        return high

    mean = float(weights @ times_s) + flow.wait_s
    return {"mean": mean} | {name: quantile(q) for name, q in PROBABILITY.items()}
