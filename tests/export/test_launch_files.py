"""Exported files: options exist, manifests validate, scripts are sound, names are safe, plans arrive as they are."""

from __future__ import annotations

import csv
import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from exported import CASES, DATA, RESULTS, containers, engine_arguments, engine_of, exported, launch_files, result

from planner.export.bundle import TARGETS
from planner.export.launch import launch, safe_name
from planner.files import yamlfile

# What no table of options lists: where the model is and where the server listens.
BASICS = {"--model-path", "--model", "--served-model-name", "--host", "--port", "--config"}
# Nor the process group of a worker over several nodes, as the engines' guides write it.
BASICS |= {"--nnodes", "--node-rank", "--master-addr", "--dist-init-addr"}
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def known_flags(engine: str) -> set[str]:
    """Options of an engine, and of what wraps it, in the table for the version that the catalog names."""
    with (DATA / "engines" / "flags.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["engine"] in (engine, "dynamo")]
    return {flag for row in rows for flag in re.findall(r"--[a-z0-9][a-z0-9_-]*", row["flag"])}


def keys(value: Any, prefix: str = "") -> set[str]:
    found = set()
    for key, item in value.items():
        found |= keys(item, f"{key}.") if isinstance(item, dict) else {prefix + key}
    return found


@pytest.mark.parametrize(("name", "target"), CASES)
def test_every_option_exists_in_the_named_version(name: str, target: str) -> None:
    flags = {word for word in engine_arguments(name, target) if word.startswith("--")}
    assert flags or target == "tensorrt-llm"
    assert flags - BASICS <= known_flags(engine_of(name))


def options_of(script: str) -> set[str]:
    """Options of the command in a script, without its comments."""
    lines = [line.partition("  # ")[0] for line in script.splitlines() if not line.startswith("#")]
    return set(re.findall(r"(?<=\s)--[a-z][a-z0-9-]*", "\n".join(lines)))


@pytest.mark.parametrize("connector", ["nixl", "mooncake", "lmcache"])
def test_options_and_variables_of_every_connector_and_of_several_nodes(connector: str) -> None:
    from planner.export import shell

    document = result("heterogeneous")
    for pool in ("prefill", "decode"):
        document["plan"][pool] |= {"tp": 2, "accelerators": 2 * document["plan"][pool]["replicas"]}
    with (DATA / "engines" / "flags.csv").open(encoding="utf-8") as stream:
        listed = " ".join(row["flag"] for row in csv.DictReader(stream)).lower()
    listed = listed.replace("_host / _port", "_host vllm_nixl_side_channel_port")
    for node_accelerators in (8, 1):
        for accelerator in document["inputs"]["accelerators"]:
            accelerator["values"]["node_accelerators"]["value"] = node_accelerators
        made = launch(document, connector)  # type: ignore[arg-type]
        for worker in made.workers:
            script = shell.worker_script(made, worker)
            assert options_of(script) - BASICS <= known_flags("vllm")
            for variable in re.findall(r"^export ((?:LMCACHE|VLLM)_\w+)=", script, re.MULTILINE):
                assert variable.lower() in listed or variable.lower().removeprefix("lmcache_") in listed, variable


def test_lmcache_stages_the_longest_request() -> None:
    # KV of a token on one card, in the decode pool: its bytes over its tokens; in whole MiB.
    made = launch(result("heterogeneous"), "lmcache")
    decode = made.worker("decode")
    from planner.export import vllm

    found = {name: value for name, value, _ in vllm.environment(made, "host", "", decode)}
    per_token = decode.kv_bytes / made.result["kv"]["capacity_tokens"]
    assert int(found["LMCACHE_PD_BUFFER_SIZE"]) == pytest.approx(decode.longest_tokens * per_token, abs=2**20)
    assert int(found["LMCACHE_PD_BUFFER_SIZE"]) % 2**20 == 0


@pytest.mark.parametrize("name", [name for name in RESULTS if engine_of(name) == "tensorrt-llm"])
def test_every_key_of_an_engine_file_exists(name: str) -> None:
    with (DATA / "engines" / "flags.csv").open(encoding="utf-8") as stream:
        listed = " ".join(row["flag"] for row in csv.DictReader(stream) if row["engine"] == "tensorrt-llm")
    for file, text in launch_files(name, "tensorrt-llm").items():
        if file in ("prefill.yaml", "decode.yaml", "serve.yaml"):
            for key in keys(yaml.safe_load(text)) - {"backend"}:
                assert all(part in listed for part in key.split(".")), key


SCHEMAS = {
    "dgd.yaml": "dynamo_dgd_v1beta1",
    "values.yaml": "llmd_modelservice_values_0.4.12",
    "llminferenceservice.yaml": "kserve_llminferenceservice_v1alpha2",
    "prefill.yaml": "trtllm_engine_subset",
    "decode.yaml": "trtllm_engine_subset",
    "serve.yaml": "trtllm_engine_subset",
    "router.yaml": "trtllm_disagg_server",
}


def check(value: Any, schema: str) -> None:
    document = json.loads((DATA / "engines" / "schemas" / f"{schema}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(document).validate(value)


@pytest.mark.parametrize(("name", "target"), CASES)
def test_manifests_validate_and_load_back(name: str, target: str) -> None:
    for file, text in launch_files(name, target).items():
        if file.endswith(".yaml"):
            value = yaml.safe_load(text)  # YAML 1.1, as clusters read it
            assert yamlfile.parse(text.encode(), file).value == value  # and 1.2 reads the same
            if file in SCHEMAS:
                check(value, SCHEMAS[file])
            elif file == "engine-config.yaml":
                for engine_file in value["data"].values():
                    check(yaml.safe_load(engine_file), "trtllm_engine_subset")


@pytest.mark.parametrize(("name", "target"), CASES)
def test_connectors_validate(name: str, target: str) -> None:
    words = engine_arguments(name, target)
    for option, value in itertools.pairwise(words):
        if option == "--kv-transfer-config":
            check(json.loads(value), "vllm_kv_transfer_config")


@pytest.mark.parametrize(("name", "target"), CASES)
def test_scripts_are_sound(name: str, target: str, tmp_path: Path) -> None:
    shellcheck = shutil.which("shellcheck") or shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    for file, content in exported(name, target).items():
        if file.endswith(".sh"):
            path = tmp_path / file
            path.write_text(content.text, encoding="utf-8")
            subprocess.run(["bash", "-n", str(path)], check=True)
            if shellcheck:
                subprocess.run([shellcheck, "--severity=style", str(path)], check=True)
            assert content.executable


@pytest.mark.parametrize(("name", "target"), CASES)
def test_names_are_labels(name: str, target: str) -> None:
    for file, text in launch_files(name, target).items():
        value = yaml.safe_load(text) if file.endswith(".yaml") else {}
        named = [value["metadata"]["name"]] if "metadata" in value else []
        named += [container["name"] for container in containers(value)]
        assert all(LABEL.fullmatch(one) for one in named)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llama-3.1-70b-azure", "llama-3-1-70b-azure"),
        ("7b; rm -rf $HOME", "plan-7b-rm-rf-home"),
        ("Ünï_code", "n-code"),
        ("", "plan"),
        ("---", "plan"),
        ("x" * 99, "x" * 40),
    ],
)
def test_names_are_made_safe(text: str, name: str) -> None:
    assert safe_name(text) == name
    assert LABEL.fullmatch(name)


def test_sglang_counts_all_ranks_in_its_tp() -> None:
    # 2 x tp 2, dp 4, ep 8, 64 sequences a worker: tp-size 8, 64 running in all, 16 of them on each attention rank.
    words = engine_arguments("deepseek-r1-mooncake", "sglang")
    decode = words[words.index("--max-running-requests") - 6 :]
    assert decode[:6] == ["--tp-size", "8", "--attn-dp-size", "4", "--ep-size", "8"]
    assert decode[7] == "64"
    assert words[words.index("--cuda-graph-max-bs-decode") + 1] == "16"


def test_vllm_counts_attention_ranks_apart() -> None:
    words = engine_arguments("gpt-oss-120b", "vllm")
    assert words[words.index("--data-parallel-size") + 1] == "8"
    assert words[words.index("--max-num-seqs") + 1] == "32"  # 256 a worker over 8 ranks
    assert "--enable-expert-parallel" in words


@pytest.mark.parametrize(("name", "target"), CASES)
def test_the_page_says_how_to_start_check_and_test(name: str, target: str) -> None:
    page = exported(name, target)["README.md"].text
    for heading in ("## Start", "## Check", "## Load test"):
        assert heading in page
    assert result(name)["inputs"]["engine"]["version"] in page
    assert "planner validate --result" in page
    assert "| TTFT |" in page and " to " in page


def test_engines_and_connectors_of_targets_are_known() -> None:
    for name, target in CASES:
        for connector in TARGETS[target].connectors:
            made = launch(result(name), connector)  # type: ignore[arg-type]
            assert made.connector in (connector, None)


def test_a_colocated_plan_names_no_connector() -> None:
    for target in ("vllm", "dynamo", "llm-d", "kserve"):
        assert "kv-transfer-config" not in " ".join(engine_arguments("colocated", target))


def test_whole_prompts_switch_chunks_off() -> None:
    document = result("colocated")
    document["plan"]["mode"] = "colocated-whole-prompt"
    from planner.export import sglang, tensorrt, vllm

    made = launch(document, "nixl")
    worker = made.workers[0]
    texts = [flag.text for flag in vllm.engine_flags(made, worker)]
    assert "--no-enable-chunked-prefill" in texts
    assert f"--max-num-batched-tokens={max(4096, worker.longest_tokens)}" in texts
    assert "--chunked-prefill-size=-1" in [flag.text for flag in sglang.engine_flags(made, worker)]
    assert tensorrt.engine_file(made, worker)["enable_chunked_prefill"].value is False


def test_large_batches_keep_their_graphs() -> None:
    document = result("colocated")
    document["plan"]["colocated"]["max_batch"] = 700
    from planner.export import vllm

    made = launch(document, "nixl")
    assert "--max-cudagraph-capture-size=700" in [flag.text for flag in vllm.engine_flags(made, made.workers[0])]


def test_workers_over_several_nodes(tmp_path: Path) -> None:
    from planner.export import shell

    document = result("gpt-oss-120b")
    for accelerator in document["inputs"]["accelerators"]:
        accelerator["values"]["node_accelerators"]["value"] = 4
    made = launch(document, "nixl")
    script = shell.worker_script(made, made.worker("decode"))
    assert "--data-parallel-size-local 4" in script and "--data-parallel-start-rank $((node_rank * 4))" in script
    path = tmp_path / "decode.sh"
    path.write_text(script, encoding="utf-8")
    subprocess.run(["bash", "-n", str(path)], check=True)


def with_tiers(name: str, **tiers: float) -> dict[str, Any]:
    document = result(name)
    document["kv"]["tiers"] += [
        {"tier": tier.replace("_", "-"), "capacity_bytes": size} for tier, size in tiers.items()
    ]
    return document


def test_tiers_below_the_memory_of_a_shared_pool() -> None:
    # 1 TB a node of 8: a worker of 2 accelerators has a quarter of it, an accelerator an eighth.
    from planner.export import sglang, tensorrt, vllm

    made = launch(with_tiers("colocated", host_dram=1e12), "nixl")
    worker = made.workers[0]
    assert worker.host_bytes == 250 * 10**9
    assert "--kv-offloading-size=232.8" in [flag.text for flag in vllm.engine_flags(made, worker)]
    assert "--hicache-size=125" in [flag.text for flag in sglang.engine_flags(made, worker)]
    assert tensorrt.engine_file(made, worker)["kv_cache_config"]["host_cache_size"].value == 125 * 10**9


def test_the_page_warns_where_the_plan_counts_on_prefixes() -> None:
    from planner.export.readme import readme

    document = result("colocated")
    assert "in caches" not in readme(launch(document, "nixl"), "vllm", [])
    document["kv"]["tiers"][0]["hit_fraction"] = 0.42
    assert "finds 42% of prompt tokens in caches" in readme(launch(document, "nixl"), "vllm", [])


def test_tiers_beside_a_connector() -> None:
    from planner.export import vllm

    made = launch(with_tiers("heterogeneous", host_dram=1e12, local_ssd=8e12, pool=1e14), "nixl")
    config = json.loads(vllm.kv_transfer(made, made.worker("prefill")))
    check(config, "vllm_kv_transfer_config")
    first, second = config["kv_connector_extra_config"]["connectors"]
    assert (first["kv_connector"], first["kv_role"]) == ("NixlConnector", "kv_producer")
    assert second["kv_connector_extra_config"]["spec_name"] == "TieringOffloadingSpec"
    assert json.loads(vllm.kv_transfer(made, made.worker("decode")))["kv_role"] == "kv_consumer"
    assert made.tiers_elsewhere == ("pool",)


@pytest.mark.parametrize(("name", "target"), [case for case in CASES if case[1] != "tensorrt-llm"])
def test_tiers_add_options_that_exist(name: str, target: str) -> None:
    from planner.export.bundle import bundle

    document = with_tiers(name, host_dram=1e12, local_ssd=8e12)
    made = launch(document, TARGETS[target].connectors[0])  # type: ignore[arg-type]
    text = "\n".join(file.text for file in bundle(made, TARGETS[target], "{}").values())
    known = known_flags(engine_of(name))
    for option in (
        "--kv-offloading-size",
        "--enable-hierarchical-cache",
        "--hicache-size",
        "--hicache-storage-backend",
    ):
        assert option not in text or option in known
    assert any(word in text for word in ("OffloadingConnector", "--hicache-size", "host_cache_size"))
