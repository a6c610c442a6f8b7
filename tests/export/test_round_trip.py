"""Exported files read back as the deployment they were made of, for every target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from exported import CASES, engine_of, exported, result

from planner.cli.exporting import deployment_of, write_directory
from planner.export.pods import products
from planner.files.catalog import Catalog
from planner.files.launch_files import read_launch_files
from planner.files.launch_import import Imported, as_scenario
from planner.files.scenario import load_scenario
from planner.records import Deployment, Pool

CATALOG = Catalog()
SCENARIO = """version: 1
model: {model}
engine: {engine}
hardware: {{accelerators: [h100-sxm, h200-sxm, gb200]}}
workload: {{requests: 1 /s, input_tokens: 100, output_tokens: 10}}
targets: {{ttft: {{p99: 3 s}}}}
"""


def imported(name: str, folder: Path) -> Imported:
    scenario = folder / "scenario.yaml"
    text = SCENARIO.format(model=result(name)["inputs"]["model"]["id"], engine=engine_of(name))
    scenario.write_text(text, encoding="utf-8")
    out = folder / "out"
    return as_scenario(
        load_scenario(scenario), read_launch_files([out]), [out], CATALOG.engine, CATALOG.accelerator, products()
    )


def same_for_everyone(name: str) -> Deployment:
    """The planned deployment, with what an engine assumes by itself left out."""
    deployment = deployment_of(result(name))
    assert deployment is not None
    default = int(result(name)["inputs"]["engine"]["token_budget"])

    def plain(pool: Pool) -> Pool:
        return replace(pool, token_budget=0 if pool.token_budget == default else pool.token_budget)

    prefill = plain(deployment.prefill) if deployment.prefill else None
    return replace(deployment, decode=plain(deployment.decode), prefill=prefill)


@pytest.mark.parametrize(("name", "target"), CASES)
def test_the_same_deployment_comes_back(name: str, target: str, tmp_path: Path) -> None:
    write_directory(tmp_path / "out", exported(name, target), force=False)
    read = imported(name, tmp_path)
    assert read.scenario.deployment == same_for_everyone(name)
    assert read.scenario.kv_dtype == result(name)["inputs"]["model"]["kv_dtype"]
    assert read.scenario.engine.id == engine_of(name)
    assert read.unread == ()


@pytest.mark.parametrize("mode", ["colocated-whole-prompt", "colocated-chunked"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_modes_come_back(mode: str, engine: str, tmp_path: Path) -> None:
    from planner.export.bundle import TARGETS, bundle
    from planner.export.launch import launch

    document = result("colocated")
    document["plan"]["mode"] = mode
    document["plan"]["colocated"]["token_budget"] = 8192
    document["inputs"]["engine"]["id"] = engine
    write_directory(tmp_path / "out", bundle(launch(document, "nixl"), TARGETS[engine], "{}"), force=False)
    read = imported("colocated", tmp_path)
    assert read.scenario.deployment is not None
    assert read.scenario.deployment.mode == mode
    assert read.scenario.deployment.decode == replace(same_for_everyone("colocated").decode, token_budget=0)
