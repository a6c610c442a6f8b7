"""`planner init`, `planner schema` and the project file."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from inside import Program

from planner.files.scenario import load_scenario
from planner.files.settings import load_settings, nearest_settings
from planner.files.yamlfile import load

CARD = "id: my-card\nmemory: 96 GB\nmemory_rate: 2.4 TB/s\nbf16_dense: 400 TFLOP/s\nprices: {list: 1.20 USD/h}\n"


def test_a_scenario_that_can_be_sized_at_once(program: Program) -> None:
    done = program("init")
    assert (done.code, done.out) == (0, "") and "planner size scenario.yaml" in done.err
    path = program.folder / "scenario.yaml"
    assert path.read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=scenario.schema.json\n")
    schema = json.loads((program.folder / "scenario.schema.json").read_text(encoding="utf-8"))
    assert list(jsonschema.Draft7Validator(schema).iter_errors(load(path).value)) == []
    assert program("size", "scenario.yaml", "-q").out.startswith("FEASIBLE")
    assert program("check", "scenario.yaml", "-q").code == 0


@pytest.mark.parametrize(
    ("accelerator", "words"), [("rtx-4090", "nothing fits yet (rtx-4090.memory)"), ("h100-sxm", "written; next")]
)
def test_what_does_not_fit_is_told_at_once(program: Program, accelerator: str, words: str) -> None:
    done = program("init", "--accelerator", accelerator)
    assert done.code == 0 and done.err.startswith(("scenario.yaml and", "nothing fits")) and words in done.err


def test_options_fill_it_in(program: Program) -> None:
    options = ("--model", "Qwen/Qwen3-32B", "--accelerator", "h200-sxm", "--accelerator", "b200", "--rate", "90 /min")
    assert program("init", *options, "--engine", "sglang", "-o", "chat.yaml").code == 0
    scenario = load_scenario(program.folder / "chat.yaml")
    assert (scenario.model.id, scenario.engine.id, scenario.workload.requests_per_s) == (
        "Qwen/Qwen3-32B",
        "sglang",
        1.5,
    )
    assert [accelerator.id for accelerator in scenario.decode_accelerators] == ["h200-sxm", "b200"]


def test_nothing_is_overwritten(program: Program) -> None:
    (program.folder / "scenario.yaml").write_text("mine", encoding="utf-8")
    done = program("init")
    assert done.code == 2 and "exists already; give --force" in done.err
    assert (program.folder / "scenario.yaml").read_text(encoding="utf-8") == "mine"
    assert not (program.folder / "scenario.schema.json").exists()
    assert program("init", "--force").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "nobody/nothing"), 'no model "nobody/nothing"'),
        (("--accelerator", "h100-smx"), 'did you mean "h100-sxm"?'),
        (("--rate", "12"), "12 has no unit"),
        (("--rate", "5 /s}\nx: {"), "is not a request rate"),
        (("--rate", "0 /s"), "not above zero"),
        (("--engine", "vlm"), 'did you mean "vllm"?'),
        (("--model", "a: b # c"), "no model"),
        (("-o", "absent/s.yaml"), "absent/s.yaml"),
        (("-o", "."), "exists already"),
    ],
)
def test_unusable_options_write_nothing(program: Program, options: tuple[str, ...], message: str) -> None:
    done = program("init", *options)
    assert done.code == 2 and message in done.err and "Traceback" not in done.err
    assert list(program.folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["scenario", "hardware", "model", "result"])
def test_schemas_in_both_drafts(program: Program, kind: str) -> None:
    old, new = (json.loads(program("schema", kind, *draft).out) for draft in ((), ("--draft", "2020-12")))
    assert old["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert new["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft7Validator.check_schema(old)
    jsonschema.Draft202012Validator.check_schema(new)
    assert program("schema", kind, "--draft", "4").code == 2


# -------------------------------------------------------------------------------------------------------- project file


def project(folder: Path, text: str = "catalog: [cards]\n") -> Path:
    cards = folder / "cards"
    cards.mkdir(exist_ok=True)
    (cards / "my-card.yaml").write_text(CARD, encoding="utf-8")
    (folder / "planner.yaml").write_text(text, encoding="utf-8")
    return folder / "planner.yaml"


def test_the_nearest_file_upward_is_used(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project(program.folder)
    inner = program.folder / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert "my-card" in program("hardware", "list").out
    assert nearest_settings(inner) == path
    (program.folder / "a" / ".git").mkdir()
    assert nearest_settings(inner) is None  # another repository's


def test_flag_then_variable_then_file(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    project(program.folder, "format: json\n")
    assert program("hardware", "list").out.startswith("[")
    assert not program("hardware", "list", "--format", "table").out.startswith("[")
    (program.folder / "other.yaml").write_text("format: table\n", encoding="utf-8")
    assert not program("--config", "other.yaml", "hardware", "list").out.startswith("[")
    monkeypatch.setenv("PLANNER_CONFIG", "other.yaml")
    assert not program("hardware", "list").out.startswith("[")
    assert program("--config", "planner.yaml", "hardware", "list").out.startswith("[")


def test_what_was_used_is_told(program: Program) -> None:
    project(program.folder)
    program("init")
    done = program("size", "scenario.yaml", "-v")
    assert done.err.splitlines()[0].startswith("defaults from ") and "cards" in done.err
    assert "defaults from" not in program("size", "scenario.yaml").err


def test_strict_fails_what_is_at_risk(program: Program) -> None:
    project(program.folder, "strict: true\n")
    settings = load_settings(program.folder / "planner.yaml")
    assert settings.strict and settings.said().endswith(": strict")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("catalogue: [cards]\n", 'planner.yaml:1:1: catalogue: unknown key; did you mean "catalog"?'),
        ("catalog: cards\n", 'planner.yaml:1:1: catalog: want a list of folders, e.g. [my-hardware]; got "cards"'),
        ("catalog: [gone]\n", 'planner.yaml:1:11: catalog[0]: "gone": no such file or folder'),
        ("format: jsn\n", 'planner.yaml:1:1: format: "jsn" is no format; did you mean "json"?'),
        ("strict: maybe\n", 'planner.yaml:1:1: strict: "maybe" is neither true nor false'),
        ("- a\n", "planner.yaml:1:1: want a mapping with the keys catalog, format, strict; got a list"),
        ("model: x\n", "a scenario goes by another file name"),
        ("", "planner.yaml:1:1: is empty"),
    ],
)
def test_faults_of_a_project_file(program: Program, text: str, message: str) -> None:
    project(program.folder, text)
    done = program("hardware", "list")
    assert (done.code, done.out) == (2, "") and message in done.err


def test_a_named_file_must_exist(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "gone.yaml: no such file" in program("--config", "gone.yaml", "hardware", "list").err
    monkeypatch.setenv("PLANNER_CONFIG", "gone.yaml")
    assert program("hardware", "list").code == 2
