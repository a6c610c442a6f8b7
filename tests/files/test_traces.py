"""Traces: every public format, what is repaired and said, and every way a file can be unusable."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.traces import Trace, load_trace, load_traces, rate_per_s, rescaled, spread_ties

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


# ------------------------------------------------------------------------------------------- blocks, sessions, rates


def mooncake(*rows: tuple[int, int, list[int]]) -> str:
    return "".join(
        json.dumps({"timestamp": time, "input_length": tokens, "output_length": 5, "hash_ids": ids}) + "\n"
        for time, tokens, ids in rows
    )


def session(*turns: dict[str, object], **keys: object) -> str:
    return json.dumps({"block_size": 10, "hash_id_scope": "local", "requests": list(turns), **keys})


def turn(time: float, tokens: int, ids: list[int]) -> dict[str, object]:
    return {"t": time, "in": tokens, "out": 7, "hash_ids": ids}


def test_blocks_follow_their_requests_into_time_order(tmp_path: Path) -> None:
    rows = mooncake((0, 600, [1, 2]), (9000, 500, [1]), (4000, 1100, [1, 2, 3]))
    trace = read(tmp_path, rows, "t.jsonl")
    assert trace.blocks is not None
    assert trace.blocks.ids.tolist() == [1, 2, 1, 2, 3, 1]
    assert trace.blocks.offsets.tolist() == [0, 2, 5, 6]
    assert trace.blocks.block_tokens == 512
    assert "sorted by time" in texts(trace)
    assert "no hashes of prefixes" not in texts(trace)


def test_failed_requests_take_their_blocks_along(tmp_path: Path) -> None:
    text = mooncake((0, 600, [1, 2]), (1, 600, [3, 4]), (2, 5, [5])).replace('5, "hash_ids": [3', '0, "hash_ids": [3')
    trace = read(tmp_path, text, "t.jsonl")
    assert trace.blocks is not None
    assert trace.blocks.ids.tolist() == [1, 2, 5]


def test_a_block_size_that_lengths_show_is_inferred(tmp_path: Path) -> None:
    trace = read(tmp_path, mooncake((0, 40, [1, 2, 3]), (1, 33, [1, 2, 4])), "t.jsonl")
    assert trace.blocks is not None
    assert trace.blocks.block_tokens == 16
    assert "blocks of 16 tokens, inferred from prompt lengths" in texts(trace)


def test_a_block_size_that_contradicts_lengths_is_a_fault(tmp_path: Path) -> None:
    rows = mooncake((0, 600, [1, 2]), (1, 9000, [1, 3]), (2, 5, []))
    assert faults(tmp_path, rows, "t.jsonl") == [
        "t.jsonl:2: 2 block ids for 9,000 tokens contradict blocks of 512 tokens, as in Mooncake's traces; say another "
        "with --block-tokens"
    ]
    (tmp_path / "t.jsonl").write_text(mooncake((0, 600, [1, 2]), (1, 700, [1, 3])))
    with pytest.raises(InputError, match=r"t.jsonl:1: 2 block ids for 600 tokens contradict blocks of 64 tokens"):
        load_traces([tmp_path / "t.jsonl"], given_block_tokens=64)


def test_ids_that_are_no_prefix_hashes_are_said(tmp_path: Path) -> None:
    trace = read(tmp_path, mooncake((0, 600, [1, 2]), (1, 600, [3, 2]), (2, 600, [2, 1])), "t.jsonl")
    assert "2 of 3 block ids follow different blocks in different prompts" in texts(trace)


def test_segments_of_unequal_length_have_no_block_size() -> None:
    trace = load_trace(DATA / "ragpulse_head.jsonl")
    assert trace.blocks is not None
    assert trace.blocks.block_tokens is None
    # system prompt, passages, history, web search, user input: one after another
    assert trace.blocks.ids[:11].tolist() == [8302, 14332, 15199, 7398, 7370, 7098, 6967, 7405, 7298, 15200, 26923]
    assert "block ids have no fixed size" in texts(trace)


def test_sessions_have_their_own_ids_and_clocks(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(session(turn(0, 25, [1, 2]), turn(5, 31, [1, 2, 3])))
    (tmp_path / "a.json").write_text(session(turn(0, 20, [1, 2]), turn(70, 20, [1, 2])))
    trace = load_traces([tmp_path], stagger_s=60)
    assert trace.arrivals is not None
    assert trace.blocks is not None
    assert trace.arrivals.time_s.tolist() == [0, 60, 65, 70]
    assert trace.blocks.ids.tolist() == [0, 1, 2, 3, 2, 3, 4, 0, 1]
    assert trace.blocks.block_tokens == 10
    assert "2 sessions that start 60.0 s apart" in texts(trace)


def test_sub_agents_start_on_their_parents_clock_and_share_its_ids(tmp_path: Path) -> None:
    child = {"t": 10.5, "type": "subagent", "requests": [turn(0, 10, [1]), turn(2, 20, [1, 9])]}
    path = tmp_path / "s.json"
    path.write_text(session(turn(0, 10, [1]), child, turn(11, 20, [1, 2])))
    trace = load_trace(path)
    assert trace.arrivals is not None
    assert trace.blocks is not None
    assert trace.arrivals.time_s.tolist() == [0, 10.5, 11, 12.5]
    assert trace.blocks.ids.tolist() == [0, 0, 0, 1, 0, 2]


def test_sessions_may_be_spread_over_lines(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(json.loads(session(turn(0, 10, [1]), turn(1, 10, [1]))), indent=1))
    assert load_trace(tmp_path / "s.json").input_tokens.tolist() == [10, 10]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (session(turn(0, 10, [1]), turn(1, 99, [1])), "s.json: 1 block ids for 99 tokens contradict blocks of 10"),
        (session({"t": 0}), "s.json: requests[0].in is nothing; want a whole number of tokens"),
        (session(turn(0, 10, [1]), 5), "s.json: requests[1] is 5; want a request"),  # type: ignore[arg-type]
        (
            session({"t": 1, "requests": [turn(0, 10, "x")]}),  # type: ignore[arg-type]
            's.json: requests[0].requests[0].hash_ids is "x"; want a list of whole numbers',
        ),
        (session({"t": "soon", "requests": []}), 's.json: requests[0].t is "soon"; want a finite number'),
        (session(block_size=0), "s.json: block_size is 0; want a whole number of tokens"),
        (session(), "s.json: holds no requests"),
        (session(turn(0, 1, [1])) + "\n" + session(), "s.json:2: follows a session; want one session a file"),
    ],
)
def test_unusable_sessions(tmp_path: Path, text: str, message: str) -> None:
    assert message in faults(tmp_path, text, "s.json")[0]


def test_rounds_with_the_providers_own_cache() -> None:
    trace = load_trace(DATA / "tracelab_rounds_sample.jsonl")
    assert trace.arrivals is not None
    assert trace.cached_tokens is not None
    assert trace.blocks is None
    # the Codex session is of March, the Claude one of June; sorted by time
    assert trace.input_tokens[[0, 9]].tolist() == [9324, 32272]
    assert trace.cached_tokens[[0, 9]].tolist() == [6912, 27217]
    assert trace.arrivals.time_s[1] == pytest.approx(6.219, abs=1e-6)  # 10:05:59.328 to 10:06:05.547
    assert "1 rows stand before an earlier one" in texts(trace)


def test_clients_given_as_rates_and_laws() -> None:
    path = DATA / "reason_deepseek-r1_chunk-52-trace.csv"
    trace, again = load_trace(path), load_trace(path)
    assert trace.arrivals is not None
    assert again.arrivals is not None
    assert trace.arrivals.time_s.tolist() == again.arrivals.time_s.tolist()
    assert "are drawn from them with seed 0" in texts(trace)


def test_drawn_requests_keep_rate_spread_and_lengths(tmp_path: Path) -> None:
    law = {"0": {"input_tokens": "{100: 0.25, 200: 0.75}", "output_tokens": "{10: 1.0}"}}
    law["6000"] = {"input_tokens": "{}", "output_tokens": "{20: 1.0}"}
    (tmp_path / "c-dataset.json").write_text(json.dumps(law))
    # Weibull of shape 2 has an SCV of 4/pi - 1 = 0.273
    windows = [f"{start},5.0,0.52,Weibull,2.0,0" for start in range(0, 12_000, 600)]
    trace = read(tmp_path, "\n".join(windows), "c-trace.csv")
    assert trace.arrivals is not None
    assert trace.input_tokens.size == pytest.approx(12_000 * 5, rel=0.01)
    gaps = np.diff(trace.arrivals.time_s)
    assert np.var(gaps) / np.mean(gaps) ** 2 == pytest.approx(0.273, rel=0.05)
    assert trace.input_tokens.mean() == pytest.approx(175, rel=0.01)
    assert (trace.output_tokens == np.where(trace.arrivals.time_s < 6000, 10, 20)).mean() > 0.999


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ("0,0,0,,0,0\n600,0,0,,0,0\n", "holds no requests: its rates are 0 throughout"),
        ("0,1,1,Pareto,2,0\n", "c-trace.csv:1: Pareto of shape 2 is no law of gaps; want Gamma or Weibull"),
        ("0,1,1,Gamma,1,0\n600,x\n", 'c-trace.csv:2: "600,x" is no window'),
        ("600,1,1,Gamma,1,0\n0,1,1,Gamma,1,0\n", "c-trace.csv:2: window 0 does not start after the one before"),
    ],
)
def test_unusable_clients(tmp_path: Path, windows: str, message: str) -> None:
    (tmp_path / "c-dataset.json").write_text('{"0": {"input_tokens": "{1: 1.0}", "output_tokens": "{1: 1.0}"}}')
    assert message in faults(tmp_path, windows, "c-trace.csv")[0]


def test_clients_need_their_lengths(tmp_path: Path) -> None:
    assert (
        "NAME-dataset.json beside NAME-trace.csv: not found" in faults(tmp_path, "0,1,1,Gamma,1,0\n", "c-trace.csv")[0]
    )
    (tmp_path / "c-dataset.json").write_text('{"0": {"input_tokens": "{", "output_tokens": "{}"}}')
    assert "c-dataset.json: is not {window start" in faults(tmp_path, "0,1,1,Gamma,1,0\n", "c-trace.csv")[0]


def test_several_files_are_one_trace(tmp_path: Path) -> None:
    for name, rows in (("a.csv", "0,5,1\n9,6,1\n"), ("b.csv", "4,7,1\n12,8,1\n")):
        (tmp_path / name).write_text("time_s,input_tokens,output_tokens\n" + rows)
    trace = load_traces([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert trace.input_tokens.tolist() == [5, 7, 6, 8]
    assert "sorted by time" not in texts(trace)
    (tmp_path / "b.csv").write_text(AZURE + "2023-11-16 18:15:46,5,3\n")
    with pytest.raises(InputError, match=r"b.csv: has the format Azure, .*a.csv plain; give files of one format"):
        load_traces([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_options_that_have_nothing_to_act_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Vidur has a clock of its own"):
        load_traces([DATA / "vidur_head.csv"], stagger_s=5)
    with pytest.raises(InputError, match="has no block ids"):
        load_traces([DATA / "vidur_head.csv"], given_block_tokens=5)


def test_a_fault_in_a_later_piece_keeps_its_line(tmp_path: Path) -> None:
    rows = ["time_s,input_tokens,output_tokens", *(f"{line},5,5" for line in range(200_000))]
    rows[150_001] = "150000,5,five"
    assert faults(tmp_path, "\n".join(rows)) == ['t.csv:150002: output_tokens is "five"; want a whole number of tokens']
    rows[150_001] = "150000,5,\xff"
    found = faults(tmp_path, "\n".join(rows).encode("latin-1"))
    assert found == ["t.csv:150002:10: is not UTF-8 text: byte 0xff cannot be read; save the file as UTF-8"]


def test_empty_id_lists_are_no_blocks(tmp_path: Path) -> None:
    assert read(tmp_path, mooncake((0, 600, []), (1, 700, [])), "t.jsonl").blocks is None


def test_columns_that_are_not_read_are_named_and_none_stands_twice(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time_s,input_tokens,user,output_tokens\n0,5,a,3\n1,4,b,3,,\n")
    assert any(note.text == "trace columns not read: user" for note in load_trace(path).notes)
    for text, message in (
        ("time_s,input_tokens,input_tokens,output_tokens\n0,5,4,3\n", 't.csv:1: column "input_tokens" stands twice'),
        ("time_s,input_tokens,output_tokens\n0,5,3\n1,4,3,9\n", "t.csv:3: has 4 columns; want 3"),
        ("time_s,input_tokens,user,output_tokens\n0,5,3\n", "t.csv:2: has 3 columns; want 4"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            load_trace(path)
