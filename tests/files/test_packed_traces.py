"""Traces as users keep them: packed, with Windows line ends, in another order of columns; read many lines at a time."""

from __future__ import annotations

import csv
import gzip
import io
import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from real_traces import DATA

from planner.errors import InputError
from planner.files.lengths import from_rows
from planner.files.traces import Trace, load_trace, load_traces

CSV = ("azure_2023_head.csv", "burstgpt_v2_sample.csv", "vidur_head.csv", "sharegpt_lengths_head.csv")
JSON = ("mooncake_head.jsonl", "ragpulse_head.jsonl", "tracelab_rounds_sample.jsonl")
ROW = '{"timestamp": %d, "input_length": 600, "output_length": 3, "hash_ids": [1, %d]}'


def same(one: Trace, other: Trace) -> None:
    assert one.format == other.format
    assert np.array_equal(one.input_tokens, other.input_tokens)
    assert np.array_equal(one.output_tokens, other.output_tokens)
    if one.arrivals is not None and other.arrivals is not None:
        assert np.allclose(one.arrivals.time_s, other.arrivals.time_s)
    if one.blocks is not None:
        assert other.blocks is not None and np.array_equal(one.blocks.ids, other.blocks.ids)


def read(tmp_path: Path, content: bytes, name: str = "t") -> Trace:
    (tmp_path / name).write_bytes(content)
    return load_trace(tmp_path / name)


@pytest.mark.parametrize("name", [*CSV, *JSON])
def test_line_ends_packing_and_marks_change_nothing(tmp_path: Path, name: str) -> None:
    content = (DATA / name).read_bytes()
    plain = load_trace(DATA / name)
    half = content.index(b"\n", len(content) // 2) + 1
    packed = gzip.compress(content[:half]) + gzip.compress(content[half:])  # two members, as appended logs have
    for variant in (content.replace(b"\n", b"\r\n"), content.rstrip(), b"\xef\xbb\xbf" + content, packed):
        same(plain, read(tmp_path, variant))
    assert read(tmp_path, packed).sha256 == sha256(packed).hexdigest()


@pytest.mark.parametrize("name", CSV)
def test_columns_in_another_order_with_others_between(tmp_path: Path, name: str) -> None:
    rows = list(csv.reader(io.StringIO((DATA / name).read_text())))
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([[*reversed(row), "region"] for row in rows if row])
    same(load_trace(DATA / name), read(tmp_path, text.getvalue().encode()))


@pytest.mark.parametrize("name", JSON)
def test_keys_in_another_order_with_others_between(tmp_path: Path, name: str) -> None:
    rows = [json.loads(line) for line in (DATA / name).read_text().splitlines()]
    lines = [json.dumps({"region": [1], **dict(reversed(row.items()))}) for row in rows]
    same(load_trace(DATA / name), read(tmp_path, "\n".join(lines).encode()))


def test_segments_with_times_as_numbers(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (DATA / "ragpulse_head.jsonl").read_text().splitlines()]
    lines = [json.dumps(row | {"timestamp": float(row["timestamp"])}) for row in rows]
    same(load_trace(DATA / "ragpulse_head.jsonl"), read(tmp_path, "\n".join(lines).encode()))


def test_packed_sessions_in_a_folder(tmp_path: Path) -> None:
    session = json.dumps(
        {"block_size": 64, "requests": [{"t": t, "in": 64, "out": 5, "hash_ids": [1]} for t in (0, 9)]}
    )
    for name, content in (("a.json", session.encode()), ("b.json.gz", gzip.compress(session.encode()))):
        (tmp_path / name).write_bytes(content)
    assert load_traces([tmp_path]).input_tokens.size == 4


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: data[:40] + b"xxxx" + data[44:]])
def test_damaged_packing_is_named(tmp_path: Path, damage: object) -> None:
    packed = gzip.compress(
        b"time_s,input_tokens,output_tokens\n" + b"".join(b"%d,%d,7\n" % (n, n % 97) for n in range(999))
    )
    with pytest.raises(InputError, match="is damaged gzip"):
        read(tmp_path, damage(packed))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ("5", r't:5001: "5" is not a JSON object'),
        (ROW % (1, 2) + "," + ROW % (1, 2), "t:5001: .* is not a JSON object"),
        (ROW.replace("600", "-1") % (1, 2), "t:5001: input_length is -1"),
        (ROW.replace("%d]", "2.5]") % 1, "t:5001: hash_ids is a list; want a list of whole numbers"),
        ('{"timestamp": 1, "output_length": 3, "hash_ids": []}', "t:5001: input_length is nothing"),
    ],
)
def test_one_odd_line_among_thousands_is_named(tmp_path: Path, odd: str, message: str) -> None:
    lines = [ROW % (n, n) for n in range(9000)]
    lines[5000] = odd
    with pytest.raises(InputError, match=message) as refusal:
        read(tmp_path, "\n".join(lines).encode())
    assert len(refusal.value.faults) == 1


def test_many_lines_at_once_are_the_lines_one_by_one(tmp_path: Path) -> None:
    """The same rows, ids and order; blank lines between."""
    lines = [(ROW % (n, n)) + "\n" * (n % 3) for n in range(9000)]
    trace = read(tmp_path, "\n".join(lines).encode())
    assert trace.blocks is not None and trace.input_tokens.size == 9000
    assert trace.blocks.ids[1::2].tolist() == list(range(9000))


def test_a_size_that_contradicts_most_rows_is_one_fault(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("\n".join(ROW % (n, n) for n in range(50)))
    with pytest.raises(InputError) as refusal:
        load_traces([tmp_path / "t"], given_block_tokens=10**9)
    assert [fault.message for fault in refusal.value.faults] == [
        "2 block ids for 600 tokens contradict blocks of 1,000,000,000 tokens",
        "and 49 more rows contradict it",
    ]


@pytest.mark.parametrize("longest", [700.0, 9e8])
def test_pairs_of_lengths_are_counted_alike_at_any_size(longest: float) -> None:
    law = from_rows(np.array([5.0, 700.0, 5.0, longest]), np.array([3.0, 9e8, 3.0, longest]))
    found = dict(zip(zip(law.input_tokens, law.output_tokens, strict=True), law.weights, strict=True))
    assert found == {(5.0, 3.0): 0.5, (700.0, 9e8): 0.25, (longest, longest): 0.25}
