"""N clients in a closed loop: the wait in a burst, admission, and what must hold whatever the constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_examples import DEEPSEEK_R1, H100, LLAMA_70B, SGLANG, VLLM, VLLM_CONSTANTS

from planner.records import ClosedLoop, Deployment, Pool, Speculation
from planner.roofline.steps import decode_s
from planner.roofline.worker import build_worker
from planner.serving.admitted import token_budget
from planner.serving.closed_loop import (
    Colocated,
    Disaggregated,
    Loop,
    burst_wait_s,
    solve,
    spanning,
    why_not,
)
from planner.serving.stacked import as_row


def run(
    clients: float = 16.0, prompt: float = 1000.0, output: float = 500.0, tp: int = 4, replicas: int = 1
) -> ClosedLoop:
    deployment = Deployment("colocated-chunked", Pool("h100-sxm", replicas, tp=tp))
    return ClosedLoop(LLAMA_70B, "fp8", "fp8", VLLM, H100, None, deployment, prompt, output, False, clients)


def split(clients: float, prefill: int = 1, decode: int = 1) -> ClosedLoop:
    pools = Deployment("disaggregated", Pool("h100-sxm", decode, tp=4), Pool("h100-sxm", prefill, tp=4))
    return replace(run(clients), deployment=pools, prefill_accelerator=H100)


def answer(loop: Loop, iterations: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    constants = np.tile(as_row(VLLM_CONSTANTS), (loop.rows, 1))
    found = solve(loop, constants, iterations=iterations)
    return found.ttft_s, found.tpot_s, found.batch


def test_a_burst_that_overflows_waits_half_of_what_is_over() -> None:
    # x = 10 s of work over y = 2 s: (10 - 2) / 2 = 4 s, plus a vanishing share of one service.
    assert burst_wait_s(np.array(10.0), np.array(2.0), np.array(1e-9)) == pytest.approx(4.0)


def test_a_burst_that_fits_waits_as_in_a_queue() -> None:
    # x = 1 s over y = 100 s, S = 0.01 s: x S / (2 (y - x)) = 0.01 / 198 = 50.5 us.
    assert burst_wait_s(np.array(1.0), np.array(100.0), np.array(0.01)) == pytest.approx(0.01 / 198, rel=1e-3)


def test_at_balance_the_wait_goes_with_the_root_of_the_clients() -> None:
    # x = y = N S: S sqrt(N) / 2, here 0.1 sqrt(64) / 2 = 0.4 s.
    assert burst_wait_s(np.array(6.4), np.array(6.4), np.array(0.1)) == pytest.approx(0.4)


def test_the_batch_is_a_fixed_point() -> None:
    loop = Colocated([run(clients) for clients in (1, 8, 64, 512)])
    constants = np.tile(as_row(VLLM_CONSTANTS), (loop.rows, 1))
    batch = solve(loop, constants).batch
    again = loop.answer(constants, loop.point(constants, batch)).batch
    np.testing.assert_allclose(again, batch, rtol=1e-3)
    assert np.all(batch <= np.array([1, 8, 64, 512]) + 1e-9)


def test_more_clients_wait_longer_and_slow_each_other() -> None:
    ttft, tpot, batch = answer(Colocated([run(clients) for clients in (1, 4, 16, 64, 256)]))
    assert np.all(np.diff(ttft) > 0)
    assert np.all(np.diff(tpot) > 0)
    assert np.all(np.diff(batch) > 0)


def test_clients_beyond_the_memory_queue_for_a_whole_life() -> None:
    # Little's law: with R running, those beyond wait (N - R) / R lives.
    loop = Colocated([run(4000.0, prompt=8000.0)])
    ttft, tpot, _ = answer(loop)
    running = loop.load.running[0]
    assert running < 1000
    assert ttft[0] > (4000 - running) / running * 499 * tpot[0]


def test_replicas_share_the_clients() -> None:
    two = answer(Colocated([run(32.0, replicas=2)]))
    one = answer(Colocated([run(16.0)]))
    np.testing.assert_allclose(two[:2], one[:2])


def test_runs_do_not_see_each_other() -> None:
    together = answer(Colocated([run(8.0), run(64.0, 4000.0, 100.0, tp=8)]))
    np.testing.assert_allclose(
        [values[1] for values in together], [x[0] for x in answer(Colocated([run(64.0, 4000.0, 100.0, tp=8)]))]
    )


def test_a_decode_pool_feels_no_prefill() -> None:
    apart, both = answer(Disaggregated([split(64.0)])), answer(Colocated([run(64.0)]))
    assert apart[1][0] < both[1][0]


@pytest.mark.parametrize("one", [run(8.0), split(8.0)], ids=["together", "apart"])
def test_accepted_drafts_shorten_decoding_and_refused_ones_only_cost(one: ClosedLoop) -> None:
    loop = Disaggregated if one.deployment.prefill else Colocated
    drafted = [replace(one, speculation=Speculation(3, accepted)) for accepted in (0.0, 1.0, 3.0)]
    _, tpot, _ = answer(loop([one, *drafted]))
    refused, some, every = tpot[1:] / tpot[0]
    assert refused > 1.0
    assert some < 1.0
    assert 0.9 * refused / 4.0 < every < some  # four tokens a step, of a smaller batch


def test_a_drafted_token_takes_its_share_of_a_step() -> None:
    # A step that verifies 4 tokens gives 3.
    drafts = Speculation(3, 2.0)
    _, tpot, batch = answer(Disaggregated([replace(split(1.0), speculation=drafts)]))
    worker = build_worker(LLAMA_70B, "fp8", "fp8", H100, "vllm", VLLM_CONSTANTS, tp=4, speculation=drafts)
    step = decode_s(worker, batch, 1250.0).total_s
    assert tpot == pytest.approx(step / 3.0, rel=1e-6)


def test_a_saturated_prefill_pool_holds_who_does_not_decode() -> None:
    loop = Disaggregated([split(2000.0, decode=8), split(2000.0, prefill=4, decode=8)])
    ttft, _, batch = answer(loop, 12)
    assert ttft[0] > 2 * ttft[1]
    assert batch[0] < batch[1]


def test_a_chunk_is_larger_on_large_memory_where_the_engine_does_so() -> None:
    large = replace(H100, memory_bytes=180e9)
    assert token_budget(SGLANG, Pool("x", 1), large) == 2 * token_budget(SGLANG, Pool("x", 1), H100)
    assert token_budget(VLLM, Pool("x", 1), large) == 8192
    assert token_budget(VLLM, Pool("x", 1, token_budget=100), large) == 100


def test_across_nodes_the_links_between_them_count() -> None:
    # 16 ranks in two domains of 8: 2 (7/8) / 450 + 2 (1/2) / 8 / 50 = 6.389 ms per GB; 2 (15/16) / 6.389 = 293 GB/s.
    assert spanning(H100, 16).scaleup_bytes_per_s == pytest.approx(293.5e9, rel=1e-3)
    assert spanning(H100, 8) is H100


def test_what_cannot_be_says_why() -> None:
    assert why_not(run(), {}) == ""
    assert why_not(run(tp=3), {}).startswith("tp 3 does not divide")
    large = replace(run(tp=1), model=DEEPSEEK_R1)
    assert "GB per accelerator at tp 1, and h100-sxm has 85.9 GB" in why_not(large, {})


@given(
    clients=st.floats(1, 3000), prompt=st.floats(1, 30000), output=st.floats(1, 8000), tp=st.sampled_from([1, 2, 4, 8])
)
def test_times_are_finite_and_positive(clients: float, prompt: float, output: float, tp: int) -> None:
    for loop in (Colocated([run(clients, prompt, output, tp)]), Disaggregated([split(clients)])):
        for values in answer(loop):
            assert np.all(np.isfinite(values))
            assert np.all(values > 0)
