"""Every section that code, catalog or pages cite stands on docs/sources.md, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from excerpts import ROOT

LABEL = r"\b(FIDELITY|MODELLING|QUEUEING|PUBLISHED|HOUSE|PEERS)\b"
MORE = r"((?:(?:,| and|, and| to)\s+§\d+(?:\.\d+)*)*)"
PAGE = ROOT / "docs" / "sources.md"


def texts() -> Iterator[str]:
    for room in ("planner", "hardware", "models", "docs", "tools"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in (".py", ".yaml", ".md") and path != PAGE:
                yield path.read_text(encoding="utf-8")


def test_no_citation_dangles_and_no_section_is_idle() -> None:
    cited = set()
    for text in texts():
        for label, first, more in re.findall(rf"{LABEL}\s+§(\d+(?:\.\d+)*){MORE}", text):
            cited |= {f"{label} §{number}" for number in (first, *re.findall(r"§(\d+(?:\.\d+)*)", more))}
    assert cited == set(re.findall(r"^### (\w+ §[\d.]+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


def test_no_notes_are_cited_that_are_not_shipped() -> None:
    assert not [text[:80] for text in texts() if re.search(rf"{LABEL}\.md|design/|facts/README", text)]
