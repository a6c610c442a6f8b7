"""Generated pages are current."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_command_page_is_what_the_help_says() -> None:
    spec = importlib.util.spec_from_file_location("build_cli_docs", ROOT / "tools" / "build_cli_docs.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    current = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert current == tool.build(), "docs/cli.md is out of date; run `make docs`"


def test_published_schemas_are_what_the_program_prints() -> None:
    spec = importlib.util.spec_from_file_location("build_schemas", ROOT / "tools" / "build_schemas.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    published = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "schema").glob("*.json")}
    assert published == tool.build(), "docs/schema is out of date; run `make docs`"
