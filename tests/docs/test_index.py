"""docs/README.md leads to every page, and every room of the house is drawn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from excerpts import ROOT

from planner.files.catalog import listing

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *(DOCS / "notebooks").glob("*.py")])


def linked(page: Path) -> set[Path]:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    return {(page.parent / link).resolve() for link in links if "://" not in link}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_index_links_every_page(page: Path) -> None:
    assert page == DOCS / "README.md" or page in linked(DOCS / "README.md")


def test_the_readme_leads_to_the_index() -> None:
    assert DOCS / "README.md" in linked(ROOT / "README.md")


def test_every_room_is_drawn() -> None:
    rooms = {path.parent.name for path in (ROOT / "planner").glob("*/__init__.py")}
    drawing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("```text")[1].split("```")[0]
    assert rooms and all(re.search(rf"\b{room}\b", drawing) for room in rooms)


def test_the_rules_name_tests_that_exist() -> None:
    named = re.findall(r"`(tests/[\w/.]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert named and all((ROOT / path).exists() for path in named)


def test_the_readme_quotes_the_accuracy_page() -> None:
    measured = {}
    for line in (DOCS / "accuracy.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        measured.setdefault(cells[0].partition(" (")[0], cells[1:])
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("| left out | runs | TPOT | TTFT |\n")[1]
    quoted = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n\n")[0].splitlines()[1:]]
    assert len(quoted) == 4
    for name, runs, tpot, ttft in quoted:
        assert [runs, tpot, ttft] == [measured[name][0], measured[name][1], measured[name][4]]


def test_the_readme_counts_the_cards() -> None:
    known = listing()
    fitted = sum(not one.efficiency_like for one in known)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert fitted == 10 and "Ten accelerators have" in text and f"The other {len(known) - fitted} borrow" in text
