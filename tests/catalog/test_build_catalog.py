"""The builder of the shipped catalog: same tables, same bytes; and which rows of a timing table count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT / "tests" / "data" / "facts"
sys.path.insert(0, str(ROOT / "tools"))

import build_catalog  # noqa: E402
from catalog_build import engines, fits, writing  # noqa: E402

ACCELERATOR = {
    "name": "part", "bf16_tflops": "1000", "fp8_tflops": "2000", "fp4_tflops": "", "scaleup_gbs_uni": "400",
}  # fmt: skip


def row(**values: str) -> dict[str, str]:
    """A row of the timing table; what is not given is empty."""
    empty = dict.fromkeys(
        ("kv_dtype", "head_dim", "kernel", "n_gpus", "t0_us", "eff_compute", "eff_mem", "q", "c_ns", "S_tokens", "g",
         "alpha_us", "eff_gbs", "alpha_us_c3", "eff_gbs_c3", "peak_tflops", "note", "n_rows", "form"), ""
    )  # fmt: skip
    return {**empty, "trust": "high", "preferred": "1", "source": f"table of {values['backend']}", **values}


def gemm(backend: str, compute: str, **values: str) -> dict[str, str]:
    return row(
        backend=backend, op_family="gemm", op="gemm", dtype="bfloat16", t0_us="4", eff_compute=compute, eff_mem="0.8",
        q="2", peak_tflops="1000", **values,
    )  # fmt: skip


def all_reduce(backend: str, latency: str, kernel: str = "graph", **values: str) -> dict[str, str]:
    return row(
        backend=backend, op_family="collective", op="all_reduce", dtype="bf16/half", n_gpus="4", kernel=kernel,
        alpha_us_c3=latency, eff_gbs_c3="300", q="0.6", **values,
    )  # fmt: skip


def only(rows: list[dict[str, str]]) -> dict[str, fits.Fit]:
    (engines_of_shape,) = fits._fits(rows, ACCELERATOR).values()
    return engines_of_shape


def test_the_shipped_bytes_come_out_again(tmp_path: Path) -> None:
    build_catalog.main(["--facts", str(FACTS), "--out", str(tmp_path)])
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.yaml"))
    assert [path.as_posix() for path in written] == [
        "accelerators/a100-sxm-80.yaml", "accelerators/l40s.yaml", "accelerators/mi300x.yaml",
        "efficiency/a100-sxm-80.yaml", "links/nvlink3.yaml", "links/pcie4-x16.yaml", "links/xgmi-mi300x.yaml",
        "storage/host-dram-ddr5-4800-x12-channels.yaml", "storage/host-dram-ddr5-4800-x8-channels.yaml",
    ]  # fmt: skip
    for path in written:
        assert (tmp_path / path).read_bytes() == (ROOT / "hardware" / path).read_bytes(), path


def test_engines_come_from_the_runs_they_were_fitted_on(tmp_path: Path) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text(
        "engine,model,accelerator\nvllm,meta-llama/Meta-Llama-3.1-8B-Instruct,b200\nsglang,zhipuai/GLM-5,b300\n"
    )
    engines.build(runs, tmp_path)
    text = (tmp_path / "engines" / "generic.yaml").read_text()
    assert text.endswith("measured_cells:\n  meta-llama/Llama-3.1-8B: [b200]\n  zai-org/GLM-5: [b300]\n")
    shipped = (ROOT / "hardware" / "engines" / "vllm.yaml").read_text()
    head = shipped[: shipped.index("measured_cells:")]
    assert (
        tmp_path / "engines" / "vllm.yaml"
    ).read_text() == f"{head}measured_cells:\n  meta-llama/Llama-3.1-8B: [b200]\n"


def test_engine_rows_and_their_median() -> None:
    rows = only([gemm("vllm", "0.8"), gemm("sglang", "0.6"), gemm("trtllm", "0.7", trust="medium")])
    assert list(rows) == ["sglang", "tensorrt-llm", "vllm", "any"]
    assert rows["any"].values["compute_fraction"] == 0.7
    assert rows["any"].trust == "medium"


def test_low_trust_is_the_last_resort() -> None:
    rows = only([gemm("vllm", "0.1", trust="low"), gemm("sglang", "0.6")])
    assert list(rows) == ["sglang", "any"]
    assert rows["any"].values["compute_fraction"] == 0.6
    alone = only([gemm("vllm", "0.1", trust="low"), gemm("sglang", "0.3", trust="memory_only")])
    assert list(alone) == ["any"]
    assert (alone["any"].values["compute_fraction"], alone["any"].trust) == (pytest.approx(0.2), "low")


def test_a_usable_kernel_beats_the_preferred_one() -> None:
    rows = only([gemm("vllm", "0.1", trust="low"), gemm("vllm", "0.5", preferred="0")])
    assert rows["vllm"].values["compute_fraction"] == 0.5


def test_eager_collectives_are_never_used() -> None:
    eager = all_reduce("sglang", "32", "custom_eager", trust="bandwidth_only", note="eager mode")
    assert fits._fits([eager], ACCELERATOR) == {}
    rows = only([eager, all_reduce("vllm", "5"), all_reduce("nccl", "15")])
    assert rows["any"].values["latency"] == 5.0  # engines before the library


def test_the_library_stands_in_where_no_engine_was_timed() -> None:
    rows = only([all_reduce("nccl", "15"), all_reduce("vllm", "3", trust="low")])
    assert list(rows) == ["any"]
    assert rows["any"].values == {"exponent": 0.6, "latency": 15.0, "link_fraction": 0.75}  # 300 of 400 GB/s


def test_a_dtype_without_a_peak_is_left_out() -> None:
    assert fits._fits([gemm("vllm", "0.5") | {"dtype": "nvfp4"}], ACCELERATOR) == {}
    assert fits._fits([gemm("vllm", "0.5") | {"dtype": "fp8"}], ACCELERATOR) == {}  # fitted on the bf16 peak


def test_clipping() -> None:
    wild = {"start_up": 40.0, "compute_fraction": 1.3, "memory_fraction": 1.2, "exponent": 12.0, "gather_factor": 22.0}
    assert fits._clipped(wild, "gemm") == {
        "start_up": 6.0, "compute_fraction": 1.0, "memory_fraction": 0.95, "exponent": 6.0, "gather_factor": 22.0,
    }  # fmt: skip
    assert fits._clipped(wild, "experts") == {
        "start_up": 40.0, "compute_fraction": 1.0, "memory_fraction": 1.0, "exponent": 6.0, "gather_factor": 12.0,
    }  # fmt: skip
    latent = fits._clipped(wild, "decode_mla")
    assert (latent["compute_fraction"], latent["memory_fraction"]) == (0.8, 0.9)
    assert fits._clipped({"exponent": 0.5, "link_fraction": 1.44}, "all_reduce") == {
        "exponent": 0.5, "link_fraction": 1.1,
    }  # fmt: skip
    assert fits._clipped({"exponent": 0.5}, "gemm") == {"exponent": 1.2}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("AIConfigurator 0.12.0 systems yaml", "AIConfigurator 0.12.0 systems yaml"),
        ("a, b", '"a, b"'),
        ("no", '"no"'),
        ("x: y", '"x: y"'),
        ("1.0", '"1.0"'),
        ("", '""'),
        ('say "x"', '"say \\"x\\""'),
    ],
)
def test_scalars_are_quoted_where_yaml_would_read_them_otherwise(text: str, written: str) -> None:
    assert writing.scalar(text) == written


@pytest.mark.parametrize(("gbs", "written"), [("450.0", "450 GB/s"), ("4800", "4.8 TB/s"), ("2039", "2.039 TB/s")])
def test_rates(gbs: str, written: str) -> None:
    assert writing.rate(gbs) == written
