"""The same rows in other shapes: separators, names of columns, an array instead of lines. All read as one trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files.traces import Trace, load_trace
from planner.files.traces.formats import KNOWN
from planner.files.traces.json_rows import Several, listed_ids, of_lines

PLAIN = "time_s,input_tokens,output_tokens\n0.25,5,3\n1.5,6,4\n3,7,5\n"
ROWS = [{"timestamp": 1000 * n, "input_length": 600, "output_length": 5 + n, "hash_ids": [1, 7 + n]} for n in range(4)]


def read(folder: Path, text: str, name: str = "t.txt") -> Trace:
    path = folder / name
    path.write_text(text)
    return load_trace(path)


def fault(folder: Path, text: str) -> str:
    with pytest.raises(InputError) as refusal:
        read(folder, text)
    return str(refusal.value.faults[0]).removeprefix(f"{folder}/")


def same(one: Trace, other: Trace) -> None:
    assert one.arrivals is not None and other.arrivals is not None
    assert one.arrivals.time_s.tolist() == other.arrivals.time_s.tolist()
    assert one.input_tokens.tolist() == other.input_tokens.tolist()
    assert one.output_tokens.tolist() == other.output_tokens.tolist()
    assert (one.blocks is None) == (other.blocks is None)
    if one.blocks is not None and other.blocks is not None:
        assert one.blocks.ids.tolist() == other.blocks.ids.tolist()
        assert one.blocks.offsets.tolist() == other.blocks.offsets.tolist()
    assert one.format == other.format


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", ";").replace(".", ","),  # as spreadsheets write where the comma is decimal
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", ";").replace(";5;", ';"5";'),
        PLAIN.replace("time_s,input_tokens,output_tokens", "Time S , INPUT_TOKENS,Output-Tokens"),
        PLAIN.replace("\n", "\r\n"),
    ],
)
def test_tables_in_other_spellings(tmp_path: Path, text: str) -> None:
    same(read(tmp_path, text), read(tmp_path, PLAIN))


def test_known_columns_in_another_spelling(tmp_path: Path) -> None:
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,5,3\n2023-11-16 18:15:47,5,3\n"
    other = azure.replace("TIMESTAMP,ContextTokens,GeneratedTokens", "Timestamp\tcontext_tokens\tgenerated tokens")
    same(read(tmp_path, other.replace(",", "\t")), read(tmp_path, azure))


def test_faults_of_other_separators_are_as_clear(tmp_path: Path) -> None:
    text = PLAIN.replace(",", ";")
    assert fault(tmp_path, text + "4;x;1\n") == 't.txt:5: input_tokens is "x"; want a whole number of tokens'
    assert fault(tmp_path, text + "4;1\n") == "t.txt:5: has 2 columns; want 3"
    assert fault(tmp_path, "when;how_much\n1;2\n").startswith(
        't.txt:1: no known trace has the columns "when, how_much"'
    )
    twice = "time_s,Time_S,input_tokens,output_tokens\n0,0,5,3\n"
    assert fault(tmp_path, twice) == 't.txt:1: column "Time_S" stands twice; keep one'


@pytest.mark.parametrize("indent", [None, 1, "\t"])
@pytest.mark.parametrize("upper", [False, True])
def test_an_array_is_read_as_lines_are(tmp_path: Path, indent: int | str | None, upper: bool) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    rows = [{key.upper().replace("_", " "): value for key, value in row.items()} for row in ROWS] if upper else ROWS
    for text in (json.dumps(rows, indent=indent), "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n"):
        same(read(tmp_path, text), read(tmp_path, lines))
    same(read(tmp_path, "".join(json.dumps(row) + "\n" for row in rows)), read(tmp_path, lines))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "t.txt:1: is not JSON lines; want one JSON object a line, or an array of them"),
        ("[1, 2]", "t.txt:1: is not JSON lines; want one JSON object a line, or an array of them"),
        ("[\n%s,\n5\n]", "t.txt:3: 5 is not a JSON object"),
        ("[\n%s,\n{broken}\n]", 't.txt:3: breaks off a JSON array with "broken}"; want a JSON object'),
        ("[\n%s\n%s\n]", 't.txt:3: breaks off a JSON array with "{"timestamp": 0, "input_length": 600, "'),
        ("[\n%s,\n", "t.txt:2: is a JSON array without an end; want a JSON object"),
        ("[\n%s", "t.txt:2: is a JSON array without an end; want a comma or ]"),
        ('[\n%s,\n{"timestamp": 1,\n"input_length"', "t.txt:"),
        ("[\n%s\n]\n\n{}", 't.txt:5: breaks off a JSON array with "{}"; want nothing after the array'),
        (
            '[\n%s,\n{"timestamp": 5, "input_length": "x", "output_length": 1, "hash_ids": []}\n]',
            "t.txt:3: input_length is ",
        ),
        (
            '[\n%s,\n{"timestamp": 5, "input_length": 5, "output_length": 1}\n]',
            "t.txt:3: hash_ids is nothing; want a list",
        ),
        ('[{"a": 1}]', 't.txt:1: no known trace has the keys "a"; known: '),
        ("[" * 50_000, "t.txt:1: breaks off a JSON array"),
    ],
)
def test_unusable_arrays(tmp_path: Path, text: str, message: str) -> None:
    assert message in fault(tmp_path, text.replace("%s", json.dumps(ROWS[0])))


def test_each_known_format_is_listed_once() -> None:
    known = KNOWN.split("; ")
    assert len(known) == len(set(known))
    assert sum(name.startswith("Mooncake") for name in known) == 1


# ------------------------------------------------------------------------------------------- ids, cut out of the text

odd = st.sampled_from(["[]", "[ ]", "[1, 2]", "[ 1,2 ]", "[-5]", "[1.5]", "[1,,2]", '["1"]', "[true]", "null", "[[1]]"])
large = st.integers(-(2**65), 2**65).map(lambda number: f"[3, {number}]")
names = st.sampled_from(["hash_ids", "x", 'hash_ids": [4], "hash_ids', "HASH_IDS"])


@given(st.lists(st.tuples(names, odd | large), min_size=1, max_size=4))
def test_ids_cut_out_of_the_text_are_those_that_json_reads(cells: list[tuple[str, str]]) -> None:
    texts = [f'{{"a": {{"b": [1]}}, "{name}": {cell}, "c": 1}}' for name, cell in cells]
    for found in of_lines(enumerate(texts, start=1), "hash_ids"):
        if isinstance(found, Several) and found.ids is not None:
            whole = [json.loads(text)["hash_ids"] for text in texts]
            expected = listed_ids(whole)
            assert expected is not None
            assert found.ids[0].tolist() == expected[0].tolist()
            assert found.ids[1] == expected[1]


@pytest.mark.parametrize("scale", [1, 2**40])
def test_ids_of_any_size(tmp_path: Path, scale: int) -> None:
    rows = "".join(json.dumps(row | {"hash_ids": [scale * n for n in row["hash_ids"]]}) + "\n" for row in ROWS)  # type: ignore[attr-defined]
    blocks = read(tmp_path, rows).blocks
    assert blocks is not None
    distinct, counts = np.unique(blocks.ids, return_counts=True)
    assert distinct.size == 5
    assert sorted(counts.tolist()) == [1, 1, 1, 1, 4]
