"""The grammar of check expressions, and a scenario's checks with their places."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import metrics
from planner.errors import FieldError, InputError
from planner.files import yamlfile
from planner.files.checks import parse
from planner.files.scenario import field_fault, load_scenario
from planner.records import Budget, Target

HEAD = """\
version: 1
model: meta-llama/Llama-3.1-70B
hardware: {accelerators: [h100-sxm]}
workload: {requests: 4 /s, input_tokens: 4000, output_tokens: 500}
"""


@pytest.mark.parametrize(
    ("text", "metric", "statistic", "comparison", "limit", "unit"),
    [
        ("ttft.p99 <= 800 ms", "ttft", "p99", "<=", 0.8, "s"),
        ("e2e.p99.9<=2min", "e2e", "p99_9", "<=", 120.0, "s"),
        ("usd_per_mtok_output <= 1.20 USD/Mtok", "usd_per_mtok_output", "", "<=", 1.2, "USD/Mtok"),
        ("usd_per_mtok_input <= 0.001 USD/ktok", "usd_per_mtok_input", "", "<=", 1.0, "USD/Mtok"),
        ("accelerators <= 64", "accelerators", "", "<=", 64.0, "accelerators"),
        ("accelerators.prefill <= 4", "accelerators", "prefill", "<=", 4.0, "accelerators"),
        ("utilization.prefill <= 0.8", "utilization", "prefill", "<=", 0.8, "1"),
        ("utilization <= 80 %", "utilization", "", "<=", 0.8, "1"),
        ("kv_fill.p99 <= 90%", "kv_fill", "p99", "<=", 0.9, "1"),
        ("requests_per_s_max >= 600 /min", "requests_per_s_max", "", ">=", 10.0, "requests/s"),
        ("output_tokens_per_s ≥ 5e3 tokens/s", "output_tokens_per_s", "", ">=", 5000.0, "tokens/s"),
        ("surplus_fraction >= 0", "surplus_fraction", "", ">=", 0.0, "1"),
        ("watts <= 70 kW", "watts", "", "<=", 70_000.0, "W"),
        ("joules_per_output_token <= 12 J/token", "joules_per_output_token", "", "<=", 12.0, "J/token"),
    ],
)
def test_limits(text: str, metric: str, statistic: str, comparison: str, limit: float, unit: str) -> None:
    check = parse(text)
    assert (check.metric, check.statistic, check.comparison, check.unit) == (metric, statistic, comparison, unit)
    assert check.limit == pytest.approx(limit, rel=1e-12)
    assert not check.change and not check.relative


@pytest.mark.parametrize(
    ("text", "limit", "relative"),
    [
        ("change(usd_per_hour) <= 5 %", 0.05, True),
        ("change( ttft.p99 ) >= -2.5%", -0.025, True),
        ("change(usd_per_hour) <= 10 USD/h", 10.0, False),
        ("change(accelerators) <= 4", 4.0, False),
        ("change(accelerators) <= -1", -1.0, False),
        ("change(ttft.p99) <= 0 ms", 0.0, False),
        ("change(utilization.decode) <= 0.1", 0.1, False),
    ],
)
def test_changes(text: str, limit: float, relative: bool) -> None:
    check = parse(text)
    assert check.change and check.relative is relative
    assert check.limit == pytest.approx(limit, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "want METRIC <= LIMIT"),
        ("ttft.p99", "want METRIC <= LIMIT"),
        ("ttft.p99 <=", "want METRIC <= LIMIT"),
        ("<= 3", "want METRIC <= LIMIT"),
        ("change(ttft.p99 <= 3 ms", "want METRIC <= LIMIT"),
        ("ttft.p99) <= 3 ms", "want METRIC <= LIMIT"),
        ("tfft.p99 <= 1 s", 'no metric "tfft"; did you mean "ttft"?'),
        ("usd_per_mtok <= 1 USD/Mtok", 'no metric "usd_per_mtok"; did you mean "usd_per_mtok_'),
        ("ttft <= 1 s", "ttft needs a statistic, e.g. ttft.p99"),
        ("ttft.p98 <= 1 s", 'ttft has no "p98"'),
        ("usd_per_hour.p99 <= 1 USD/h", "usd_per_hour is one number"),
        ("utilization.p99 <= 0.5", 'utilization has no "p99"; want one of: prefill, decode, colocated, transfer'),
        ("ttft.p99 < 1 s", "want <= or >="),
        ("ttft.p99 == 1 s", "want <= or >="),
        ("ttft.p99 <= 800", 'has no unit; want e.g. "800 ms"'),
        ("ttft.p99 <= 1 GB", "is a size in bytes, not a time"),
        ("ttft.p99 <= -1 s", "is negative"),
        ("ttft.p99 <= 0 s", "is not above zero"),
        ("ttft.p99 <= 5 %", "is a share, not a time"),
        ("ttft.p99 <= 1e300 s", "far outside"),
        ("accelerators <= 6.5", "is not a whole number"),
        ("accelerators <= 64 GPUs", "has a unit"),
        ("change(usd_per_hour) <= 5", "has no unit"),
        ("change(usd_per_hour) <= 1e400 %", "too large"),
    ],
)
def test_faults_say_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse(text)
    assert said in str(raised.value)


@given(st.text(max_size=60))
def test_any_text_is_a_check_or_a_fault(text: str) -> None:
    try:
        check = parse(text)
    except ValueError as error:
        assert str(error)
    else:
        assert check.metric in metrics.ALL


@given(
    st.sampled_from([metric for metric in metrics.ALL.values() if metric.bare]),
    st.sampled_from(["<=", ">="]),
    st.integers(1, 10**6),
)
def test_every_metric_takes_its_own_unit(metric: metrics.Metric, sign: str, number: int) -> None:
    unit = {"accelerators": "", "1": "", "requests/s": "/s"}.get(metric.unit, metric.unit)
    assert parse(f"{metric.name} {sign} {number} {unit}").limit == pytest.approx(number)


def test_percentiles_are_checks_of_every_latency() -> None:
    for metric in ("ttft", "itl", "tpot", "e2e"):
        for statistic in metrics.ALL[metric].statistics:
            assert parse(f"{metric}.{metrics.written(statistic)} <= 1 s").statistic == statistic


# ------------------------------------------------------------------------------------------------------ in a scenario


def write(folder: Path, body: str) -> Path:
    path = folder / "s.yaml"
    path.write_text(HEAD + body, encoding="utf-8")
    return path


def test_targets_and_budgets_are_short_forms(tmp_path: Path) -> None:
    short = load_scenario(
        write(tmp_path, "targets: {ttft: {p99: 800 ms}, itl: {p99.9: 30 ms}}\nbudgets: {accelerators: 64}\n")
    )
    long = load_scenario(write(tmp_path, "checks:\n- accelerators <= 64\n- itl.p99.9 <= 30 ms\n- ttft.p99 <= 800 ms\n"))
    assert short.targets == long.targets == (Target("ttft", "p99", 0.8), Target("itl", "p99_9", 0.03))
    assert short.budgets == long.budgets == (Budget("accelerators", 64.0, "accelerators"),)
    assert [check.text for check in short.checks] == [
        "ttft.p99 <= 800 ms",
        "itl.p99.9 <= 30 ms",
        "accelerators <= 64",
    ]


def test_every_check_knows_its_line(tmp_path: Path) -> None:
    scenario = load_scenario(
        write(
            tmp_path, 'targets:\n  ttft:\n    p99: 1 s\nbudgets:\n  accelerators: 9\nchecks:\n  - "itl.p99 <= 30 ms"\n'
        )
    )
    assert [(check.line, check.column) for check in scenario.checks] == [(7, 5), (9, 3), (11, 5)]
    assert {check.path for check in scenario.checks} == {str(tmp_path / "s.yaml")}


def test_what_bounds_no_search_is_said(tmp_path: Path) -> None:
    scenario = load_scenario(
        write(tmp_path, "checks: [ttft.p99 <= 1 s, utilization <= 0.7, change(accelerators) <= 2]\n")
    )
    assert len(scenario.targets) == 1 and scenario.budgets == ()
    assert any(
        "not searched for: utilization <= 0.7, change(accelerators) <= 2" in note.text for note in scenario.notes
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("checks: [tfft.p99 <= 1 s, 3]\n", 's.yaml:5:10: checks[0]: "tfft.p99 <= 1 s": no metric "tfft"; did you mean'),
        ("checks: [tfft.p99 <= 1 s, 3]\n", "s.yaml:5:27: checks[1]: 3 is not an expression"),
        ("checks: ttft.p99 <= 1 s\n", "s.yaml:5:1: checks: want a list"),
        ("checks: [accelerators <= 3]\n", "needs the key targets"),
        ("targets: {ttft: {p99: 1 s}}\nchecks: [ttft.p99 <= 2 s]\n", "already limited so on line 5"),
        ("checks: [ttft.p99 <= 2 s, ttft.p99 <= 1 s]\n", "already limited so on line 5"),
    ],
)
def test_faults_have_a_place(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        load_scenario(write(tmp_path, body))
    assert said in str(raised.value).replace(f"{tmp_path}/", "")


def test_a_fault_of_meaning_stands_at_the_expression(tmp_path: Path) -> None:
    path = write(tmp_path, "checks: [ttft.p99 <= 2 s, itl.p99 <= 1 s, usd_per_hour <= 9 USD/h]\n")
    path.write_text(
        path.read_text(encoding="utf-8").replace("output_tokens: 500", "output_tokens: 1"), encoding="utf-8"
    )
    with pytest.raises(InputError) as raised:
        load_scenario(path)
    assert "s.yaml:5:27: checks[1]: every request has one output token" in str(raised.value)
    fault = field_fault(yamlfile.load(path), FieldError("budgets.usd_per_hour", "no price basis"))
    assert str(fault).endswith("s.yaml:5:43: checks[2]: no price basis")
