"""Launch files by their bytes. After a wanted change run this file (PYTHONPATH=.:tests/export) to renew them."""

from __future__ import annotations

from pathlib import Path

import pytest
from exported import CASES, exported, launch_files

GOLDEN = Path(__file__).with_name("golden")


def golden(name: str, target: str) -> str:
    files = launch_files(name, target)
    return "".join(f"==> {file} <==\n{files[file]}" for file in sorted(files))


@pytest.mark.parametrize(("name", "target"), CASES)
def test_files_are_what_they_were(name: str, target: str) -> None:
    assert golden(name, target) == (GOLDEN / f"{name}.{target}.txt").read_text(encoding="utf-8")


def test_the_page_is_what_it_was() -> None:
    page = exported("llama-3.1-70b-azure", "vllm")["README.md"].text
    assert page == (GOLDEN / "README.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    for case in CASES:
        (GOLDEN / f"{'.'.join(case)}.txt").write_text(golden(*case), encoding="utf-8")
    (GOLDEN / "README.txt").write_text(exported("llama-3.1-70b-azure", "vllm")["README.md"].text, encoding="utf-8")
