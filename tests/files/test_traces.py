"""Traces: every public format, what is repaired and said, and every way a file can be unusable."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.traces import Trace, load_trace, rate_per_s, rescaled, spread_ties

DATA = Path(__file__).parent.parent / "data" / "traces"
EXAMPLES = Path(__file__).parent.parent.parent / "docs" / "examples" / "data"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def read(tmp_path: Path, text: str, name: str = "t.csv") -> Trace:
    path = tmp_path / name
    path.write_text(text)
    return load_trace(path)


def faults(tmp_path: Path, content: str | bytes, name: str = "t.csv") -> list[str]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as refusal:
        load_trace(path)
    return [str(fault).removeprefix(f"{tmp_path}/") for fault in refusal.value.faults]


def texts(trace: Trace) -> str:
    return "\n".join(note.text for note in trace.notes)


# ----------------------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize(
    ("name", "times", "first", "requests"),
    [
        # 18:15:46.680590 to 18:15:50.995169 is 4.314579 s
        ("azure_2023_head.csv", [0, 4.314579], (374, 44), 10),
        ("azure_2024_conv_sample.csv", [0, 0.04052], (1452, 3), 10),
        ("azure_2025_multimodal_sample.csv", [0, 5.55], (770, 491), 10),
        ("burstgpt_v1_sample.csv", [0, 40, 113], (472, 18), 3),
        ("burstgpt_v2_sample.csv", [0, 51, 82, 144], (906, 446), 4),
        ("vidur_head.csv", [0, 4.314579], (374, 44), 10),
        ("ragpulse_head.jsonl", [0, 11, 43], (3112, 192), 5),
    ],
)
def test_formats(name: str, times: list[float], first: tuple[int, int], requests: int) -> None:
    arrivals = load_trace(DATA / name).arrivals
    assert arrivals is not None
    assert arrivals.time_s[: len(times)] == pytest.approx(times, abs=1e-6)
    assert (arrivals.input_tokens[0], arrivals.output_tokens[0]) == first
    assert arrivals.time_s.size == requests
    assert arrivals.duration_s == arrivals.time_s[-1]


def test_mooncake_ticks_are_spread() -> None:
    trace = load_trace(DATA / "mooncake_head.jsonl")
    assert trace.arrivals is not None
    rows = [json.loads(line) for line in (DATA / "mooncake_head.jsonl").read_text().splitlines()]
    first = sum(row["timestamp"] == rows[0]["timestamp"] for row in rows)
    tick_s = (max(row["timestamp"] for row in rows) - rows[0]["timestamp"]) / 1e3
    assert trace.arrivals.time_s[:first] == pytest.approx(tick_s * np.arange(first) / first)
    assert "share a time with another; spread evenly over the tick" in texts(trace)


def test_plain_columns_in_any_order(tmp_path: Path) -> None:
    trace = read(tmp_path, "output_tokens,user,time_s,input_tokens\n5,a,1.5,100\n6,b,2.5,200\n\n7,c,4.5,300\n")
    assert trace.arrivals is not None
    assert trace.arrivals.time_s.tolist() == [0, 1, 3]
    assert trace.arrivals.input_tokens.tolist() == [100, 200, 300]
    assert trace.arrivals.output_tokens.tolist() == [5, 6, 7]


def test_lengths_without_times() -> None:
    trace = load_trace(DATA / "sharegpt_lengths_head.csv")
    assert trace.arrivals is None
    assert trace.lengths.weights.sum() == pytest.approx(1)
    assert trace.lengths.weights.size == 10
    assert "10 requests, lengths only" in texts(trace)


def test_shipped_slices() -> None:
    for name, requests, mean_input in (
        ("azure_conversation.csv", 3000, 1150),
        ("mooncake_conversation.jsonl", 2000, 13721),
    ):
        trace = load_trace(EXAMPLES / name)
        assert trace.arrivals is not None
        assert trace.arrivals.time_s.size == requests
        assert (np.diff(trace.arrivals.time_s) >= 0).all()
        assert trace.lengths.weights @ trace.lengths.input_tokens == pytest.approx(mean_input, abs=1)
        assert trace.lengths.weights.size <= 2048
        assert len(trace.sha256) == 64


def test_rate_and_rescaling(tmp_path: Path) -> None:
    arrivals = read(tmp_path, "time_s,input_tokens,output_tokens\n10,1,1\n11,1,1\n14,1,1\n").arrivals
    assert arrivals is not None
    assert rate_per_s(arrivals) == 0.5  # two gaps in four seconds
    faster = rescaled(arrivals, 5)
    assert rate_per_s(faster) == pytest.approx(5)
    assert faster.time_s == pytest.approx([0, 0.1, 0.4])
    assert faster.duration_s == pytest.approx(0.4)


# ------------------------------------------------------------------------------------------------------------ repair


def test_failed_requests_are_dropped_and_said(tmp_path: Path) -> None:
    trace = read(tmp_path, "time_s,input_tokens,output_tokens\n0,5,0\n1,5,2\n2,0,3\n3,6,4\n5,7,0\n")
    assert trace.arrivals is not None
    assert trace.arrivals.time_s.tolist() == [0, 2]
    assert trace.arrivals.input_tokens.tolist() == [5, 6]
    assert "2 of 5 requests have no output tokens: taken as failed and left out" in texts(trace)
    assert "1 of 5 requests have no input tokens and are left out" in texts(trace)


def test_rows_out_of_order_are_sorted_and_said(tmp_path: Path) -> None:
    trace = read(tmp_path, "time_s,input_tokens,output_tokens\n0,1,1\n5,2,1\n3,3,1\n9,4,1\n")
    assert trace.arrivals is not None
    assert trace.arrivals.input_tokens.tolist() == [1, 3, 2, 4]
    assert "1 rows stand before an earlier one; sorted by time" in texts(trace)


def test_ties_by_hand() -> None:
    spread, tied, tick_s = spread_ties(np.array([0.0, 0, 0, 6, 9, 9]))
    assert tick_s == 3  # the smallest step between different times
    assert spread.tolist() == [0, 1, 2, 6, 9, 10.5]
    assert tied == 5


@given(st.lists(st.integers(0, 50), min_size=2, max_size=60).filter(lambda ticks: len(set(ticks)) > 1))
def test_spreading_keeps_order_and_ticks(ticks: list[int]) -> None:
    time_s = np.sort(np.array(ticks, dtype=float)) * 3.0
    spread, _, tick_s = spread_ties(time_s)
    assert (np.diff(spread) > 0).all()
    assert (spread >= time_s).all()
    assert (spread < time_s + tick_s).all()


# ------------------------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "t.csv: is empty; want a trace of requests"),
        ("\n \n", "t.csv: is empty"),
        (AZURE, "t.csv: holds no requests, only a header"),
        (b"PK\x03\x04\x00\x00", "t.csv: is a binary file; want UTF-8 text"),
        (b"a,b\n\xff,1\n", "t.csv:2:1: is not UTF-8 text: byte 0xff cannot be read"),
        ("when,how_much\n1,2\n", 't.csv:1: no known trace has the columns "when, how_much"; known: Azure (TIMESTAMP, '),
        ("[1, 2]\n", "t.csv:1: is not JSON lines; want one JSON object a line"),
        ("{broken\n", "t.csv:1: is not JSON lines"),
        ('{"a": ' * 50_000, "t.csv:1: is not JSON lines"),
        ('{"time": 1}\n', 't.csv:1: no known trace has the keys "time"; known: '),
        (AZURE + "2023-11-16 18:15:46,5,0\n2023-11-16 18:15:47,9,0\n", "none of its 2 requests has output tokens"),
        (AZURE + "2023-11-16 18:15:46,5,3\n", "holds one served request; want at least 2 to know their rate"),
        (AZURE + "2023-11-16 18:15:46,5,3\n" * 3, "its 3 requests all have one time, so they have no rate"),
    ],
)
def test_unusable_traces(tmp_path: Path, content: str | bytes, message: str) -> None:
    assert message in faults(tmp_path, content)[0]


def test_missing_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent.csv: no such file"):
        load_trace(tmp_path / "absent.csv")
    with pytest.raises(InputError, match=r"is a folder; want a file"):
        load_trace(tmp_path)


def test_malformed_rows_are_all_named(tmp_path: Path) -> None:
    rows = ["soon,5,3", "2023-11-16 18:15:46,five,3", "2023-11-16 18:15:46,5,-3", "2023-11-16 18:15:46,5", "x", ",,"]
    rows += ["2023-11-16 18:15:46,1.5,3", "2023-11-16 18:15:46,nan,3", "2023-11-16 18:15:46,5,1e12"]
    found = faults(tmp_path, AZURE + "\n".join(rows) + "\n")
    want_time = "want a time such as 2024-05-10 00:00:00.25"
    assert found == [
        f't.csv:2: TIMESTAMP is "soon"; {want_time}',
        't.csv:3: ContextTokens is "five"; want a whole number of tokens',
        't.csv:4: GeneratedTokens is "-3"; want a whole number of tokens',
        "t.csv:5: has 2 columns; want 3",
        "t.csv:6: has 1 columns; want 3",
        f't.csv:7: TIMESTAMP is ""; {want_time}',
        't.csv:8: ContextTokens is "1.5"; want a whole number of tokens',
        't.csv:9: ContextTokens is "nan"; want a whole number of tokens',
        't.csv:10: GeneratedTokens is "1e12"; want a whole number of tokens',
    ]


def test_many_malformed_rows_are_counted(tmp_path: Path) -> None:
    found = faults(tmp_path, AZURE + "soon,5,3\n" * 1234)
    assert len(found) == 11
    assert found[-1] == "t.csv: and 1,224 more malformed rows"


def test_malformed_json_rows(tmp_path: Path) -> None:
    good = '{"timestamp": 0, "input_length": 5, "output_length": 3}\n'
    bad = [
        '{"timestamp": NaN, "input_length": 5, "output_length": 3}',
        '{"timestamp": 0, "input_length": [5], "output_length": 3}',
        '{"timestamp": 0, "input_length": 5}',
        '{"timestamp": 0, "input_length": true, "output_length": 3}',
        "5",
        '{"timestamp": 0,',
    ]
    assert faults(tmp_path, good + "\n".join(bad), "t.jsonl") == [
        "t.jsonl:2: timestamp is nan; want a finite number",
        "t.jsonl:3: input_length is a list; want a whole number of tokens",
        "t.jsonl:4: output_length is nothing; want a whole number of tokens",
        "t.jsonl:5: input_length is true; want a whole number of tokens",
        't.jsonl:6: "5" is not a JSON object',
        't.jsonl:7: "{"timestamp": 0," is not a JSON object',
    ]


cells = st.sampled_from(
    ["0", "1", "7", "", "nan", "-1", "1e99", "2023-11-16 18:15:46", "2023-11-16T18:15:47Z", '"', "x"]
)


@given(
    st.sampled_from([AZURE, "time_s,input_tokens,output_tokens\n", "Timestamp,Request tokens,Response tokens\n"]),
    st.lists(st.lists(cells, max_size=4).map(",".join), max_size=5).map("\n".join),
)
def test_only_input_errors_escape(tmp_path_factory: pytest.TempPathFactory, header: str, body: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_text(header + body)
    try:
        trace = load_trace(path)
    except InputError as error:
        assert error.faults
    else:
        assert trace.arrivals is not None
        assert trace.arrivals.duration_s > 0
        assert np.isfinite(trace.arrivals.time_s).all()
