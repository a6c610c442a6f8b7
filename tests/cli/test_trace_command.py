"""`planner trace show` on real files, and on every wrong way to ask."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from running import Run

DATA = Path(__file__).parents[1] / "data" / "traces"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "data"
MOONCAKE = str(EXAMPLES / "mooncake_blocks.jsonl")
AZURE = str(DATA / "azure_2023_head.csv")


def test_everything_about_a_trace(run: Run) -> None:
    done = run("trace", "show", MOONCAKE)
    assert (done.returncode, done.stderr) == (0, "")
    sections = [block.splitlines()[0] for block in done.stdout.split("\n\n")]
    assert sections[0].startswith("Mooncake trace: 1,000 requests in ")
    assert sections[1:] == [
        "Arrivals",
        "Lengths",
        "Reuse, blocks of 512 tokens, lru eviction",
        "Working set",
        "Hit ratio by capacity",
        "Notes",
    ]
    curve = done.stdout.split("Hit ratio by capacity\n")[1].split("\n\n")[0]
    assert len(curve.splitlines()) == 21
    assert "█" in curve


def test_plain_screens_get_plain_characters(run: Run) -> None:
    done = run("trace", "show", MOONCAKE, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "####" in done.stdout


def test_json_holds_the_contract(run: Run) -> None:
    done = run("trace", "show", MOONCAKE, "--capacity-blocks", "1000,5000", "--format", "json")
    document = json.loads(done.stdout)
    reuse = document["reuse"]
    assert reuse["block_tokens"] == 512
    assert [item["capacity_blocks"] for item in reuse["curve"]] == [1000, 5000]
    assert [item["capacity_tokens"] for item in reuse["curve"]] == [512_000, 2_560_000]
    assert 0 < reuse["curve"][0]["hit_ratio"] <= reuse["curve"][1]["hit_ratio"] <= reuse["ceiling"] < 1
    assert document["requests"] == 1000
    assert document["arrivals"]["dispersion"][0]["window_s"] == 1
    assert document["input_tokens"]["p99"] > document["input_tokens"]["mean"]


def test_csv_is_the_curve(run: Run) -> None:
    done = run("trace", "show", MOONCAKE, "--format", "csv", "--capacity-blocks", "10,2000", "--eviction", "leaf-first")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["capacity_blocks"] for row in rows] == ["10", "2000"]
    assert float(rows[0]["hit_ratio"]) < float(rows[1]["hit_ratio"])


def test_a_folder_of_sessions(run: Run) -> None:
    done = run("trace", "show", str(EXAMPLES / "agent-sessions"), "--stagger", "5 min")
    assert "3 sessions that start 5.00 min apart" in " ".join(done.stdout.split())
    assert "blocks of 64 tokens" in done.stdout


def test_traces_without_blocks_or_times(run: Run) -> None:
    azure = json.loads(run("trace", "show", AZURE, "--format", "json").stdout)
    assert azure["reuse"] is None
    lengths = json.loads(run("trace", "show", str(DATA / "sharegpt_lengths_head.csv"), "--format", "json").stdout)
    assert lengths["arrivals"] is None
    assert lengths["requests_per_s"] is None
    rounds = run("trace", "show", str(DATA / "tracelab_rounds_sample.jsonl")).stdout
    assert "of input tokens came from the provider's cache" in rounds


def test_a_trace_too_short_for_the_capacity_says_so(run: Run) -> None:
    text = " ".join(run("trace", "show", MOONCAKE, "--capacity-blocks", "15000,900000").stdout.split())
    assert "a cache of 900,000 blocks never fills" in text
    assert "a cache of 15,000 blocks is still filling for more than half of the trace" in text
    assert "never fills" not in run("trace", "show", MOONCAKE).stdout


def test_quiet_leaves_the_notes_out(run: Run) -> None:
    assert "Notes" not in run("trace", "show", AZURE, "-q").stdout
    assert run("trace", "show", AZURE, "-qq").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((MOONCAKE, "--capacity-blocks", "0"), '--capacity-blocks: "0"; give whole numbers such as 1000,5000'),
        ((MOONCAKE, "--capacity-blocks", "10,x"), '--capacity-blocks: "x"'),
        ((MOONCAKE, "--capacity-blocks", "1" * 400), "--capacity-blocks"),
        ((AZURE, "--capacity-blocks", "10"), "has no block ids, so it has no hit curve"),
        ((AZURE, "--format", "csv"), "has no block ids, so it has no hit curve"),
        ((MOONCAKE, "--block-tokens", "0"), "--block-tokens: 0; give a whole number of at least 1"),
        ((MOONCAKE, "--block-tokens", "64"), "contradict blocks of 64 tokens"),
        ((AZURE, "--block-tokens", "64"), "has no block ids"),
        ((AZURE, "--stagger", "60 s"), "Azure has a clock of its own"),
        ((MOONCAKE, "--stagger", "60"), '--stagger: "60" has no unit'),
        ((MOONCAKE, AZURE), "give files of one format"),
        (("absent.csv",), "absent.csv: no such file"),
    ],
)
def test_wrong_ways_to_ask(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("trace", "show", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
