"""Models, accelerators and engines typed in by hand, so that steps are tested without reading a file.

Operator constants: rows of `tests/data/facts/operator_fits.csv` (vLLM rows where they exist).
"""

from __future__ import annotations

from dataclasses import replace

from planner.records import (
    Accelerator,
    ConnectorRule,
    DenseFeedForward,
    EngineConstants,
    EngineProfile,
    Experts,
    LatentAttention,
    LayerKind,
    MemoryRule,
    ModelShape,
    OperatorFit,
    Provenance,
    RecurrentMixer,
    SoftmaxAttention,
)
from planner.roofline.worker import Worker, build_worker

US = 1e-6


def dense(name: str, hidden: int, vocabulary: int, layers: int, heads: int, kv_heads: int, width: int) -> ModelShape:
    mixer = SoftmaxAttention(heads, kv_heads, 128, 128)
    kinds = (LayerKind(layers, mixer, DenseFeedForward(width)),)
    return ModelShape(name, "dense", hidden, vocabulary, kinds, False, 131072, "bf16")


LLAMA_8B = dense("meta-llama/Llama-3.1-8B", 4096, 128256, 32, 32, 8, 14336)
LLAMA_70B = dense("meta-llama/Llama-3.1-70B", 8192, 128256, 80, 64, 8, 28672)
QWEN3_32B = dense("Qwen/Qwen3-32B", 5120, 151936, 64, 64, 8, 25600)

_GPT_OSS_EXPERTS = Experts(experts=128, top_k=4, intermediate=2880)
GPT_OSS_120B = ModelShape(
    "openai/gpt-oss-120b",
    "windowed-moe",
    2880,
    201088,
    (
        LayerKind(18, SoftmaxAttention(64, 8, 64, 64, window_tokens=128, bias=True), _GPT_OSS_EXPERTS),
        LayerKind(18, SoftmaxAttention(64, 8, 64, 64, bias=True), _GPT_OSS_EXPERTS),
    ),
    False,
    131072,
    "mxfp4",
)
MINIMAX_M25 = ModelShape(
    "MiniMaxAI/MiniMax-M2.5",
    "moe",
    3072,
    200064,
    (LayerKind(62, SoftmaxAttention(48, 8, 128, 128), Experts(256, 8, 1536)),),
    False,
    196608,
    "fp8_block",
)
_MLA = LatentAttention(128, 1536, 512, 128, 64, 128)
DEEPSEEK_R1 = ModelShape(
    "deepseek-ai/DeepSeek-R1",
    "latent-moe",
    7168,
    129280,
    (LayerKind(3, _MLA, DenseFeedForward(18432)), LayerKind(58, _MLA, Experts(256, 8, 2048, 2048))),
    False,
    163840,
    "fp8_block",
)
_DSA = LatentAttention(64, 2048, 512, 192, 64, 256, index_heads=32, index_dim=128, index_top_k=2048)
GLM_5 = ModelShape(
    "zai-org/GLM-5",
    "sparse-latent-moe",
    6144,
    154880,
    (LayerKind(3, _DSA, DenseFeedForward(12288)), LayerKind(75, _DSA, Experts(256, 8, 2048, 2048))),
    False,
    202752,
    "bf16",
)
_QWEN35_EXPERTS = Experts(512, 10, 1024, 1024)
QWEN35_397B = ModelShape(
    "Qwen/Qwen3.5-397B-A17B",
    "hybrid-moe",
    4096,
    248320,
    (
        LayerKind(45, RecurrentMixer(16, 64, 128, 128, conv_tokens=4), _QWEN35_EXPERTS),
        LayerKind(15, SoftmaxAttention(32, 2, 256, 256, output_gate=True), _QWEN35_EXPERTS),
    ),
    False,
    262144,
    "bf16",
)
MODELS = {
    shape.id: shape
    for shape in (LLAMA_8B, LLAMA_70B, QWEN3_32B, GPT_OSS_120B, MINIMAX_M25, DEEPSEEK_R1, GLM_5, QWEN35_397B)
}


def _gemm(dtype: str, t0: float, compute: float, memory: float, exponent: float, engine: str = "any") -> OperatorFit:
    return OperatorFit("gemm", dtype, engine, "", 0, 0, False, t0 * US, compute, memory, exponent)


def _decode(kv_dtype: str, head_dim: int, t0: float, memory: float, sequence_ns: float) -> OperatorFit:
    return OperatorFit(
        "decode_attention",
        "bf16",
        "any",
        kv_dtype,
        head_dim,
        start_up_s=t0 * US,
        memory_fraction=memory,
        sequence_s=sequence_ns * 1e-9,
    )


def _prefill(kv_dtype: str, head_dim: int, t0: float, compute: float, softmax_tokens: float) -> OperatorFit:
    return OperatorFit(
        "prefill_attention",
        "bf16",
        "any",
        kv_dtype,
        head_dim,
        start_up_s=t0 * US,
        compute_fraction=compute,
        softmax_tokens=softmax_tokens,
    )


def _experts(dtype: str, t0: float, compute: float, memory: float, exponent: float, gather: float) -> OperatorFit:
    return OperatorFit(
        "experts",
        dtype,
        "any",
        start_up_s=t0 * US,
        compute_fraction=compute,
        memory_fraction=memory,
        exponent=exponent,
        gather_factor=gather,
    )


def _link(operator: str, ranks: int, alpha: float, fraction: float, exponent: float) -> OperatorFit:
    return OperatorFit(
        operator,
        "bf16",
        "any",
        ranks=ranks,
        latency_s=alpha * US,
        link_fraction=fraction,
        exponent=exponent,
    )


HOPPER_FITS = (
    _gemm("bf16", 3.822, 0.8, 0.878, 3.375, "vllm"),
    _gemm("bf16", 3.985, 0.772, 0.855, 3.746),
    _gemm("fp8", 6.74, 0.61, 0.828, 1.53, "vllm"),
    _gemm("fp8", 6.74, 0.61, 0.828, 2.174),
    _gemm("fp8_block", 7.331, 0.6245, 0.8735, 1.606),
    _prefill("bf16", 64, 11.73, 0.533, 1.0),
    _prefill("bf16", 128, 10.99, 0.7, 97.81),
    _prefill("bf16", 256, 12.24, 0.713, 1.0),
    _prefill("fp8", 128, 13.82, 0.678, 1.0),
    _decode("bf16", 64, 11.49, 0.915, 13.7),
    _decode("bf16", 128, 12.65, 0.905, 12.63),
    _decode("bf16", 256, 13.61, 0.9, 21.94),
    _decode("fp8", 128, 14.78, 0.832, 24.98),
    replace(_decode("bf16", 0, 15.94, 0.897, 36.3), operator="decode_mla", compute_fraction=0.755, exponent=2.329),
    replace(_prefill("bf16", 0, 15.85, 0.644, 522.2), operator="prefill_mla"),
    _experts("bf16", 37.58, 0.536, 0.945, 1.38, 6.114),
    _experts("fp8_block", 34.85, 0.22, 0.938, 1.311, 4.127),
    _experts("int4", 41.12, 0.2815, 0.8475, 1.0, 7.05),
    _experts("mxfp4", 62.53, 0.645, 0.886, 1.0, 8.439),
    _link("all_reduce", 2, 4.31, 0.504, 1.11),
    _link("all_reduce", 4, 4.42, 0.7113, 0.68),
    _link("all_reduce", 8, 4.65, 1.011, 0.56),
    _link("all_gather", 8, 10.82, 0.7964, 0.64),
    _link("reduce_scatter", 8, 10.49, 0.7236, 0.76),
    OperatorFit("recurrent_decode", "bf16", "any", start_up_s=3.446 * US, memory_fraction=0.968),
    OperatorFit("recurrent_prefill", "bf16", "any", start_up_s=22.47 * US, compute_fraction=0.034, trust="low"),
)

H100 = Accelerator(
    id="h100-sxm",
    vendor="nvidia",
    status="shipping",
    memory_bytes=85899345920.0,
    memory_bytes_per_s=3.35e12,
    bf16_dense_flops_per_s=989.4e12,
    fp8_dense_flops_per_s=1978.9e12,
    fp4_dense_flops_per_s=None,
    int8_dense_flops_per_s=1978.9e12,
    scaleup_name="NVLink4",
    scaleup_bytes_per_s=450e9,
    scaleup_domain=8,
    node_accelerators=8,
    host_bytes_per_s=63e9,
    nic_bytes_per_s=50e9,
    tdp_watts=700.0,
    all_in_watts=None,
    compute_units=132,
    usd_per_hour={},
    purchase_usd=None,
    fits=HOPPER_FITS,
    efficiency_like="",
)
H200 = replace(H100, id="h200-sxm", memory_bytes=151397597184.0, memory_bytes_per_s=4.8e12)
A100 = replace(
    H100,
    id="a100-sxm-80",
    memory_bytes_per_s=2.039e12,
    bf16_dense_flops_per_s=312e12,
    fp8_dense_flops_per_s=None,
    scaleup_bytes_per_s=300e9,
    compute_units=108,
)
B200 = replace(
    H100,
    id="b200",
    memory_bytes=193273528320.0,
    memory_bytes_per_s=7.7e12,
    bf16_dense_flops_per_s=2250e12,
    fp8_dense_flops_per_s=4500e12,
    fp4_dense_flops_per_s=9000e12,
    scaleup_bytes_per_s=900e9,
    compute_units=148,
)

# Every multiplier 1 and no overhead: what the fitted operators alone say.
PLAIN = EngineConstants(
    gemm_memory_factor=1.0,
    compute_factor=1.0,
    kernel_gap_s=0.0,
    start_up_factor=0.0,
    host_step_s=0.0,
    host_sequence_s=0.0,
    collective_factor=1.0,
    experts_factor=1.0,
    decode_attention_factor=1.0,
    prefill_kernel_s=0.0,
    prefill_factor=1.0,
    ttft_fixed_s=0.0,
    ttft_steps=0.0,
    own_prefill_factor=1.0,
    ttft_sequence_s=0.0,
)
VLLM_CONSTANTS = EngineConstants(
    gemm_memory_factor=1.11,
    compute_factor=1.08,
    kernel_gap_s=2.2 * US,
    start_up_factor=0.78,
    host_step_s=0.09e-3,
    host_sequence_s=20.4 * US,
    collective_factor=0.85,
    experts_factor=0.89,
    decode_attention_factor=0.98,
    prefill_kernel_s=1.33 * US,
    prefill_factor=1.16,
    ttft_fixed_s=14.2e-3,
    ttft_steps=2.3,
    own_prefill_factor=0.76,
    ttft_sequence_s=0.77e-3,
)

VLLM_RULE = MemoryRule("total", 0.9, context_bytes=1e9, collective_bytes=2.1 * 2**30, block_tokens=16)
SGLANG_RULE = MemoryRule("free-before-load", 0.0, context_bytes=1e9, collective_bytes=2.1 * 2**30, block_tokens=1)
TENSORRT_RULE = MemoryRule("free-after-load", 0.9, context_bytes=1e9, collective_bytes=2.1 * 2**30, block_tokens=32)

VLLM = EngineProfile(
    id="vllm",
    version="0.33.0",
    scheduling="mixed",
    colocated=VLLM_CONSTANTS,
    disaggregated=VLLM_CONSTANTS,
    memory=VLLM_RULE,
    reserved_output_fraction=0.5,
    token_budget=8192,
    max_batch=1024,
    interval_coverage=0.8,
    intervals={},
    measured_cells=frozenset(),
    provenance=Provenance("", "", "measured"),
    connectors={"nixl": ConnectorRule("multiple", "kv-heads")},
    connector="nixl",
)
SGLANG = replace(
    VLLM,
    id="sglang",
    version="0.5.23",
    scheduling="prefill-first",
    memory=SGLANG_RULE,
    connectors={"nixl": ConnectorRule("multiple", "always", "prefill")},
)
TENSORRT = replace(
    VLLM,
    id="tensorrt-llm",
    version="1.3",
    memory=TENSORRT_RULE,
    reserved_output_fraction=1.0,
    connectors={"nixl": ConnectorRule("any", "always", "any")},
)


def worker(
    shape: ModelShape = LLAMA_70B,
    weights: str = "bf16",
    kv_dtype: str = "bf16",
    accelerator: Accelerator = H100,
    constants: EngineConstants = VLLM_CONSTANTS,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    dp: int = 1,
) -> Worker:
    return build_worker(shape, weights, kv_dtype, accelerator, "vllm", constants, tp, pp, ep, dp)
