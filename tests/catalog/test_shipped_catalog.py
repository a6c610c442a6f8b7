"""Every shipped catalog file: it loads, names its sources, and says nothing physics or the datasheets rule out."""

from __future__ import annotations

from datetime import date

import pytest

from planner.files.catalog import Catalog, accelerator_id, shipped_folder
from planner.files.yamlfile import load
from planner.records import Accelerator, EngineProfile, OperatorFit

CATALOG = Catalog()
IDS = CATALOG.accelerator_ids()
KINDS = {"datasheet", "vendor", "measured", "third-party", "announced", "estimate"}
FILES = sorted(shipped_folder().glob("*/*.yaml"))
ENGINES = ("generic", "sglang", "tensorrt-llm", "vllm")


@pytest.fixture(params=IDS)
def accelerator(request: pytest.FixtureRequest) -> Accelerator:
    return CATALOG.accelerator(request.param)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> EngineProfile:
    return CATALOG.engine(request.param)


def fit(accelerator: Accelerator, operator: str, **shape: object) -> OperatorFit:
    (found,) = [
        fit
        for fit in accelerator.fits
        if fit.operator == operator and all(getattr(fit, name) == value for name, value in shape.items())
    ]
    return found


def test_every_file_of_the_folder_is_read_without_a_fault() -> None:
    assert CATALOG.faults() == ()
    folders = {path.parent.name: 0 for path in FILES}
    for path in FILES:
        folders[path.parent.name] += 1
    assert folders == {
        "accelerators": 38, "efficiency": 10, "engines": 4, "links": 49, "storage": 23, "systems": 28, "sheets": 2,
    }  # fmt: skip
    assert (len(CATALOG.links()), len(CATALOG.storage())) == (49, 23)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_is_named_after_its_id_stays_small_and_dates_its_sources(path) -> None:  # type: ignore[no-untyped-def]
    document = load(path)
    assert document.value["id"] == path.stem
    assert path.stat().st_size < 25_000
    for value in _sourced(document.value):
        assert value["source"].strip()
        assert value["kind"] in KINDS
        assert date(2026, 1, 1) <= date.fromisoformat(value["retrieved"]) <= date(2026, 11, 30)


def _sourced(value: object) -> list[dict[str, str]]:
    if not isinstance(value, dict):
        return []
    own = [value] if "value" in value and "fits" not in value else []
    return own + [found for inner in value.values() for found in _sourced(inner)]


def test_every_quantity_of_an_accelerator_has_provenance(accelerator: Accelerator) -> None:
    for name in (
        "memory_bytes", "memory_bytes_per_s", "bf16_dense_flops_per_s", "fp8_dense_flops_per_s",
        "fp4_dense_flops_per_s", "int8_dense_flops_per_s", "bf16_sparse_flops_per_s", "fp8_sparse_flops_per_s",
        "fp4_sparse_flops_per_s", "scaleup_bytes_per_s", "scaleup_domain", "node_accelerators", "host_bytes_per_s",
        "nic_bytes_per_s", "tdp_watts", "all_in_watts", "compute_units", "purchase_usd",
    ):  # fmt: skip
        if getattr(accelerator, name) is not None:
            assert accelerator.provenance[name].source, name
    for basis in accelerator.usd_per_hour:
        assert accelerator.provenance[f"usd_per_hour.{basis}"].source
    assert all(fit.source for fit in accelerator.fits)


def test_values_lie_where_parts_of_this_decade_lie(accelerator: Accelerator) -> None:
    assert 16e9 <= accelerator.memory_bytes <= 500e9
    assert 300e9 <= accelerator.memory_bytes_per_s <= 25e12
    assert 50e12 <= accelerator.bf16_dense_flops_per_s <= 10e15
    assert accelerator.nic_bytes_per_s is None or 1e9 <= accelerator.nic_bytes_per_s <= 200e9
    assert accelerator.scaleup_bytes_per_s is None or 20e9 <= accelerator.scaleup_bytes_per_s <= 2e12
    assert accelerator.tdp_watts is None or 70 <= accelerator.tdp_watts <= 2000
    assert 1 <= accelerator.node_accelerators <= 16
    assert 1 <= accelerator.compute_units <= 400
    assert all(0.1 < price < 20 for price in accelerator.usd_per_hour.values())
    assert accelerator.usd_per_hour.get("cloud_low", 0) <= accelerator.usd_per_hour.get("cloud_high", 0)


def test_dense_peaks_keep_their_ratios(accelerator: Accelerator) -> None:
    """8 bits are at most twice 16 bits (within 5 %), except on parts whose 4-bit units were built up alone."""
    bf16, fp8, fp4 = (getattr(accelerator, f"{dtype}_dense_flops_per_s") for dtype in ("bf16", "fp8", "fp4"))
    if fp8 and accelerator.status == "shipping":
        assert bf16 <= fp8 <= 2.0 * bf16 * 1.05
    if fp4:
        assert fp4 >= 2.0 * fp8 * 0.99
    for dtype, dense in (("bf16", bf16), ("fp8", fp8), ("fp4", fp4)):
        sparse = getattr(accelerator, f"{dtype}_sparse_flops_per_s")
        if sparse:
            assert dense <= sparse / 2 * 1.01, dtype


def test_published_figures() -> None:
    """Datasheet values, and which part is faster than which."""
    h100, h200, b200, b300 = (CATALOG.accelerator(name) for name in ("h100-sxm", "h200-sxm", "b200", "b300"))
    assert h200.memory_bytes == 141 * 2**30 == 151397597184
    assert h100.memory_bytes == 80 * 2**30
    assert h100.memory_bytes_per_s == pytest.approx(3.35e12)
    assert h200.memory_bytes_per_s == pytest.approx(4.8e12)
    assert h100.bf16_dense_flops_per_s == h200.bf16_dense_flops_per_s == pytest.approx(989.4e12)
    assert h100.bf16_sparse_flops_per_s == pytest.approx(1979e12)
    assert h100.scaleup_bytes_per_s == pytest.approx(450e9)  # 900 GB/s both ways
    assert h100.nic_bytes_per_s == pytest.approx(50e9)  # 400 Gb/s
    assert h100.usd_per_hour == {
        "cloud_low": 1.99, "cloud_high": 12.29, "rent3y": 1.3, "own_hyperscaler": 1.3, "own_neocloud": 1.69,
    }  # fmt: skip
    assert h100.memory_bytes_per_s < h200.memory_bytes_per_s < b200.memory_bytes_per_s < b300.memory_bytes_per_s
    assert h100.memory_bytes < h200.memory_bytes < b200.memory_bytes < b300.memory_bytes
    assert CATALOG.accelerator("gb200").scaleup_domain == 72
    assert CATALOG.accelerator("gb200").node_accelerators == 4
    assert CATALOG.accelerator("a100-sxm-80").fp8_dense_flops_per_s is None


def test_fits_stay_inside_physics(accelerator: Accelerator) -> None:
    for row in accelerator.fits:
        assert 0 <= row.compute_fraction <= 1, row
        assert 0 <= row.memory_fraction <= 1, row
        assert 0 <= row.link_fraction <= 1.1, row
        assert 0 <= row.start_up_s < 300e-6, row
        if row.operator == "gemm":
            assert row.start_up_s <= 6e-6, row
            assert row.memory_fraction <= 0.95, row
            assert 1.2 <= row.exponent <= 6, row
        if row.operator == "experts":
            assert 1 <= row.exponent <= 6, row
            assert row.gather_factor <= 12, row
        if row.operator in ("prefill_mla", "decode_mla"):
            assert row.compute_fraction <= 0.8, row
            assert row.kv_dtype == "bf16", row


def test_engine_rows_are_usable_and_have_a_median_beside_them(accelerator: Accelerator) -> None:
    shapes: dict[tuple[object, ...], list[OperatorFit]] = {}
    for row in accelerator.fits:
        key = (row.operator, row.dtype, row.kv_dtype, row.head_dim, row.ranks, row.window)
        shapes.setdefault(key, []).append(row)
    for rows in shapes.values():
        engines = [row.engine for row in rows]
        assert len(set(engines)) == len(engines)
        assert engines[-1] == "any"
        beside_own = "borrowed" in rows[0].source and not accelerator.efficiency_like
        assert beside_own or all(row.trust in ("high", "medium") for row in rows[:-1])


def test_every_accelerator_resolves_the_operators_of_a_dense_model(accelerator: Accelerator) -> None:
    for operator, shape in (
        ("gemm", {"dtype": "bf16"}),
        ("decode_attention", {"dtype": "bf16", "kv_dtype": "bf16", "head_dim": 128}),
        ("prefill_attention", {"dtype": "bf16", "kv_dtype": "bf16", "head_dim": 128, "window": False}),
        ("all_reduce", {"dtype": "bf16", "ranks": 2}),
        ("experts", {"dtype": "bf16"}),
        ("decode_mla", {"dtype": "bf16"}),
    ):
        assert fit(accelerator, operator, engine="any", **shape)
    if accelerator.fp8_dense_flops_per_s:
        assert fit(accelerator, "gemm", engine="any", dtype="fp8")
    else:
        assert not [row for row in accelerator.fits if row.dtype.startswith("fp8") or row.dtype == "mxfp4_fp8"]


def test_an_accelerator_has_fits_of_its_own_or_says_whose_it_borrows(accelerator: Accelerator) -> None:
    if accelerator.id in CATALOG.fitted_ids():
        assert accelerator.efficiency_like == ""
    else:
        assert accelerator.efficiency_like in CATALOG.fitted_ids()
        assert accelerator.provenance["efficiency_like"].kind == "estimate"
        assert all(row.source.startswith(f"borrowed from {accelerator.efficiency_like}: ") for row in accelerator.fits)


def test_custom_all_reduce_is_the_graph_captured_one() -> None:
    """Engines replay collectives from a graph: a few microseconds in a node, not the 20 to 80 of an eager launch.

    PCIe parts go through host memory (23 us at 8 ranks); across trays of an NVL72 28 to 50 us were timed in a graph.
    """
    for name in CATALOG.fitted_ids():
        part = CATALOG.accelerator(name)
        within_node = [
            row
            for row in part.fits
            if row.operator == "all_reduce" and row.engine != "any" and row.ranks <= part.node_accelerators
        ]
        assert within_node or name == "intel-b60"  # only its library was timed
        assert max((row.latency_s for row in within_node), default=0.0) < (8e-6 if part.scaleup_domain > 1 else 25e-6)
    h100 = CATALOG.accelerator("h100-sxm")
    assert fit(h100, "all_reduce", engine="vllm", ranks=8).latency_s == pytest.approx(4.65e-6)
    # The TensorRT-LLM row at 8 ranks has low trust and so has SGLang's: the median is vLLM's alone.
    assert fit(h100, "all_reduce", engine="any", ranks=8).latency_s == pytest.approx(4.65e-6)


def test_median_over_engines() -> None:
    """GEMM of the H100 in bf16: 0.744, 0.772, 0.800 of peak in the three engines; start-up 4.211, 3.985, 3.822 us."""
    median = fit(CATALOG.accelerator("h100-sxm"), "gemm", engine="any", dtype="bf16")
    assert (median.compute_fraction, median.start_up_s) == (0.772, pytest.approx(3.985e-6))
    assert median.source == "median over sglang, tensorrt-llm, vllm"


def test_engines_hold_every_interval_class_and_the_wider_the_less_is_known(engine: EngineProfile) -> None:
    for mode in ("colocated", "disaggregated"):
        widths = []
        for name in ("known-cell", "new-cell", "new-model", "new-accelerator", "guess"):
            factors = engine.intervals[f"{mode}/{name}"]
            assert factors.step_low < 1 < factors.step_high
            assert factors.ttft_low < 1 < factors.ttft_high
            widths.append(factors.step_high / factors.step_low)
        assert widths == sorted(widths)
    assert engine.interval_coverage == 0.8


def test_engine_constants_stay_within_physics(engine: EngineProfile) -> None:
    """Multipliers of physics within a third of 1, costs of launches and hosts of the size that profilers show."""
    for constants in (engine.colocated, engine.disaggregated):
        assert 0.9 < constants.gemm_memory_factor < 1.3
        assert 0.9 < constants.compute_factor < 1.4
        assert 0.6 < constants.experts_factor < 1.2
        assert 0.8 < constants.decode_attention_factor < 1.3
        assert 0.5e-6 < constants.kernel_gap_s < 5e-6
        assert 10e-6 < constants.host_step_s < 1e-3


def test_engine_rules() -> None:
    rules = {name: CATALOG.engine(name) for name in ENGINES}
    assert {name: rule.scheduling for name, rule in rules.items()} == {
        "generic": "mixed", "sglang": "prefill-first", "tensorrt-llm": "mixed", "vllm": "mixed",
    }  # fmt: skip
    assert (rules["vllm"].memory.basis, rules["vllm"].memory.fraction) == ("total", 0.92)
    assert (rules["tensorrt-llm"].memory.basis, rules["tensorrt-llm"].memory.fraction) == ("free-after-load", 0.9)
    assert rules["sglang"].memory.basis == "free-before-load"
    assert {name: rule.memory.block_tokens for name, rule in rules.items()} == {
        "generic": 16, "sglang": 1, "tensorrt-llm": 32, "vllm": 16,
    }  # fmt: skip
    assert rules["tensorrt-llm"].reserved_output_fraction == 1


def test_measured_cells_name_accelerators_of_the_catalog(engine: EngineProfile) -> None:
    assert engine.measured_cells
    assert {accelerator for _, accelerator in engine.measured_cells} <= set(IDS)
    assert engine.measured_cells <= CATALOG.engine("generic").measured_cells
    assert not [model for model, _ in engine.measured_cells if "Meta-" in model or model.endswith("-Instruct")]


def test_links_and_tiers_are_slower_in_use_than_on_paper() -> None:
    for link in CATALOG.links():
        assert link.link_class in ("scale-up", "host", "nic", "switch", "scale-out")
        if link.achieved_fraction:
            assert link.achieved_fraction <= 1
    for tier in CATALOG.storage():
        if tier.read_bytes_per_s and tier.achieved_read_bytes_per_s:
            assert tier.achieved_read_bytes_per_s < tier.read_bytes_per_s
    assert {link.id: link for link in CATALOG.links()}["nvlink4"].bytes_per_s == pytest.approx(450e9)


def test_aliases_lead_to_files() -> None:
    from planner.files.catalog import ACCELERATOR_ALIASES, ENGINE_ALIASES

    assert set(ACCELERATOR_ALIASES.values()) <= set(IDS)
    assert set(ENGINE_ALIASES.values()) <= set(ENGINES)
    assert not set(ACCELERATOR_ALIASES) & set(IDS)
    assert accelerator_id("NVIDIA H100 80GB HBM3") == "h100-sxm"
