"""Ten thousand broken scenarios through the whole program: an answer or exit code 2, never a traceback."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.cli.reading import judge, plan_of
from planner.errors import InputError
from planner.files.scenario import load_scenario
from planner.records import Plan, Scenario
from planner.review.document import document
from planner.review.result_schema import result_schema

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.yaml"))
SMALL = """\
version: 1
model: meta-llama/Llama-3.1-8B
weights: fp8
engine: vllm
hardware: {accelerators: [h100-sxm, rtx-4090], network: 100 Gb/s}
workload:
  requests: 4 /s
  input_tokens: {mean: 1000, p99: 4000}
  output_tokens: {mean: 100, p99: 400}
  peak: {factor: 1.5, duration: 5 min}
targets: {ttft: {p99: 2 s}, itl: {p99: 50 ms}}
budgets: {accelerators: 8, usd_per_hour: 50 USD/h}
deployment:
  mode: disaggregated
  prefill: {accelerator: h100-sxm, replicas: 1, tp: 2}
  decode: {accelerator: h100-sxm, replicas: 1, tp: 1, max_batch: 64}
"""
WORDS = [
    "null", "~", "{}", "[]", "0", "-1", "1", "017", "1e12", "1e-12", "1e400", ".inf", ".nan", "true", "no", "''",
    '"\\e[31m"', '"\\0"', "12 /s", "800 ms", "0 s", "4 GB", "400 Gb/s", "1 USD/h", "h100-sxm", "rtx-4090", "b200",
    "vllm", "sglang", "tensorrt-llm", "generic", "mxfp4", "int4", "fp8", "colocated", "disaggregated", "*a", "&a 1",
    "!!int 3", "<<", "? x", "- x", "{a: 1}", "[1, [2]]", "openai/gpt-oss-20b", "Qwen/Qwen3-0.6B", "../../etc", ".",
    "999999999999", "3.5", "16", "64", "p99", "ttft", "\u202e", "é", "\t", "---", "...", "#", ":", "%", "|",
    ">", "2 /d",
]  # fmt: skip
PLAUSIBLE = [
    "1",
    "2",
    "3",
    "4",
    "8",
    "16",
    "40 /s",
    "0.5 /s",
    "5 ms",
    "9 s",
    "2000",
    "{mean: 900, scv: 2}",
    "20",
    "1.1",
]
_VALUE = re.compile(r"(?<=: )[^{}\[\],\n]+|(?<=\[)[^\[\],\n]+(?=[\],])")


def replaced(text: str, chance: random.Random) -> str:
    """One value replaced by a word, often a plausible one."""
    spans = [match.span() for match in _VALUE.finditer(text)] or [(0, len(text))]
    start, end = chance.choice(spans)
    word = chance.choice(PLAUSIBLE if chance.random() < 0.4 else WORDS)
    return f"{text[:start]}{word}{text[end:]}"


def line_moved(text: str, chance: random.Random) -> str:
    """A line dropped, doubled, or put elsewhere."""
    lines = text.splitlines(keepends=True) or [""]
    line = lines.pop(chance.randrange(len(lines)))
    for _ in range(chance.randrange(3)):
        lines.insert(chance.randrange(len(lines) + 1), line)
    return "".join(lines)


def letters_changed(text: str, chance: random.Random) -> str:
    """A few characters dropped, doubled or replaced."""
    for _ in range(chance.randrange(1, 4)):
        text = text or " "
        at = chance.randrange(len(text))
        text = (
            text[:at]
            + chance.choice(["", text[at] * 2, chance.choice("{}[]:,#&*!|>'\"%@` \t\n0aZ\x00é")])
            + text[at + 1 :]
        )
    return text


def cut(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text) + 1)]


MUTATIONS: list[Callable[[str, random.Random], str]] = [replaced, replaced, replaced, line_moved, letters_changed, cut]


def mutated(count: int, seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    sources = [SMALL, SMALL, SMALL, *(path.read_text(encoding="utf-8") for path in EXAMPLES)]
    for _ in range(count):
        text = chance.choice(sources)
        for _ in range(chance.choice([1, 1, 2, 4])):
            text = chance.choice(MUTATIONS)(text or SMALL, chance)
        yield text


def ends_well(path: Path, compute: bool) -> str:
    """Read a scenario, and answer it when it can be read: its verdict, or "refused"."""
    try:
        scenario = load_scenario(path, judge=judge)
        plan = _answer(scenario, path) if compute else None
    except InputError as error:
        texts = [str(fault) for fault in error.faults]
        assert texts and len(set(texts)) == len(texts)
        assert all("\n" not in text and "\x1b" not in text and len(text) < 1500 for text in texts)
        return "refused"
    if plan is None:
        return "read"
    result = document(plan)
    assert set(result_schema()["definitions"]["result"]["required"]) <= set(result)
    return str(result["verdict"])


def _answer(scenario: Scenario, path: Path) -> Plan:
    """Evaluated where it can be, as that is quick; sized when that is quick too."""
    small = scenario.model.id == "meta-llama/Llama-3.1-8B"
    if small or scenario.deployment is not None or len(scenario.decode_accelerators) == 1:
        return plan_of(scenario, path)
    return _first(scenario, path)


def _first(scenario: Scenario, path: Path) -> Plan:
    """Sized on its first accelerator only."""
    one = scenario.decode_accelerators[:1]
    return plan_of(replace(scenario, prefill_accelerators=one, decode_accelerators=one), path)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutated")
    (folder / "data").symlink_to(ROOT / "docs" / "examples" / "data")
    return folder / "s.yaml"


@pytest.mark.slow
def test_mutated_scenarios_are_read_or_refused(path: Path) -> None:
    ends = []
    for text in mutated(300, seed=1):
        path.write_bytes(text.encode("utf-8"))
        ends.append(ends_well(path, compute=False))
    assert ends.count("refused") > 100 and ends.count("read") > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_mutated_scenarios_are_answered_or_refused(path: Path, seed: int) -> None:
    ends = []
    for text in mutated(1000, seed=100 + seed):
        path.write_bytes(text.encode("utf-8"))
        ends.append(ends_well(path, compute=len(text) < len(SMALL) * 1.5 and "8B" in text))
    assert ends.count("refused") > 300 and len(set(ends)) > 2


_INNER = ["mean", "p99", "ttft", "tp", "mode", "requests", "x", "replicas"]


def _listed(items: list[str]) -> str:
    return f"[{', '.join(items)}]"


def _mapped(items: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"


_values = st.recursive(
    st.sampled_from(WORDS + PLAUSIBLE),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(_listed),
        st.dictionaries(st.sampled_from(_INNER), inner, max_size=3).map(_mapped),
    ),
    max_leaves=6,
)
_KEYS = ["model", "weights", "engine", "hardware", "workload", "targets", "budgets", "deployment", "checks", "kv_cache"]


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(changed=st.dictionaries(st.sampled_from(_KEYS), _values, min_size=1, max_size=3))
def test_any_values_are_answered_or_refused(path: Path, changed: dict[str, str]) -> None:
    sections = dict(re.findall(r"^(\w+):((?:.*\n)(?:  .*\n)*)", SMALL, re.MULTILINE))
    sections |= {key: f" {value}\n" for key, value in changed.items()}
    path.write_bytes("".join(f"{key}:{value}" for key, value in sections.items()).encode("utf-8"))
    assert ends_well(path, compute=True)
