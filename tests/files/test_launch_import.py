"""Launch files as people write them, read into pools: scripts, manifests, charts. Nothing is run and no value shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.launch_files import Running, read_launch_files
from planner.files.shell_commands import read_script


def read(folder: Path, text: str, name: str = "run.sh") -> list[Running]:
    (folder / name).write_text(text, encoding="utf-8")
    return read_launch_files([folder / name])


def only(folder: Path, text: str, name: str = "run.sh") -> Running:
    (pool,) = read(folder, text, name)
    return pool


# --------------------------------------------------------------------------------------------------------------- script


def words(text: str) -> list[list[str | None]]:
    return [[word.text for word in command] for command in read_script(text).commands]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a \\\n  b # c\nd", [["a", "b"], ["d"]]),
        ("a 'b c' \"d e\"", [["a", "b c", "d e"]]),
        ('X=1\na $X ${X} "$X" ${Y:-2}', [["a", "1", "1", "1", "2"]]),
        ("export X=1; a --n=$X", [["a", "--n=1"]]),
        ("A=(x 'y z' # no\n w)\nA+=(v)\na \"${A[@]}\"", [["a", "x", "y z", "w", "v"]]),
        ('F="--a 1 --b"\nrun $F', [["run", "--a", "1", "--b"]]),
        ('F="--a 1"\nrun "$F"', [["run", "--a 1"]]),
        ("a $(rm -rf /) b", [["a", None, "b"]]),
        ("a `id`c", [["a", None]]),
        ("a $UNSET", [["a", None]]),
        ("a && b || c; d | e &", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("for i in 1 2; do\n  a $i &\ndone", [["i", "in", "1", "2"], ["a", None]]),
        ("cat <<EOF\nvllm serve x\nEOF\na", [["cat"], ["a"]]),
        ("a > /dev/null 2>&1", [["a"]]),
        ('a \\"', [["a", '"']]),
        ("a 'open", [["a", "open"]]),
        ('a "open', [["a", "open"]]),
        ("a ${X", [["a", None]]),
        ("", []),
    ],
)
def test_words_of_a_shell(text: str, commands: list[list[str | None]]) -> None:
    assert words(text) == commands


@given(text=st.text(alphabet="aA=${}()[]@:-'`\\\n\t #;&|<>5*" + '"', max_size=60))
def test_any_text_is_read(text: str) -> None:
    for command in read_script(text).commands:
        assert command


def test_nesting_ends_somewhere() -> None:
    assert words("a " + "${X:-" * 5000 + "}" * 5000) == [["a", None]]


VLLM = """#!/bin/bash
export HF_TOKEN=hf_secret
TP=4
ARGS="--max-num-seqs 128 --kv-cache-dtype fp8"
CUDA_VISIBLE_DEVICES=0,1,2,3 nohup /opt/bin/vllm serve meta-llama/Llama-3.1-70B \\
  --tensor-parallel-size $TP $ARGS --api-key sk-secret \\
  --max_num_batched_tokens=4096 --gpu-memory-utilization 0.85 --enforce-eager --enable-lora --wat $(cat x) > log 2>&1 &
"""


def test_a_script_of_vllm(tmp_path: Path) -> None:
    told = only(tmp_path, VLLM).told
    assert (told.engine, told.role, told.model) == ("vllm", "", "meta-llama/Llama-3.1-70B")
    assert (told.tp, told.dp, told.ep, told.max_batch, told.token_budget) == (4, None, None, 128, 4096)
    assert (told.kv_dtype, told.memory_fraction) == ("fp8", 0.85)
    assert told.unread == ("--enforce-eager", "--enable-lora", "--wat")
    assert "secret" not in repr(told)


def test_module_form_short_options_and_ranks(tmp_path: Path) -> None:
    told = only(
        tmp_path, "python3 -m vllm.entrypoints.openai.api_server --model m/x -tp 2 -dp 4 --enable-expert-parallel"
    ).told
    assert (told.tp, told.dp, told.ep, told.model) == (2, 4, 8, "m/x")


def test_a_container_command(tmp_path: Path) -> None:
    told = only(
        tmp_path, "docker run --gpus all --env A=b vllm/vllm-openai:v0.33.0 --model m/x --tensor-parallel-size 2"
    ).told
    assert (told.engine, told.tp, told.model) == ("vllm", 2, "m/x")


def test_roles_come_from_the_connector(tmp_path: Path) -> None:
    connector = '--kv-transfer-config \'{"kv_connector":"NixlConnector","kv_role":"%s"}\''
    prompts, tokens = connector % "kv_producer", connector % "kv_consumer"
    text = f"vllm serve m/x -tp 2 {prompts} &\nvllm serve m/x -tp 2 {prompts} &\nvllm serve m/x -tp 4 {tokens}\n"
    prefill, decode = read(tmp_path, text)
    assert (prefill.told.role, prefill.replicas, prefill.counted) == ("prefill", 2, True)
    assert (decode.told.role, decode.replicas, decode.told.tp) == ("decode", 1, 4)


def test_sglang_divides_its_totals_by_attention_ranks(tmp_path: Path) -> None:
    text = (
        "python -m sglang.launch_server --model-path m/x --tp 8 --dp 4 --enable-dp-attention --ep-size 8 "
        "--max-running-requests 256 --chunked-prefill-size 32768"
    )
    told = only(tmp_path, text).told
    assert (told.tp, told.dp, told.ep, told.max_batch, told.token_budget, told.copies) == (2, 4, 8, 64, 8192, 1)


def test_plain_data_parallelism_of_sglang_is_replicas(tmp_path: Path) -> None:
    pool = only(tmp_path, "python -m sglang.launch_server --model-path m/x --tp-size 2 --dp-size 3")
    assert (pool.told.tp, pool.told.dp, pool.replicas) == (2, 1, 3)


def test_tensorrt_reads_the_engine_file_beside_the_script(tmp_path: Path) -> None:
    engine = "tensor_parallel_size: 4\nenable_attention_dp: true\nkv_cache_config: {dtype: fp8}\nmystery: 1\n"
    (tmp_path / "engine.yaml").write_text(engine, encoding="utf-8")
    told = only(tmp_path, 'trtllm-serve m/x --config "$(dirname "$0")/engine.yaml" --port 8000').told
    assert (told.tp, told.dp, told.kv_dtype, told.whole_prompts, told.unread) == (1, 4, "fp8", True, ("mystery",))


def test_replicas_of_a_variable(tmp_path: Path) -> None:
    pool = only(tmp_path, "replicas=7\nfor i in $(seq 0 6); do\n vllm serve m/x --port $((8000 + i)) &\ndone")
    assert (pool.replicas, pool.counted) == (7, True)
    assert only(tmp_path, "vllm serve m/x").counted is False


# ------------------------------------------------------------------------------------------------------------ manifests

POD = """
        containers:
        - name: main
          image: vllm/vllm-openai:v0.33.0
          command: [vllm, serve, m/x]
          args: ["--tensor-parallel-size", "2", "--max-num-seqs=64"]
          env: [{name: HF_TOKEN, value: hf_secret}]
          resources: {limits: {nvidia.com/gpu: 2}}
        nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}
"""
DEPLOYMENT = f"apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 3\n  template:\n      spec:{POD}"
LWS = f"""apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 4
    workerTemplate:
      metadata: {{labels: {{llm-d.ai/role: decode}}}}
      spec:{POD}"""


def test_a_deployment(tmp_path: Path) -> None:
    pool = only(tmp_path, DEPLOYMENT, "deployment.yaml")
    assert (pool.replicas, pool.told.tp, pool.told.max_batch) == (3, 2, 64)
    assert (pool.accelerator, pool.per_node, pool.nodes) == ("NVIDIA-H200", 2, 1)


def test_several_documents_in_one_file(tmp_path: Path) -> None:
    text = f"apiVersion: v1\nkind: Service\nmetadata: {{name: a}}\n---\n{LWS}\n---\n"
    pool = only(tmp_path, text, "all.yaml")
    assert (pool.told.role, pool.replicas, pool.nodes) == ("decode", 2, 4)


def test_a_shell_inside_a_container(tmp_path: Path) -> None:
    text = DEPLOYMENT.replace("[vllm, serve, m/x]", "[/bin/sh, -c]").replace(
        '["--tensor-parallel-size", "2", "--max-num-seqs=64"]', '["ulimit -l unlimited && exec vllm serve m/x -tp 8"]'
    )
    assert only(tmp_path, text, "deployment.yaml").told.tp == 8


def test_an_image_without_a_command(tmp_path: Path) -> None:
    text = DEPLOYMENT.replace("command: [vllm, serve, m/x]", "workingDir: /x")
    assert only(tmp_path, text, "deployment.yaml").told.tp == 2


def test_an_older_dynamo_graph(tmp_path: Path) -> None:
    text = """apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
spec:
  services:
    Frontend: {componentType: frontend, replicas: 1}
    VllmPrefillWorker:
      componentType: worker
      subComponentType: prefill
      replicas: 4
      resources: {limits: {gpu: "2"}}
      extraPodSpec:
        mainContainer:
          command: [python3, -m, dynamo.vllm]
          args: [--model, m/x, --tensor-parallel-size, "2", --is-prefill-worker]
"""
    pool = only(tmp_path, text, "dgd.yaml")
    assert (pool.told.role, pool.replicas, pool.told.tp, pool.per_node) == ("prefill", 4, 2, 2)
    assert pool.told.unread == ("--is-prefill-worker",)


def test_values_of_a_chart(tmp_path: Path) -> None:
    text = """modelArtifacts: {name: m/x, uri: "hf://m/x"}
decode:
  replicas: 2
  parallelism: {tensor: 4, data: 2}
  containers: [{name: vllm, modelCommand: vllmServe, args: ["--enable-expert-parallel", "--max-num-seqs", "32"]}]
prefill:
  create: true
  replicas: 6
  parallelism: {tensor: 1}
  containers: [{name: vllm, modelCommand: vllmServe, args: []}]
"""
    prefill, decode = read(tmp_path, text, "values.yaml")
    assert (prefill.told.role, prefill.replicas, prefill.told.tp) == ("prefill", 6, 1)
    assert (decode.told.role, decode.told.tp, decode.told.dp, decode.told.ep) == ("decode", 4, 2, 8)
    assert decode.told.model == "m/x"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("run.sh", "", "starts no engine"),
        ("run.sh", "echo hi", "starts no engine"),
        ("run.sh", "vllm bench serve --model m/x", "starts no engine"),
        ("run.sh", "\0\1", "binary"),
        ("x.yaml", "kind: Service\n", "starts no engine"),
        ("x.yaml", "a: [", "is not YAML"),
        ("x.yaml", "- 1\n- 2\n", "starts no engine"),
        ("x.txt", "vllm serve m", "neither a shell script"),
        ("x.yaml", "kind: Deployment\nspec: 3\n", "starts no engine"),
        (
            "x.yaml",
            "kind: DynamoGraphDeployment\nspec: {components: [1, {type: decode, podTemplate: x}]}\n",
            "no engine",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, text, name)


def test_missing_files_and_empty_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_launch_files([tmp_path / "none.sh"])
    with pytest.raises(InputError, match="no script and no manifest"):
        read_launch_files([tmp_path])


def test_values_of_options_that_are_no_numbers(tmp_path: Path) -> None:
    text = (
        "vllm serve m/x --tensor-parallel-size $TP --max-num-seqs -3 --kv-cache-dtype wat --max-model-len 1e400 "
        "--gpu-memory-utilization 92 --kv-transfer-config '{broken'"
    )
    told = only(tmp_path, text).told
    assert (told.tp, told.max_batch, told.kv_dtype, told.longest_tokens) == (None, None, "", None)
    assert (told.memory_fraction, told.role, told.connector) == (None, "", "")
    assert set(told.unread) == {
        "--tensor-parallel-size", "--max-num-seqs", "--kv-cache-dtype", "--max-model-len", "--gpu-memory-utilization",
        "--kv-transfer-config",
    }  # fmt: skip


def test_attention_ranks_that_do_not_divide_are_not_guessed(tmp_path: Path) -> None:
    told = only(tmp_path, "python -m sglang.launch_server --model-path m/x --tp 8 --attn-dp-size 3").told
    assert (told.tp, told.dp, told.unread) == (8, 1, ("--attn-dp-size",))


@pytest.mark.parametrize(
    "option", ["--tensor-parallel-size many", "-tp 0", "-pp -4", "--data-parallel-size 99999999999999999999"]
)
def test_a_degree_that_is_none_is_a_fault_and_never_one(option: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="-parallel-size: the value is no whole number of at least 1"):
        only(tmp_path, f"vllm serve m/x {option}")
