"""docs/claims.md says what the program finds now."""

from __future__ import annotations

from claim_bench import bench
from excerpts import ROOT, agree

from planner.render.claims import to_markdown
from planner.sizing.claims import claims


def test_the_page_is_current() -> None:
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert agree(page, to_markdown(claims(bench()))), "run `make docs`"
