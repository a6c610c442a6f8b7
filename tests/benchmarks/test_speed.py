"""Speed as ratios against something everybody has, and memory. Run by `make bench` only.

Processes are compared by the processor time of each, the least of several interleaved runs, so that a busy machine
slows both sides alike.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import planner

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
EXAMPLE = "docs/examples/qwen3-32b-fp8.yaml"
RUNS = 7
IMPORTS = ["-c", "import numpy, scipy.special"]

pytestmark = pytest.mark.slow
Report = Callable[[str, str, str], None]


# A small process in between: a child's peak memory starts at that of the process it was forked from.
PROBE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


def spent(arguments: Sequence[str]) -> tuple[float, float]:
    """Processor seconds and peak resident bytes of one run."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled once, not at every run
    environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "planner-bytecode")
    command = [sys.executable, "-S", "-c", PROBE, sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    seconds, resident = done.stdout.split()
    return float(seconds), float(resident)


def ratio(ours: Sequence[str], yardstick: Sequence[str]) -> float:
    pairs = [(spent(ours)[0], spent(yardstick)[0]) for _ in range(RUNS)]
    return min(mine for mine, _ in pairs) / min(theirs for _, theirs in pairs)


def once(benchmark: BenchmarkFixture, measure: Callable[[], float]) -> float:
    """The value of one measurement; skipped where benchmarks are off."""
    if benchmark.disabled:
        pytest.skip("speed is measured by make bench")
    return float(benchmark.pedantic(measure, rounds=1))


def test_the_version_costs_little_more_than_its_command_line_library(
    benchmark: BenchmarkFixture, report: Report
) -> None:
    value = once(benchmark, lambda: ratio(["-m", "planner", "--version"], ["-c", "import typer"]))
    report("planner --version / import typer", f"{value:.2f}", "2")
    assert value <= 2.0


def test_sizing_costs_little_more_than_its_numerical_libraries(benchmark: BenchmarkFixture, report: Report) -> None:
    size = ["-m", "planner", "size", EXAMPLE]
    value = once(benchmark, lambda: ratio(size, IMPORTS))
    report("planner size / import numpy, scipy.special", f"{value:.2f}", "3")
    assert value <= 3.0


@pytest.mark.parametrize(("command", "most"), [(("check", "-q"), 4.0), (("whatif",), 8.0)], ids=lambda item: str(item))
def test_commands_of_many_plans(
    benchmark: BenchmarkFixture, report: Report, command: tuple[str, ...], most: float
) -> None:
    """A second for the hook and two for `whatif`, where the libraries take a quarter of one."""
    ours = ["-m", "planner", *command, EXAMPLE]
    value = once(benchmark, lambda: ratio(ours, IMPORTS))
    report(f"planner {command[0]} / import numpy, scipy.special", f"{value:.2f}", f"{most:g}")
    assert value <= most


def test_whole_searches_of_small_questions(benchmark: BenchmarkFixture, report: Report) -> None:
    """A tenth of a second each, two hundred in 20 s, where the libraries take a quarter of one."""
    code = """
import small_scenarios as small
from planner import sizing
for number in range(20):
    sizing.size(small.scenario((small.boxes_of(2),), requests_per_s=10.0 + 7.0 * number))
"""
    once_each, again = ["-c", code], ["-c", code.replace("range(20)", "range(1)")]
    value = once(benchmark, lambda: (ratio(once_each, IMPORTS) - ratio(again, IMPORTS)) / 19.0)
    report("one search of a small question / import numpy, scipy.special", f"{value:.2f}", "0.4")
    assert value <= 0.4


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_candidates_judged_per_second(benchmark: BenchmarkFixture, report: Report, path: Path) -> None:
    scenario = planner.load_scenario(path)

    def per_second() -> float:
        planner.size(scenario)  # warm
        best = 0.0
        for _ in range(3):
            start = time.process_time()
            judged = planner.size(scenario).candidates
            best = max(best, judged / (time.process_time() - start))
        return best

    value = once(benchmark, per_second)
    report(f"candidates per second, {path.stem}", f"{value:,.0f}", "100,000")
    assert value >= 1e5


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_peak_memory(benchmark: BenchmarkFixture, report: Report, path: Path) -> None:
    arguments = ["-c", f"import planner; planner.size(planner.load_scenario({str(path)!r}))"]
    value = once(benchmark, lambda: spent(arguments)[1])
    report(f"peak memory, {path.stem}", f"{value / 1e6:.0f} MB", "300 MB")
    assert value <= 300e6


def test_a_million_requests_with_twenty_blocks_each(
    benchmark: BenchmarkFixture, report: Report, tmp_path: Path
) -> None:
    """Chats that grow by one or two blocks a turn up to 40; every turn sends all of its chat."""
    path, chats = tmp_path / "million.jsonl", 20_000
    with path.open("w") as stream:
        for turn in range(50):
            held = 1 + turn % 40
            for chat in range(chats):
                ids = ", ".join(map(str, range(chat * 100 + turn // 40 * 50, chat * 100 + turn // 40 * 50 + held)))
                stream.write(
                    f'{{"timestamp": {turn * chats + chat}, "input_length": {held * 512}, "output_length": 9, '
                    f'"hash_ids": [{ids}]}}\n'
                )
    value = once(benchmark, lambda: spent(["-m", "planner", "trace", "show", str(path)])[1])
    report("peak memory, a million requests of 20 blocks", f"{value / 1e6:.0f} MB", "500 MB")
    assert value <= 500e6
