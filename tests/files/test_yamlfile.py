"""YAML as plain values with places, and every way a file can be unusable."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.files import yamlfile
from planner.files.yamlfile import load, parse


def faults(data: bytes) -> list[str]:
    with pytest.raises(InputError) as refusal:
        parse(data, "f.yaml")
    return [str(fault) for fault in refusal.value.faults]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e12", 1e12),
        ("3.35e12", 3.35e12),
        (".5", 0.5),
        ("-7", -7),
        ("true", True),
        ("null", None),
        ("~", None),
        ("no", "no"),
        ("on", "on"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ("12 /s", "12 /s"),
        ('"017"', "017"),
        ("!!str 12", "12"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    read = parse(f"a: {text}\nb: 1".encode(), "f.yaml").value["a"]
    assert read == value
    assert type(read) is type(value)


def test_keys_are_text() -> None:
    assert parse(b"1: a\ntrue: b\n2.5: c\n", "f").value == {"1": "a", "true": "b", "2.5": "c"}


def test_places() -> None:
    document = parse("# é\ntop:\n  list:\n    - x\n    - {k: v}\n  'é': {z: 1}\n".encode(), "f.yaml")
    assert document.mark() == (2, 1)
    assert document.mark(("top",)) == (2, 1)
    assert document.mark(("top", "list")) == (3, 3)
    assert document.mark(("top", "list", 1)) == (5, 7)
    assert document.mark(("top", "list", 1, "k")) == (5, 8)
    assert document.mark(("top", "é", "z")) == (6, 9)
    assert document.mark(("top", "absent", "deeper")) == (2, 1)  # the nearest parent
    assert str(document.fault(("top", "list", 1, "k"), "is odd")) == "f.yaml:5:8: top.list[1].k: is odd"


def test_aliases_are_followed() -> None:
    document = parse(b"a: &x {k: 1}\nb: *x\nc: [*x, *x]\n", "f.yaml")
    assert document.value == {"a": {"k": 1}, "b": {"k": 1}, "c": [{"k": 1}, {"k": 1}]}
    assert document.mark(("b",)) == (2, 1)
    assert document.mark(("b", "k")) == (1, 8)


def test_digest_is_of_the_bytes() -> None:

    assert parse(b"a: 1\n", "f").sha256 == hashlib.sha256(b"a: 1\n").hexdigest()


def test_byte_order_mark_is_dropped() -> None:
    assert parse(b"\xef\xbb\xbfa: 1", "f").value == {"a": 1}


BOMB = b"a0: &a0 [1,1]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (level, level, b",".join([b"*a%d" % (level - 1)] * 9)) for level in range(1, 10)
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: 1\nb:\n  c: 1\n  c: 2\n", 'f.yaml:4:3: key "c" is already on line 3'),
        (b"a: .nan", "f.yaml:1:4: .nan is not a finite number"),
        (b"a: -.inf", "f.yaml:1:4: -.inf is not a finite number"),
        (b"a: 1e999", "f.yaml:1:4: 1e999 is too large to be a number"),
        (b"a: " + b"9" * 5000, "is too large for a whole number"),
        (b"a: 017", 'f.yaml:1:4: 017 has a leading zero; write 17, or "017" for text'),
        (b"a: [1, 2\nb: 3", "f.yaml:2:2: is not YAML: did not find expected ',' or ']'"),
        (b"a: b: c", "f.yaml:1:5: is not YAML: mapping values are not allowed"),
        (b"\t- a", "f.yaml:1:1: is not YAML: found character that cannot start any token"),
        (b"a: *gone", 'f.yaml:1:4: alias "*gone" has no anchor "&gone" before it'),
        (b"a: &me [*me]", 'f.yaml:1:9: alias "*me" stands inside its own anchor'),
        (BOMB, "aliases expand to more than 100,000 values"),
        (b"a: " + b"[" * 60 + b"]" * 60, "f.yaml:1:43: is nested deeper than 40 levels"),
        (b"[" * 900, "is nested deeper than 40 levels"),
        (b"- " * 100_000, "is nested deeper than 40 levels"),
        (b"a: !!python/object/apply:os.system [ls]", "f.yaml:1:4: tag "),
        (b"a: !custom 3", 'f.yaml:1:4: tag "!custom" is not allowed'),
        (b"? [a, b]\n: 1", "f.yaml:1:3: a key must be text, not a mapping or a list"),
        (b"x: &k 1\n*k : 2", "f.yaml:2:1: a key must be text, not an alias"),
        (b"", "f.yaml:1:1: is empty"),
        (b"# only a comment\n", "is empty"),
        (b"a: 1\n---\nb: 2\n", 'f.yaml:2:1: holds a second document after "---"; want one'),
        (b"a: \x00", "f.yaml:1:4: is a binary file; want UTF-8 text"),
        (b"ok: 1\nbad: \xc3\x28", "f.yaml:2:6: is not UTF-8 text: byte 0xc3 cannot be read"),
        ("a: 1".encode("utf-16"), "f.yaml:1:1: is UTF-16 text; save it as UTF-8"),
        ("é: 1".encode("latin-1"), "f.yaml:1:1: is not UTF-8 text: byte 0xe9 cannot be read"),
        (b"a: 1\nb: \x07", "f.yaml:2:4: control character U+0007 is not allowed in YAML"),
    ],
)
def test_unusable_text(data: bytes, message: str) -> None:
    assert message in faults(data)[0]


def test_all_faults_at_once() -> None:
    assert faults(b"a: 1\na: 2\nb: .nan\nc: 017\n") == [
        'f.yaml:2:1: key "a" is already on line 1',
        "f.yaml:3:4: .nan is not a finite number",
        'f.yaml:4:4: 017 has a leading zero; write 17, or "017" for text',
    ]


def test_unusable_files(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "absent.yaml", "no such file"),
        (tmp_path, "is a folder; want a file"),
        (tmp_path / "file" / "below.yaml", "cannot be read: Not a directory"),
        (Path("nul\0name"), "is not a possible file name"),
        (tmp_path / ("long" * 200), "cannot be read: File name too long"),
    ):
        (tmp_path / "file").write_text("x")
        with pytest.raises(InputError) as refusal:
            load(path)
        assert message in str(refusal.value)


def test_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"#" * (yamlfile.MOST_BYTES + 1))
    with pytest.raises(InputError, match=r"big.yaml: is larger than 10 MB"):
        load(path)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        parse(data, "f.yaml")
    except InputError as error:
        assert error.faults


@given(st.text(alphabet="ab:-[]{}&*!|>'\"# \n\t0.1?,%@`~", max_size=80))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        document = parse(text.encode(), "f.yaml")
    except InputError as error:
        assert all(fault.line >= 1 for fault in error.faults)
    else:
        assert document.mark() >= (1, 1)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=10,
)


@given(json_values.filter(lambda value: value is not None))
def test_json_is_read_as_it_is(value: object) -> None:
    assert parse(json.dumps(value).encode(), "f.json").value == value
