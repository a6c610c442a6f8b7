"""Operators as the product prices them, against measured kernel times: median log errors by operator and format.

python tools/operator_errors.py POINTS.csv [POINTS.csv ...]        # columns as in tests/data/facts/measured_points.csv
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from catalog_build.fits import _DTYPES, _ENGINES  # noqa: E402

from planner.errors import FieldError  # noqa: E402
from planner.files.catalog import Catalog  # noqa: E402
from planner.records import Accelerator, OperatorFit  # noqa: E402
from planner.roofline import collectives, operators  # noqa: E402
from planner.roofline.efficiency import (  # noqa: E402
    activation_bytes,
    choose,
    clip_experts,
    clip_gemm,
    clip_latent,
    peak_flops_per_s,
)
from planner.shapes.formats import BYTES_PER_WEIGHT, kv_bytes_per_element  # noqa: E402

POINTS = ROOT / "tests" / "data" / "facts" / "measured_points.csv"
Point = Mapping[str, str]
_TITLES = {
    "gemm": "GEMM",
    "context_attention": "prefill attention",
    "generation_attention": "decode attention",
    "generation_mla": "decode MLA",
    "moe_power_law_1.2": "experts, skewed routing",
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
}


@dataclass(frozen=True, slots=True)
class Priced:
    """A measured kernel and its predicted time."""

    operator: str
    trust: str
    log_error: float  # ln(predicted / measured)


def price(points: Iterable[Point], catalog: Catalog) -> list[Priced]:
    """Every point that has a fit of its own dtype, at that fit's trust."""
    found = []
    for point in points:
        accelerator = catalog.accelerator(point["sku"])
        try:
            seconds, trust = _seconds(accelerator, point)
        except FieldError:
            continue
        found.append(Priced(point["op"], trust, math.log(seconds / (float(point["latency_us"]) * 1e-6))))
    return found


def _seconds(accelerator: Accelerator, point: Point) -> tuple[float, str]:
    operator = point["op"]
    if operator == "gemm":
        return _gemm(accelerator, point)
    if operator == "context_attention":
        return _prefill(accelerator, point)
    if operator.startswith("generation"):
        return _decode(accelerator, point)
    if operator.startswith("moe"):
        return _experts(accelerator, point)
    return _collective(accelerator, point)


def _named(point: Point) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", point["shape"])}


def _engine(point: Point) -> str:
    return _ENGINES.get(point["backend"], point["backend"])


def _dtype(point: Point) -> str:
    return _DTYPES.get(point["dtype"], "int8_int8" if point["dtype"] == "sq" else point["dtype"])


def _gemm(accelerator: Accelerator, point: Point) -> tuple[float, str]:
    dtype = _dtype(point)
    fit = clip_gemm(_own(accelerator, "gemm", dtype, point))
    m, n, k = (float(point[name]) for name in "mnk")
    compute = fit.compute_fraction * peak_flops_per_s(accelerator, dtype)
    memory = fit.memory_fraction * accelerator.memory_bytes_per_s
    time = operators.gemm_s(
        m, n, k, BYTES_PER_WEIGHT[dtype.split("_int8")[0]], activation_bytes(dtype), compute, memory, fit.exponent
    )
    return fit.start_up_s + float(time), fit.trust


def _prefill(accelerator: Accelerator, point: Point) -> tuple[float, str]:
    shape = _named(point)
    kv = _DTYPES.get(point["kv_dtype"], "bf16")
    fit = _own(accelerator, "prefill_attention", "bf16", point, head_dim=shape["head_dim"], kv_dtype=kv)
    if shape["batch"] != 1:
        raise FieldError("batch", "prompts are priced one by one")
    rate = fit.compute_fraction * accelerator.bf16_dense_flops_per_s
    size = (shape["heads"], float(shape["head_dim"]), fit.softmax_tokens, accelerator.compute_units)
    return fit.start_up_s + float(operators.prefill_attention_s(float(shape["isl"]), *size, rate)), fit.trust


def _decode(accelerator: Accelerator, point: Point) -> tuple[float, str]:
    shape = _named(point)
    sequences, context = float(shape["batch"]), float(shape["context"])
    kv = _DTYPES.get(point["kv_dtype"], "bf16")
    if point["op"] == "generation_mla":
        fit = clip_latent(_own(accelerator, "decode_mla", "bf16", point))
        rates = (
            fit.compute_fraction * accelerator.bf16_dense_flops_per_s,
            fit.memory_fraction * accelerator.memory_bytes_per_s,
        )
        kv_bytes = 576 * kv_bytes_per_element(kv)
        time = operators.decode_mla_s(sequences, context, shape["heads"], 1088, kv_bytes, fit.sequence_s, *rates, 2.0)
        return fit.start_up_s + float(time), fit.trust
    fit = _own(accelerator, "decode_attention", "bf16", point, head_dim=shape["head_dim"], kv_dtype=kv)
    kv_heads = shape.get("kv_heads", shape["heads"])
    kv_bytes = 2 * kv_heads * shape["head_dim"] * kv_bytes_per_element(kv)
    rate = fit.memory_fraction * accelerator.memory_bytes_per_s
    time = operators.decode_attention_s(sequences, context, kv_bytes, kv_heads, fit.sequence_s, rate)
    return fit.start_up_s + float(time), fit.trust


def _experts(accelerator: Accelerator, point: Point) -> tuple[float, str]:
    shape, dtype = _named(point), _dtype(point)
    fit = clip_experts(_own(accelerator, "experts", dtype, point))
    tokens, top_k, experts, ep = (float(shape[name]) for name in ("tokens", "topk", "experts", "ep"))
    compute = fit.compute_fraction * peak_flops_per_s(accelerator, dtype)
    memory = fit.memory_fraction * accelerator.memory_bytes_per_s
    touched = operators.distinct_experts(experts, top_k, tokens) / ep
    inner = shape["inter"] / shape["tp"]
    weight = BYTES_PER_WEIGHT[dtype.removesuffix("_fp8")]
    kernels = operators.experts_s(
        tokens * top_k / ep, touched, shape["hidden"], inner, 3, weight, compute, memory, fit.exponent
    )
    routing = operators.routing_s(
        tokens, shape["topk"], shape["hidden"], fit.gather_factor, accelerator.memory_bytes_per_s
    )
    return fit.start_up_s + float(kernels + routing), fit.trust


def _collective(accelerator: Accelerator, point: Point) -> tuple[float, str]:
    ranks, size = int(point["n_gpus"]), float(point["bytes"])
    fit = _own(accelerator, point["op"], "bf16", point, ranks=ranks)
    rate = fit.link_fraction * (accelerator.scaleup_bytes_per_s or 0.0)
    if rate <= 0 or fit.ranks != ranks:
        raise FieldError("ranks", "never fitted")
    form = collectives.all_reduce_s if point["op"] == "all_reduce" else collectives.gather_s
    return float(form(size, ranks, fit.latency_s, rate, fit.exponent)), fit.trust


def _own(accelerator: Accelerator, operator: str, dtype: str, point: Point, **shape: int | str) -> OperatorFit:
    """The row that the product would use for this engine; FieldError when it has none of this dtype and size."""
    fit = choose(accelerator.fits, operator, dtype, _engine(point), **shape)  # type: ignore[arg-type]
    borrowed = fit.dtype not in ("", dtype) and dtype != "int8_int8"  # which has no row of its own anywhere
    if borrowed or shape.get("head_dim", fit.head_dim) != fit.head_dim:
        raise FieldError(operator, f"no row of {dtype}")
    return fit


def table(points: Iterable[Point], catalog: Catalog) -> dict[str, tuple[int, float, float]]:
    """Operator -> points, median absolute log error, median log error; of fits with usable trust."""
    by: dict[str, list[float]] = {}
    for one in price(points, catalog):
        if one.trust != "low":
            by.setdefault(_TITLES[one.operator], []).append(one.log_error)
    return {name: (len(errors), median(abs(error) for error in errors), median(errors)) for name, errors in by.items()}


def read_points(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return [row for row in csv.DictReader(lines) if row["op"] in _TITLES]


def main() -> int:
    for path in sys.argv[1:] or [str(POINTS)]:
        for name, (count, size, bias) in table(read_points(Path(path)), Catalog()).items():
            print(f"{name:24} {count:6,} points  median |ln error| {size:.3f}  bias {bias:+.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
