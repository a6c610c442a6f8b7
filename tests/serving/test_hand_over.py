"""KV moving from prefill to decode, by hand (MODELLING §5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import small_scenarios as small

from planner.errors import FieldError
from planner.records import Pool
from planner.serving.role import Role, build_role
from planner.serving.traffic import traffic
from planner.serving.transfer import LINE_FRACTION, SET_UP_S, exposed_s, transfer, transfer_rate

# Llama-3.1-8B: 32 layers x 8 KV heads x (128 + 128) x 2 bytes = 131,072 bytes per token.
BYTES_PER_TOKEN = 131072.0


def pair(prefill_tp: int = 1, decode_tp: int = 1, requests_per_s: float = 20.0) -> tuple[Role, Role]:
    question = small.scenario(lengths=small.fixed_lengths(4000.0, 100.0), requests_per_s=requests_per_s)
    load, item = traffic(question.workload), question.prefill_accelerators[0]
    return (
        build_role(question, load, "prefill", Pool(item.id, 1, tp=prefill_tp), item),
        build_role(question, load, "decode", Pool(item.id, 1, tp=decode_tp), item),
    )


def test_the_narrower_side_sets_the_rate() -> None:
    """0.7 of one 50 GB/s NIC per accelerator: 35 GB/s from one, 70 GB/s between workers of two."""
    assert transfer_rate(*pair(1, 2), 50e9) == pytest.approx(35e9)
    assert transfer_rate(*pair(4, 2), 50e9) == pytest.approx(70e9)
    assert LINE_FRACTION == 0.7


def test_the_last_layer_is_always_seen() -> None:
    """524 MB at 35 GB/s are 15 ms, less than the prefill: only 1 of 32 layers shows, 0.47 ms, and the set-up."""
    prefill, _ = pair()
    whole_s = 4000.0 * BYTES_PER_TOKEN / 35e9
    assert prefill.service_s[0] * 31.0 / 32.0 > whole_s
    assert exposed_s(prefill, 35e9)[0] == pytest.approx(whole_s / 32.0 + SET_UP_S)


def test_a_slow_link_shows_what_the_prefill_does_not_hide() -> None:
    prefill, _ = pair()
    whole_s = 4000.0 * BYTES_PER_TOKEN / 2e9  # 0.26 s
    assert exposed_s(prefill, 2e9)[0] == pytest.approx(whole_s - prefill.service_s[0] * 31.0 / 32.0 + SET_UP_S)


def test_the_load_on_the_nics_by_hand() -> None:
    """20/s x 524 MB = 10.5 GB/s on 3 x 35 GB/s: 10 % busy; all transfers alike wait rho / (2 (1 - rho)) of one."""
    moved = transfer(*pair(), 3, 5, 50e9)
    load = 20.0 * 4000.0 * BYTES_PER_TOKEN / (3.0 * 35e9)
    assert moved.bytes_per_request == pytest.approx(4000.0 * BYTES_PER_TOKEN)
    assert moved.utilization == pytest.approx(load)
    mean_s = 4000.0 * BYTES_PER_TOKEN / 35e9
    assert moved.queue_s == pytest.approx(load / (2.0 * (1.0 - load)) * mean_s)
    assert moved.mean_duration_s == pytest.approx(mean_s + SET_UP_S)


def test_more_traffic_than_the_nics_carry_waits_forever() -> None:
    assert transfer(*pair(requests_per_s=300.0), 3, 5, 50e9).queue_s == np.inf


def test_without_any_nic_the_fault_says_what_to_give() -> None:
    prefill, decode = pair()
    bare = replace(prefill, accelerator=replace(prefill.accelerator, nic_bytes_per_s=None))
    with pytest.raises(FieldError, match=r"give hardware\.network"):
        transfer(bare, decode, 1, 1, None)
