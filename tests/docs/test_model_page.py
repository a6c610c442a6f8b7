"""docs/model.md holds every formula as its docstring says it now."""

from __future__ import annotations

import re
import runpy

from excerpts import ROOT

from planner.review.formulas import formulas

PAGE = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")


def test_page_is_what_the_docstrings_say() -> None:
    build = runpy.run_path(str(ROOT / "tools" / "build_model_docs.py"))["build"]
    assert build() == PAGE, "docs/model.md is out of date; run `make docs`"


def test_every_formula_stands_on_the_page_with_its_source() -> None:
    words = " ".join(PAGE.split())
    for formula in formulas().values():
        assert " ".join(f"{formula.id}: {formula.equation} ({formula.source})".split()) in words


def test_links_lead_to_sections() -> None:
    page = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    slugs = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    }
    anchors = set(re.findall(r"sources\.md#([\w-]+)", PAGE))
    assert anchors and anchors <= slugs


def test_every_module_that_cites_a_source_is_on_the_page() -> None:
    rooms = ("shapes", "roofline", "queueing", "reuse", "serving", "engines")
    paths = [path for room in rooms for path in (ROOT / "planner" / room).glob("*.py")]
    cited = [path for path in paths if re.search(r'"""[^"]*§', path.read_text(encoding="utf-8"))]
    missing = [f"{path.parent.name}/{path.name}" for path in cited if f"### {path.parent.name}/{path.name}" not in PAGE]
    assert not missing, "name them in SUBJECTS of tools/build_model_docs.py"
