"""Test files have names of their own: pytest imports them by name alone, and a second one of a name is an error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_two_test_files_share_a_name() -> None:
    counts = Counter(path.name for path in TESTS.rglob("*.py") if path.name not in ("conftest.py", "__init__.py"))
    assert not [name for name, count in counts.items() if count > 1]
