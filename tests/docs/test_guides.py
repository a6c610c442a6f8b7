"""The guides: links lead somewhere, scenarios load, commands exist, excerpts are what the program prints."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from excerpts import PAGES, ROOT, agree, current, marked

from planner.cli.app import app
from planner.files import yamlfile
from planner.files.catalog import Catalog
from planner.files.scenario import load_scenario

WRITTEN = (
    *PAGES,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("*/README.md")),
    *sorted(ROOT.glob("docs/*/**/README.md")),
)
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|tmp|home|root|Users|mnt|opt|var)/")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`(planner [^`\n]+)`")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(page: Path, language: str) -> list[str]:
    return [block for kind, block in _FENCE.findall(text_of(page)) if kind == language]


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_relative_links_resolve(page: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", text_of(page))):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} does not exist"
        assert target.is_relative_to(ROOT), f"{link} leaves the repository"
        assert not anchor or anchor in anchors(target), f"{link} names no heading"


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_no_path_of_a_machine(page: Path) -> None:
    assert not MACHINE_PATHS.search(text_of(page))


# ------------------------------------------------------------------------------------------------------------- yaml


def yaml_blocks() -> list[Any]:
    return [
        pytest.param(block, id=f"{name_of(page)}-{number}")
        for page in WRITTEN
        for number, block in enumerate(fences(page, "yaml"), 1)
    ]


@pytest.mark.parametrize("block", yaml_blocks())
def test_yaml_is_what_it_says(block: str, tmp_path: Path) -> None:
    """Whole scenarios and whole accelerators are read as such, anything else as YAML."""
    value = yamlfile.parse(block.encode(), "block.yaml").value
    if "workload" in value and "model" in value:
        shutil.copytree(ROOT / "docs" / "examples" / "data", tmp_path / "data")
        scenario = tmp_path / "tutorial" / "scenario.yaml" if "../data/" in block else tmp_path / "scenario.yaml"
        scenario.parent.mkdir(exist_ok=True)
        scenario.write_text(block, encoding="utf-8")
        assert load_scenario(scenario).targets
    elif "id" in value and "memory" in value:
        (tmp_path / f"{value['id']}.yaml").write_text(block, encoding="utf-8")
        assert Catalog([tmp_path]).accelerator(value["id"]).memory_bytes > 0


def test_the_guides_hold_scenarios() -> None:
    assert sum("workload:" in block for page in PAGES for block in fences(page, "yaml")) >= 4


# --------------------------------------------------------------------------------------------------------- commands


def commands(page: Path) -> list[str]:
    lines = [line.partition("#")[0].strip() for block in fences(page, "sh") for line in block.splitlines()]
    return [line for line in (*lines, *_INLINE.findall(text_of(page))) if line.startswith("planner ")]


def check_command(line: str) -> None:
    """The command exists, and so do its options."""
    command: Any = typer.main.get_command(app)
    for word in line.split()[1:]:
        if word in getattr(command, "commands", {}):
            command = command.commands[word]
        elif word.startswith("-") and word != "-":
            known = {option for parameter in command.params for option in parameter.opts}
            assert word in {*known, "-h", "--help", "-qq", "-vv"}, f"{line}: no option {word}"
        else:
            assert not getattr(command, "commands", {}), f"{line}: no command {word}"


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_commands_exist(page: Path) -> None:
    for line in commands(page):
        check_command(line)


def test_every_command_is_in_the_readme() -> None:
    shown = " ".join(commands(ROOT / "README.md"))
    top: Any = typer.main.get_command(app)
    assert all(f"planner {name}" in shown for name in top.commands)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    shown = [line for page in WRITTEN for block in fences(page, "sh") for line in block.splitlines()]
    used = {line.split()[1] for line in shown if line.startswith("make ")}
    assert used and used <= targets


@pytest.mark.parametrize("line", ["planner sizes x.yaml", "planner size x.yaml --no-such", "planner hardware shew x"])
def test_a_wrong_command_is_seen(line: str) -> None:
    with pytest.raises(AssertionError):
        check_command(line)


# --------------------------------------------------------------------------------------------------------- excerpts


LONG = (
    "cost.md",
    "failures.md",
    "kv-tiers.md",
    "plots.md",
    "tutorial.md",
)  # pages whose commands take more than a few seconds
WITH_EXCERPTS = [
    pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG else [], id=name_of(page))
    for page in PAGES
    if "<!-- excerpt:" in text_of(page)
]


@pytest.mark.parametrize("page", WITH_EXCERPTS)
def test_excerpts_are_current(page: Path) -> None:
    for kind, what, block in marked(text_of(page)):
        assert agree(block, current(kind, what)), f"{what}: out of date; run python tests/docs/excerpts.py"


def test_what_counts_as_the_same_excerpt() -> None:
    assert agree("a  12.3 ms  ██▍", "a 12.4 ms ██▏")
    assert agree("90%", "91%") and not agree("3 replicas", "5 replicas")
    assert not agree("12.3 ms", "12.3 s") and not agree("one", "one two") and not agree("12.3 ms", "14.3 ms")
