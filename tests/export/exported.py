"""Exports of fixed results, and what stands in them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from planner.export.bundle import TARGETS, File, bundle
from planner.export.launch import launch

DATA = Path(__file__).parents[1] / "data"
RESULTS = tuple(sorted(path.stem for path in (DATA / "export").glob("*.json")))


def result(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DATA / "export" / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def engine_of(name: str) -> str:
    return str(result(name)["inputs"]["engine"]["id"])


# Every result with every target that runs its engine.
CASES = tuple((name, target) for name in RESULTS for target in TARGETS if engine_of(name) in TARGETS[target].engines)


@cache
def exported(name: str, target: str, connector: str = "") -> dict[str, File]:
    document = result(name)
    chosen = connector or TARGETS[target].connectors[0]
    return bundle(launch(document, chosen), TARGETS[target], json.dumps(document))  # type: ignore[arg-type]


def launch_files(name: str, target: str) -> dict[str, str]:
    """The files that start something: no plan, no traffic, no page, no program of our own."""
    rest = ("plan.json", "load.jsonl", "README.md", "router.py")
    return {file: content.text for file, content in exported(name, target).items() if file not in rest}


def containers(value: Any) -> Iterator[dict[str, Any]]:
    """Every container of a manifest."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "containers":
                yield from item
            yield from containers(item)
    elif isinstance(value, list):
        for item in value:
            yield from containers(item)


def engine_arguments(name: str, target: str) -> list[str]:
    """Arguments of engine commands, option and value apart."""
    found: list[str] = []
    for file, text in launch_files(name, target).items():
        if file.endswith(".sh") and file != "router.sh":
            lines = [line.partition("  # ")[0] for line in text.splitlines()]
            found += [word for line in lines if line.startswith("  -") for word in shlex.split(line)]
            found += re.findall(r"(?<=\s)--[a-z-]+", "\n".join(line for line in lines if line.startswith("exec ")))
        elif file.endswith(".yaml") and target in ("dynamo", "llm-d", "kserve"):
            for container in containers(yaml.safe_load(text)):
                for argument in container.get("args", []):
                    found += argument.split("=", 1)
    return found
