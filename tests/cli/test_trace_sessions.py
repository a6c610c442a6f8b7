"""`planner trace sessions`: the description in, curve and cliff out, and every wrong number."""

from __future__ import annotations

import csv
import io
import json

import pytest
from running import Run

AGENTS = ("--users", "40", "--turns", "8", "--growth-tokens", "50", "--output-tokens", "50", "--think", "20 s")
MORE = ("--first-tokens", "100", "--system-tokens", "200", "--service", "5 s", "--think-scv", "0")
CHILDREN = (
    "children=3,every-turns=4,turns=4,shared_tokens=100,first_tokens=50,growth_tokens=20,output_tokens=30,gap=3 s"
)


def test_curve_and_cliff(run: Run) -> None:
    done = run("trace", "sessions", *AGENTS, *MORE, "--block-tokens", "10", "--capacity-blocks", "470,1700,2000")
    assert (done.returncode, done.stderr) == (0, "")
    assert "40 users, 8 turns a session: 1.60 /s" in done.stdout
    as_json = run(
        "trace", "sessions", *AGENTS, *MORE, "--block-tokens", "10", "--capacity-blocks", "470,1700,2000", "--format",
        "json",
    )  # fmt: skip
    reuse = json.loads(as_json.stdout)["reuse"]
    # mean own context 450 tokens: 4,700 less 200 shared hold 10 users, and 40 users need 18,200 tokens
    assert reuse["curve"][0]["cliff_users"] == pytest.approx(10)
    assert reuse["live_tokens"] == pytest.approx(18_200)
    ratios = [item["hit_ratio"] for item in reuse["curve"]]
    assert ratios[1] < 0.5 < ratios[2] <= reuse["ceiling"]  # equal pauses: a step at 1,820 blocks


def test_bursts_and_default_curve(run: Run) -> None:
    done = run("trace", "sessions", *AGENTS, "--sub-agents", CHILDREN, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 20
    assert float(rows[0]["hit_ratio"]) < float(rows[-1]["hit_ratio"])
    assert (
        "a burst of 3 sub-agents comes to 790 tokens"
        in run("trace", "sessions", *AGENTS, "--sub-agents", CHILDREN).stdout
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--users", "0"), "users must be finite and above 0"),
        (("--users", "nan"), "users must be finite and above 0"),
        (("--users", "1e300"), "users must be at most 1,000,000,000"),
        (("--turns", "0"), "turns must be finite and at least 1"),
        (("--turns", "100000000"), "turns must be at most 100,000"),
        (("--system-tokens", "1e300"), "system_tokens must be at most 1,000,000,000"),
        (("--think-scv", "1e300"), "think_scv must be at most 1,000"),
        (("--think", "20"), '--think: "20" has no unit'),
        (("--think", "0 s"), "think_s + service_s must be finite and above 0"),
        (("--think", "5 GB"), "--think: "),
        (("--growth-tokens", "-1"), "growth_tokens must be finite and at least 0"),
        (("--first-tokens", "0"), "system_tokens + first_tokens must be finite and above 0"),
        (("--block-tokens", "0"), "block_tokens must be at least 1"),
        (("--capacity-blocks", "many"), "--capacity-blocks: "),
        (("--sub-agents", "childs=3"), '--sub-agents: "childs" is unknown; did you mean "children"?'),
        (("--sub-agents", "children=three"), '--sub-agents: children is "three"; want a number'),
        (("--sub-agents", "children=3"), "--sub-agents: needs turns, every_turns"),
        (("--sub-agents", CHILDREN.replace("3 s", "0 s")), "gap_s must be finite and above 0"),
    ],
)
def test_wrong_numbers(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("trace", "sessions", *AGENTS, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
