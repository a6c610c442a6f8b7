"""Collectives and transfers against hand arithmetic and published bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.roofline import collectives


def test_one_rank_moves_nothing() -> None:
    sizes = np.array([0.0, 1e6])
    for zero in (
        collectives.all_reduce_s(sizes, 1, 1e-5, 1e9, 0.6),
        collectives.gather_s(sizes, 1, 1e-5, 1e9, 0.6),
        collectives.all_to_all_s(sizes, 8, 7168, 1, 1e9),
    ):
        assert zero.tolist() == [0.0, 0.0]


def test_bus_bytes() -> None:
    # 1 MB over 4 ranks at 100 GB/s: all-reduce 2 x 3/4 x 10 us, all-gather half of it.
    assert collectives.all_reduce_s(1e6, 4, 0.0, 100e9, 1.0) == pytest.approx(15e-6)
    assert collectives.gather_s(1e6, 4, 0.0, 100e9, 1.0) == pytest.approx(7.5e-6)


def test_small_messages_cost_the_latency() -> None:
    # TP 8 on H100, graph captured, 8 KiB: about 5 us (MODELLING §4: 16 KB 5.2 us).
    small = float(collectives.all_reduce_s(16384.0, 8, 4.65e-6, 1.011 * 450e9, 0.56))
    assert 4.65e-6 < small < 6e-6


def test_large_messages_reach_the_link() -> None:
    # 134 MB over TP 8 takes 575 us on H100 (MODELLING §4); the vLLM fit gives 6 % less.
    large = float(collectives.all_reduce_s(134e6, 8, 4.65e-6, 1.011 * 450e9, 0.56))
    assert large == pytest.approx(575e-6, rel=0.12)


def test_expert_exchange_bound_of_wide_parallelism() -> None:
    # 32 tokens to 9 experts of 7,000 elements, 1 + 2 bytes, 50 GB/s: 120.96 us per layer (PUBLISHED, V3-Insights).
    time = float(collectives.all_to_all_s(32.0, 9, 7000, 100000, 50e9)) - collectives.ALL_TO_ALL_START_UP_S
    assert time == pytest.approx(120.96e-6, rel=1e-3)


@pytest.mark.parametrize(
    ("ranks", "scaleup", "domain", "nic", "expected"),
    [
        (8, 450e9, 8, 50e9, 240e9),  # Hopper
        (8, 900e9, 8, 50e9, 500e9),  # Blackwell
        (32, 900e9, 72, 50e9, 420e9),  # rack-wide fabric
        (32, 450e9, 8, 50e9, 60e9),  # across nodes
    ],
)
def test_all_to_all_rate(ranks: int, scaleup: float, domain: int, nic: float, expected: float) -> None:
    assert collectives.all_to_all_bytes_per_s(ranks, scaleup, domain, nic) == pytest.approx(expected, rel=0.03)


def test_no_network_no_rate() -> None:
    assert collectives.all_to_all_bytes_per_s(16, 450e9, 8, None) == 0.0


def test_layerwise_push_hides_behind_the_prefill() -> None:
    # A link faster than the prefill makes cache leaves one layer, 80 ms / 80; a slower one what cannot be hidden.
    assert collectives.exposed_transfer_s(8e9, 100e9, 1.0, 80) == pytest.approx(1e-3)
    assert collectives.exposed_transfer_s(8e9, 100e9, 0.04, 80) == pytest.approx(0.08 - 0.04 * 79 / 80)
    assert collectives.exposed_transfer_s(8e9, 100e9, 0.04, 80, set_up_s=1e-3) == pytest.approx(0.081 - 0.0395)


@given(st.floats(1.0, 1e10), st.floats(1.0, 10.0), st.integers(2, 64))
def test_a_faster_link_is_never_slower(size: float, factor: float, ranks: int) -> None:
    slow = collectives.all_reduce_s(size, ranks, 5e-6, 1e11, 0.6)
    fast = collectives.all_reduce_s(size, ranks, 5e-6, 1e11 * factor, 0.6)
    assert fast <= slow * (1 + 1e-12)
    assert collectives.exposed_transfer_s(size, 1e11 * factor, 0.1, 80) <= (
        collectives.exposed_transfer_s(size, 1e11, 0.1, 80) * (1 + 1e-12)
    )
