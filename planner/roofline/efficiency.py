"""Which fitted constants an operator uses on one accelerator, and at which peak it computes (FIDELITY §2, HOUSE §7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.errors import FieldError
from planner.records import Accelerator, OperatorFit

# What to borrow when a dtype was never measured, nearest kernel first. The borrowed fractions are applied to the peak
# of the dtype asked for, so a guess scales with the hardware.
_BORROWED_DTYPES = {
    "bf16": (),
    "fp8": ("fp8_block", "int8", "bf16"),
    "fp8_block": ("fp8", "int8", "bf16"),
    "int8": ("int4", "fp8", "bf16"),
    "int8_int8": ("fp8", "fp8_block", "bf16"),
    "int4": ("mxfp4", "int8", "bf16"),
    "mxfp4": ("int4", "nvfp4", "mxfp4_fp8", "bf16"),
    "mxfp4_fp8": ("mxfp4", "nvfp4", "int4", "fp8", "bf16"),
    "nvfp4": ("mxfp4_fp8", "fp8", "fp8_block", "bf16"),
}
_USABLE = ("high", "medium")
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# Kernels that multiply in units of their own, and the dense peak of those; all others compute in bf16.
_PEAKS = {
    "fp8": "fp8_dense_flops_per_s",
    "fp8_block": "fp8_dense_flops_per_s",
    "mxfp4_fp8": "fp8_dense_flops_per_s",
    "nvfp4": "fp4_dense_flops_per_s",
    "int8_int8": "int8_dense_flops_per_s",
}


def choose(
    fits: Iterable[OperatorFit],
    operator: str,
    dtype: str,
    engine: str,
    *,
    kv_dtype: str = "",
    head_dim: int = 0,
    ranks: int = 0,
    window: bool = False,
) -> OperatorFit:
    """Constants of one operator: the engine's own row when trusted, else the median engine, low trust last.

    Among equals the nearest head size (larger preferred) and the nearest number of ranks win. A dtype without rows
    borrows its nearest relative's, with trust `low`.

    Raises
    ------
    FieldError
        No row of this operator at all.
    """
    rows = [fit for fit in fits if fit.operator == operator and fit.window == window and not _timed_eagerly(fit)]
    for borrowed in (dtype, *_BORROWED_DTYPES.get(dtype, ("bf16",))):
        matching = [fit for fit in rows if fit.dtype in ("", borrowed)]
        if matching:
            best = min(matching, key=lambda fit: _distance(fit, engine, kv_dtype, head_dim, ranks))
            return best if borrowed == dtype else replace(best, trust="low")
    raise FieldError(
        "accelerator.fits", f"no fitted constants for {operator} in {dtype}; name a relative in efficiency_like"
    )


def _timed_eagerly(fit: OperatorFit) -> bool:
    """A collective whose start-up is host launch cost, which engines replay from a graph and never pay."""
    return fit.operator in _COLLECTIVES and fit.trust == "bandwidth_only"


def _distance(fit: OperatorFit, engine: str, kv_dtype: str, head_dim: int, ranks: int) -> tuple[float, ...]:
    head = _size_distance(fit.head_dim, head_dim)
    rank = _size_distance(fit.ranks, ranks)
    source = {engine: 0.0, "any": 1.0}.get(fit.engine, 2.0)
    return (
        float(fit.trust not in _USABLE),
        float(bool(kv_dtype) and fit.kv_dtype not in ("", kv_dtype)),
        float(head > 0 or rank > 0),
        source,
        head,
        rank,
    )


def _size_distance(measured: int, wanted: int) -> float:
    """0 for an exact or unspecific row; a smaller row counts as further away than a larger one."""
    if not wanted or not measured or measured == wanted:
        return 0.0
    return measured / wanted if measured > wanted else 1.0 + wanted / measured


def compute_dtype(accelerator: Accelerator, dtype: str) -> str:
    """The kernel that weights of `dtype` run through: without units of their own they are dequantized to bf16.

    4-bit weights of the MX kind meet 8-bit activations where the accelerator has 4-bit units (FIDELITY §2), and INT8
    weights INT8 activations where its INT8 units are the faster ones: some parts keep a few for compatibility.
    """
    if dtype in ("fp8", "fp8_block") and accelerator.fp8_dense_flops_per_s is None:
        return "bf16"
    if dtype == "int8" and (accelerator.int8_dense_flops_per_s or 0.0) > accelerator.bf16_dense_flops_per_s:
        return "int8_int8"
    if dtype == "nvfp4" and accelerator.fp4_dense_flops_per_s is None:
        return "int4"
    if dtype == "mxfp4" and accelerator.fp4_dense_flops_per_s is not None:
        return "mxfp4_fp8"
    return dtype


def peak_flops_per_s(accelerator: Accelerator, kernel_dtype: str) -> float:
    """Dense peak [FLOP/s] that the fitted fractions of a kernel refer to; weight-only formats compute in bf16."""
    peak: float | None = getattr(accelerator, _PEAKS.get(kernel_dtype, "bf16_dense_flops_per_s"))
    return peak or accelerator.bf16_dense_flops_per_s


def activation_bytes(kernel_dtype: str) -> float:
    """Bytes moved per input activation of a GEMM: 8- and 4-bit kernels read bf16, then write and read a copy (G1)."""
    return 5.0 if quantizes_activations(kernel_dtype) else 2.0


def quantizes_activations(kernel_dtype: str) -> bool:
    return kernel_dtype in _PEAKS


def clip_gemm(fit: OperatorFit) -> OperatorFit:
    """FIDELITY §2 bounds: a GEMM start-up above 6 us is a separate quantize or launch cost that engines do not pay."""
    return replace(
        fit,
        start_up_s=min(fit.start_up_s, 6e-6),
        memory_fraction=min(fit.memory_fraction, 0.95),
        exponent=min(max(fit.exponent, 1.2), 6.0),
    )


def clip_experts(fit: OperatorFit) -> OperatorFit:
    """FIDELITY §2 bounds of the expert kernels.

    A start-up above 30 us holds launches that engines replay from a graph, and compute below 0.3 of the peak is a
    kernel of the tables that no engine runs: the same accelerators reach 0.35 to 0.65 in their other formats.
    """
    return replace(
        fit,
        start_up_s=min(fit.start_up_s, 30e-6),
        compute_fraction=max(fit.compute_fraction, 0.3),
        memory_fraction=min(fit.memory_fraction, 1.0),
        exponent=min(max(fit.exponent, 1.0), 6.0),
        gather_factor=min(fit.gather_factor, 12.0),
    )


def clip_latent(fit: OperatorFit) -> OperatorFit:
    """FIDELITY §2 bounds of latent attention."""
    return replace(
        fit,
        compute_fraction=min(fit.compute_fraction, 0.8),
        memory_fraction=min(fit.memory_fraction, 0.9),
    )


def achieved(fraction: float, multiplier: float, peak: float) -> float:
    """Rate an engine reaches: fitted fraction times its multiplier, never above the peak (HOUSE §7)."""
    return min(fraction * multiplier, 1.0) * peak
