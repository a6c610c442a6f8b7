"""The printed schemas: an independent reader accepts every shipped file and refuses what the readers refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

from planner.files.catalog_records import read_accelerator
from planner.files.catalog_schema import KINDS, schema
from planner.files.yamlfile import load, parse

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "hardware": sorted((ROOT / "hardware" / "accelerators").glob("*.yaml")),
    "model": sorted((ROOT / "models").glob("*.yaml")),
    "scenario": sorted((ROOT / "docs" / "examples").glob("*.yaml")),
}
CARD = "id: my-card\nmemory: 96 GB\nmemory_rate: 2.4 TB/s\nbf16_dense: 400 TFLOP/s\nprices: {list: 1.20 USD/h}\n"
MODEL = """\
id: a/b
architecture: x
source: ours
hidden: 1024
vocabulary: 32000
max_context_tokens: 4096
layers:
  - count: 2
    mixer: {kind: softmax, query_heads: 8, kv_heads: 2, key_dim: 128, value_dim: 128}
    feed_forward: {kind: dense, intermediate: 4096}
"""


def _validator(kind: str) -> Validator:
    found = schema(kind)
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def _errors(kind: str, text: str) -> list[Any]:
    return list(_validator(kind).iter_errors(parse(text.encode(), "x.yaml").value))


@pytest.mark.parametrize("kind", KINDS)
def test_every_shipped_file_is_valid(kind: str) -> None:
    validator = _validator(kind)
    assert len(FILES[kind]) > 2
    for path in FILES[kind]:
        errors = [
            f"{path.name}: {list(error.path)}: {error.message[:120]}"
            for error in validator.iter_errors(load(path).value)
        ]
        assert not errors, errors[:3]


def test_short_files_are_valid() -> None:
    assert not _errors("hardware", CARD)
    assert not _errors("model", MODEL)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("hardware", CARD.replace("96 GB", "96")),
        ("hardware", CARD.replace("memory:", "memry:")),
        ("hardware", CARD.replace("memory: 96 GB\n", "")),
        ("hardware", CARD + "status: rumoured\n"),
        ("hardware", CARD + "tdp: {value: 300 W, kind: guess}\n"),
        ("model", MODEL.replace("hidden: 1024", "hidden: -1")),
        ("model", MODEL.replace("hidden: 1024\n", "")),
        ("model", MODEL.replace("kind: softmax", "kind: wavelet")),
        ("model", MODEL.replace("query_heads: 8, ", "")),
        ("model", MODEL.replace("kind: dense", "kind: experts")),
        ("model", MODEL + "  - count: 3\n"),
    ],
)
def test_what_readers_refuse_schemas_refuse(kind: str, text: str) -> None:
    assert _errors(kind, text)


def test_every_key_of_an_accelerator_is_in_its_schema() -> None:
    """A file with every key of the schema is read without an unknown one."""
    properties = schema("hardware")["properties"]
    examples = {name: _example(part) for name, part in properties.items() if name not in ("prices", "id", "kind")}
    text = "".join(f"{name}: {value}\n" for name, value in examples.items())
    accelerator, sibling = read_accelerator(parse(f"id: full\n{text}".encode(), "full.yaml"), "full")
    assert (accelerator.memory_bytes, accelerator.status, sibling) == (141e9, "shipping", "h100-sxm")


def _example(part: dict[str, Any]) -> str:
    plain = part["anyOf"][0]
    return str(plain["enum"][0]) if "enum" in plain else str(plain.get("examples", ["text"])[0])
