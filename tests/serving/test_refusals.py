"""What a given deployment cannot be: every fault at once, each at its own key, together with those of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cli.reading import judge
from planner.errors import FieldError, InputError, raise_every
from planner.files.scenario import field_faults, load_scenario
from planner.files.yamlfile import load

HEAD = """\
model: {model}
engine: vllm
workload: {{requests: 2 /s, input_tokens: 1000, output_tokens: 100}}
targets: {{ttft: {{p99: 4 s}}}}
deployment:
"""
DENSE, MIXTURE = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"


def faults(tmp_path: Path, deployment: str, model: str = DENSE) -> list[str]:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD.format(model=model) + deployment)
    with pytest.raises(InputError) as refusal:
        load_scenario(path, judge=judge)
    return [str(fault).removeprefix(f"{tmp_path}/") for fault in refusal.value.faults]


def together(pool: str) -> str:
    return f"  mode: colocated\n  colocated: {{accelerator: h100-sxm, replicas: 1, {pool}}}\n"


@pytest.mark.parametrize(
    ("pool", "model", "message"),
    [
        ("tp: 64", DENSE, "51: tp: 64 does not divide 32 query heads; use 1, 2, 4, 8, 16 or 32"),
        ("tp: 32", DENSE, "51: tp: 32 leaves the scale-up domain: h100-sxm connects 8 accelerators"),
        ("pp: 64", DENSE, f"51: pp: 64: {DENSE} has 32 layers, and a stage needs one; use a smaller pp"),
        ("tp: 2, ep: 2", DENSE, f"58: ep: 2: {DENSE} has no experts; use ep 1"),
        ("tp: 4, ep: 2", MIXTURE, "58: ep: 2: vllm spreads experts over all tp x dp = 4 ranks or none; use ep 1 or 4"),
        (
            "max_batch: 9999",
            DENSE,
            "51: max_batch: 9999 is 9999 per attention rank, and vllm takes 1024; use at most 1024",
        ),
        (
            "max_batch: 64, token_budget: 64",
            DENSE,
            "66: token_budget: 64 leaves no room for prompts beside 64 decoding sequences of a rank; "
            "raise it above 64 or lower max_batch",
        ),
        (
            "dp: 2",
            DENSE,
            "51: dp: 2: attention data parallelism needs experts or latent attention, "
            f"and {DENSE} has neither; add replicas instead",
        ),
    ],
)
def test_one_refusal(tmp_path: Path, pool: str, model: str, message: str) -> None:
    column, _, said = message.partition(": ")
    assert faults(tmp_path, together(pool), model) == [f"s.yaml:7:{column}: deployment.colocated.{said}"]


def test_both_pools_and_the_file_at_once(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        "  mode: disaggregated\n"
        "  prefill: {accelerator: rtx-4090, replicas: 1, tp: 64, max_batch: 8}\n"
        "  decode: {accelerator: h100-sxm, replicas: 1, tp: 3, dp: 2}\n"
        "verson: 1\n",
    )
    assert [fault.split(": ")[:2] for fault in found] == [
        ["s.yaml:5:1", "hardware.network"],
        ["s.yaml:7:49", "deployment.prefill.tp"],
        ["s.yaml:7:57", "deployment.prefill.max_batch"],
        ["s.yaml:8:48", "deployment.decode.tp"],
        ["s.yaml:8:55", "deployment.decode.dp"],
        ["s.yaml:9:1", "verson"],
    ]


def test_a_pair_whose_caches_cannot_move(tmp_path: Path) -> None:
    prefill, decode = (f"{{accelerator: h100-sxm, replicas: 1, tp: {tp}}}" for tp in (8, 2))
    pools = f"  mode: disaggregated\n  prefill: {prefill}\n  decode: {decode}\n"
    found = faults(tmp_path, pools, model="Qwen/Qwen3-30B-A3B")  # 4 key-value heads
    assert [fault.split(": ")[:2] for fault in found] == [["s.yaml:7:3", "deployment.prefill"]]


def test_errors_are_raised_together_and_once(tmp_path: Path) -> None:
    with pytest.raises(FieldError) as raised:
        raise_every([FieldError("b", "x"), FieldError("a", "y"), FieldError("b", "x")])
    assert [(error.field, error.message) for error in raised.value.every] == [("b", "x"), ("a", "y")]
    path = tmp_path / "s.yaml"
    path.write_text("a: 1\nb: 2\n")
    assert [fault.line for fault in field_faults(load(path), raised.value)] == [1, 2]
    raise_every([])
