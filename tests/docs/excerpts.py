"""Excerpts of real reports inside the guides: found by their marker, cut from a run, compared, written anew.

    <!-- excerpt: planner size FILE | FEASIBLE; Limits:9 -->     sections that start so, at most so many lines of each
    <!-- excerpt: planner size FILE + key: value | Plan -->      the same scenario with one more line
    <!-- units: FILE -->                                         fixed units against the pools of the plan

`python tests/docs/excerpts.py` rewrites every marked block of README.md and docs/.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "guides").glob("*.md")))
UNITS = ((1, 1), (2, 1), (3, 1), (5, 2))

_MARKED = re.compile(
    r"<!-- (?P<kind>excerpt|units): (?P<what>.+?) -->\n(?P<block>```text\n.*?```\n|(?:\n?(?:\|.*\n)+)?)", re.DOTALL
)
_BARS = re.compile("[█▉▊▋▌▍▎▏]")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def marked(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind, description and present block of every marker."""
    for found in _MARKED.finditer(text):
        yield found["kind"], found["what"], found["block"]


def current(kind: str, what: str) -> str:
    """The block as the program writes it now."""
    return _units(what) if kind == "units" else _excerpt(what)


def agree(old: str, new: str) -> bool:
    """Whether two blocks say the same: equal words, numbers within 3 % or 1 in the last place, bars of any length."""
    lines = [[line.split() for line in _BARS.sub("", text).strip().splitlines()] for text in (old, new)]
    if [len(line) for line in lines[0]] != [len(line) for line in lines[1]]:
        return False
    words = zip(*(chain.from_iterable(text) for text in lines), strict=True)
    return all(_same_word(first, second) for first, second in words)


def _same_word(first: str, second: str) -> bool:
    if _NUMBER.sub("#", first) != _NUMBER.sub("#", second):
        return False
    return all(_close(a, b) for a, b in zip(_NUMBER.findall(first), _NUMBER.findall(second), strict=True))


def _close(first: str, second: str) -> bool:
    a, b = (float(text.replace(",", "")) for text in (first, second))
    last = 10.0 ** -len(first.partition(".")[2])
    return abs(a - b) <= max(0.03 * max(a, b), 1.01 * last)


def _excerpt(what: str) -> str:
    command, _, wanted = what.partition(" | ")
    sections = _run(command).strip().split("\n\n")
    kept = []
    for name in wanted.split("; "):
        start, _, most = name.partition(":")
        section = "\n\n".join(part for part in sections if part.startswith(start))
        if not section:
            raise ValueError(f"{command} prints no section that starts with {start}")
        lines = section.splitlines()
        shown = lines[: int(most)] if most else lines
        kept.append("\n".join(line.rstrip() for line in [*shown, *(["  ..."] if len(shown) < len(lines) else [])]))
    return "```text\n" + "\n\n".join(kept) + "\n```\n"


@cache
def _run(command: str) -> str:
    call, _, more = command.partition(" + ")
    words = call.split()[1:]
    with tempfile.TemporaryDirectory() as folder:
        if more:
            scenario = next(index for index, word in enumerate(words) if word.endswith(".yaml"))
            changed = Path(folder) / Path(words[scenario]).name
            changed.write_text((ROOT / words[scenario]).read_text(encoding="utf-8") + more + "\n", encoding="utf-8")
            data = (ROOT / words[scenario]).parent / "data"
            (Path(folder) / "data").symlink_to(data, target_is_directory=True)
            words[scenario] = str(changed)
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
        done = subprocess.run(
            [sys.executable, "-m", "planner", *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
            env={**kept, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"},
            timeout=600,
            check=False,
        )
    if done.returncode not in (0, 1):
        raise ValueError(f"{command} exits {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _units(scenario: str) -> str:
    plan: dict[str, Any] = json.loads(_run(f"planner size {scenario} --format json"))["plan"]
    prefill, decode = plan["prefill"], plan["decode"]
    wide = prefill["accelerators"] // prefill["replicas"], decode["accelerators"] // decode["replicas"]
    rows = [
        "| unit | units | prefill workers | decode workers | accelerators |",
        "|---|---|---|---|---|",
        f"| none: pools apart | | {prefill['replicas']} | {decode['replicas']} | {plan['accelerators']} |",
    ]
    for x, y in UNITS:
        count = max(-(-prefill["replicas"] // x), -(-decode["replicas"] // y))
        total = count * (x * wide[0] + y * wide[1])
        rows.append(f"| {x} prefill, {y} decode | {count} | {count * x} | {count * y} | {total} |")
    return "\n" + "\n".join(rows) + "\n"


def rewrite(text: str) -> str:
    return _MARKED.sub(lambda found: _head(found) + current(found["kind"], found["what"]), text)


def _head(found: re.Match[str]) -> str:
    return f"<!-- {found['kind']}: {found['what']} -->\n"


if __name__ == "__main__":
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        page.write_text(rewrite(before), encoding="utf-8", newline="\n")
