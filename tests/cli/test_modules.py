"""What each command loads: listings and help must not pay for arrays, schemas or terminals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from running import PATIENCE_S, environment

HEAVY = ("numpy", "scipy", "pydantic", "rich", "pandas", "matplotlib")

PROBE = """
import sys
from planner.cli.main import main
code = main()
print(*sorted(name.partition(".")[0] for name in sys.modules), file=sys.stderr)
sys.exit(code)
"""


def loaded(tmp_path: Path, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment({}),
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments", [("--version",), ("--help",), ("size", "--help"), ("hardware", "list"), ("model", "list")]
)
def test_light_commands_load_nothing_heavy(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert loaded(tmp_path, *arguments) & set(HEAVY) == set()


def test_version_loads_no_command_line_library(tmp_path: Path) -> None:
    assert loaded(tmp_path, "--version") & {"typer", "yaml", "inspect", "json"} == set()


def test_help_reads_no_yaml(tmp_path: Path) -> None:
    assert "yaml" not in loaded(tmp_path, "--help")


@pytest.mark.parametrize("arguments", [("hardware", "show", "h200-sxm"), ("model", "show", "openai/gpt-oss-120b")])
def test_showing_an_entry_loads_no_terminal_library(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert loaded(tmp_path, *arguments) & {"scipy", "pydantic", "rich"} == set()


def test_the_library_is_reached_lazily(tmp_path: Path) -> None:
    code = "import sys, planner; print('numpy' in sys.modules); planner.load_scenario; print('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment({}),
        timeout=PATIENCE_S,
    )
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_an_unknown_attribute_of_the_package_is_an_attribute_error() -> None:
    import planner

    with pytest.raises(AttributeError, match="no attribute 'siez'"):
        _ = planner.siez
