"""A YAML file as plain Python values that remember their line and column.

The C parser of PyYAML reads the text; values are built here, because PyYAML's own builder reads ``1e12`` as text,
``no`` as false and ``017`` as 15, keeps the last of two equal keys silently, and follows aliases without a bound.
Decimal numbers follow YAML 1.2; keys are always text. Nothing recurses, so no file can exhaust the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from planner.errors import Fault, InputError
from planner.files.reading import decode, read_bytes, sha256

MOST_BYTES = 10_000_000
MOST_DEPTH = 40
MOST_ALIASED_VALUES = 100_000  # values of a file once its aliases are written out
_MOST_FAULTS = 20

FieldPath = tuple[str | int, ...]
Mark = tuple[int, int]

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STARTS_NUMBER = re.compile(r"[-+.0-9]")
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")


@dataclass(slots=True)
class _Node:
    """A value with its place; `children` holds, per key or index, the place of the key and the node below it."""

    value: Any
    mark: Mark
    children: dict[str | int, tuple[Mark, _Node]] = field(default_factory=dict)
    size: int = 1  # values below and including it, aliases written out
    open: bool = True


@dataclass(frozen=True, slots=True)
class Document:
    """A read YAML file: `value` in plain Python (dict, list, str, int, float, bool, None)."""

    value: Any
    path: str
    sha256: str
    _root: _Node
    faults: tuple[Fault, ...] = ()  # of single values, when the caller asked for them
    bad: frozenset[Mark] = frozenset()  # places of the values among those; each reads as None

    def is_bad(self, field_path: FieldPath) -> bool:
        """Whether the value at `field_path` is at fault already."""
        node = self._root
        for part in field_path:
            if part not in node.children:
                return False
            node = node.children[part][1]
        return node.mark in self.bad

    def mark(self, field_path: FieldPath = ()) -> Mark:
        """Line and column, from 1, of the key at `field_path`, else of the nearest parent that stands in the file."""
        node, mark = self._root, self._root.mark
        for part in field_path:
            found = node.children.get(part)
            if found is None:
                break
            mark, node = found
        return mark

    def fault(self, field_path: FieldPath, message: str) -> Fault:
        """`message` at the place of `field_path`, which it names when it is not the whole file."""
        line, column = self.mark(field_path)
        name = dotted(field_path)
        return Fault(f"{name}: {message}" if name else message, self.path, line, column)


def dotted(field_path: FieldPath) -> str:
    """``("hardware", "accelerators", 1)`` as ``hardware.accelerators[1]``."""
    text = ""
    for part in field_path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def load(path: Path, *, keep_faults: bool = False) -> Document:
    """Read the YAML file at `path`.

    With `keep_faults`, values that cannot be read and keys that stand twice do not end the reading: they are in
    `Document.faults`, for a reader that reports them together with its own.

    Raises InputError: missing, a folder, unreadable, over 10 MB, binary, not UTF-8, not YAML, empty, more than one
    document, nested deeper than 40, duplicate keys, numbers that are not finite or have a leading zero, tags, aliases
    that expand to more than 100,000 values or contain themselves. Each fault has a line and a column.
    """
    return parse(read_bytes(path, MOST_BYTES), str(path), keep_faults=keep_faults)


def parse(data: bytes, path: str, *, keep_faults: bool = False) -> Document:
    """As `load`, from bytes already read; `path` is only named in faults."""
    text = decode(data, path)
    bad = _CONTROL.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        message = f"control character U+{ord(bad[0]):04X} is not allowed in YAML"
        raise InputError([Fault(message, path, line, column)])
    builder = _Builder(path)
    try:
        root = builder.build(_events(text))
    except yaml.MarkedYAMLError as error:
        raise InputError([*builder.faults, _syntax_fault(error, path, text)]) from None
    except yaml.YAMLError as error:
        raise InputError([Fault(f"is not YAML: {error}", path)]) from None
    if builder.faults and not keep_faults:
        raise InputError(builder.faults)
    if root is None or (root.value is None and not builder.bad):
        raise InputError([Fault("is empty", path, 1, 1)])
    return Document(root.value, path, sha256(data), root, tuple(builder.faults), frozenset(builder.bad))


def _events(text: str) -> Iterator[Any]:
    parser = _PARSER(text)
    try:
        while parser.check_event():
            yield parser.get_event()
    finally:
        parser.dispose()


def _syntax_fault(error: yaml.MarkedYAMLError, path: str, text: str) -> Fault:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or "cannot be read"
    context = f" ({error.context})" if error.context else ""
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    rows = text.splitlines()[line - 1 : line]
    tab = bool(rows) and rows[0][column - 1 : column] == "\t" and "tab" not in problem
    hint = "; a tab cannot indent, write spaces" if tab else ""
    return Fault(f"is not YAML: {problem}{context}{hint}", path, line, column)


class _Builder:
    """Nodes from parser events. `faults` collects what is wrong; the first syntax fault ends the reading."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self.anchors: dict[str, _Node] = {}
        self.aliased = False
        self.stack: list[_Node] = []
        self.keys: list[tuple[str, Mark] | None] = []  # per open mapping, the key that waits for its value
        self.root: _Node | None = None
        self.bad: set[Mark] = set()

    def build(self, events: Iterator[Any]) -> _Node | None:
        documents = 0
        for event in events:
            mark = (event.start_mark.line + 1, event.start_mark.column + 1)
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event, mark)
            elif isinstance(event, yaml.MappingStartEvent):
                self._open(event, {}, mark)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._open(event, [], mark)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close()
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event, mark)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._stop(mark, 'holds a second document after "---"; want one')
            if len(self.faults) >= _MOST_FAULTS:
                raise self._stop(mark, f"and perhaps more: the reading stopped after {_MOST_FAULTS} faults")
        return self.root

    def _fault(self, mark: Mark, message: str) -> None:
        self.faults.append(Fault(message, self.path, *mark))

    def _bad(self, mark: Mark, message: str) -> None:
        """A fault of a value, which then reads as None."""
        self._fault(mark, message)
        self.bad.add(mark)

    def _stop(self, mark: Mark, message: str) -> InputError:
        return InputError([*self.faults, Fault(message, self.path, *mark)])

    def _scalar(self, event: Any, mark: Mark) -> None:
        if self.stack and isinstance(self.stack[-1].value, dict) and self.keys[-1] is None:
            self._key(event.value, mark)
            self._anchor(event, _Node(event.value, mark, open=False))
            return
        plain = event.implicit[0] and event.tag is None
        value = self._resolve(event.value, mark) if plain else event.value
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            self._bad(mark, f'tag "{event.tag}" is not allowed; write the value alone')
            value = None
        self._place(self._anchor(event, _Node(value, mark, open=False)))

    def _resolve(self, text: str, mark: Mark) -> Any:
        """A plain scalar by the core schema of YAML 1.2, without leading zeros and without infinities."""
        if text in _WORDS:
            return _WORDS[text]
        if not _STARTS_NUMBER.match(text):
            return text
        if _INTEGER.fullmatch(text):
            return self._integer(text, mark)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if abs(number) == float("inf"):
                self._bad(mark, f"{text[:30]} is too large to be a number")
                return None
            return number
        if _NOT_FINITE.fullmatch(text):
            self._bad(mark, f"{text} is not a finite number")
            return None
        return text

    def _integer(self, text: str, mark: Mark) -> int | None:
        digits = text.lstrip("+-")
        if digits[0] == "0" and len(digits) > 1:
            short, plain = text[:30], digits.lstrip("0")[:30] or "0"
            self._bad(mark, f'{short} has a leading zero; write {plain}, or "{short}" for text')
            return None
        if len(digits) > 18:
            self._bad(mark, f"{text[:30]} is too large for a whole number")
            return None
        return int(text)

    def _key(self, text: str, mark: Mark) -> None:
        if text == "<<":
            raise self._stop(mark, 'merge key "<<" is not followed; write the keys out')
        self.keys[-1] = (text, mark)
        first = self.stack[-1].children.get(text)
        if first:
            self._fault(mark, f'key "{text[:60]}" is already on line {first[0][0]}')

    def _open(self, event: Any, value: Any, mark: Mark) -> None:
        if len(self.stack) >= MOST_DEPTH:
            raise self._stop(mark, f"is nested deeper than {MOST_DEPTH} levels")
        if event.tag is not None:
            self._fault(mark, f'tag "{event.tag}" is not allowed; write the value alone')
        if self.stack and isinstance(self.stack[-1].value, dict) and self.keys[-1] is None:
            raise self._stop(mark, "a key must be text, not a mapping or a list")
        self.stack.append(self._anchor(event, _Node(value, mark)))
        self.keys.append(None)

    def _close(self) -> None:
        node = self.stack.pop()
        self.keys.pop()
        node.open = False
        self._place(node)

    def _alias(self, event: Any, mark: Mark) -> None:
        node = self.anchors.get(event.anchor)
        if node is None:
            raise self._stop(mark, f'alias "*{event.anchor}" has no anchor "&{event.anchor}" before it')
        if node.open:
            raise self._stop(mark, f'alias "*{event.anchor}" stands inside its own anchor')
        if self.stack and isinstance(self.stack[-1].value, dict) and self.keys[-1] is None:
            raise self._stop(mark, "a key must be text, not an alias")
        self.aliased = True
        self._place(node)

    def _anchor(self, event: Any, node: _Node) -> _Node:
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _place(self, node: _Node) -> None:
        """Put a finished node into the container that is open, or make it the root."""
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        parent.size += node.size
        if self.aliased and parent.size > MOST_ALIASED_VALUES:
            raise self._stop(parent.mark, f"aliases expand to more than {MOST_ALIASED_VALUES:,} values")
        if isinstance(parent.value, list):
            parent.children[len(parent.value)] = (node.mark, node)
            parent.value.append(node.value)
            return
        key, key_mark = self.keys[-1] or ("", node.mark)
        self.keys[-1] = None
        if key not in parent.children:
            parent.children[key] = (key_mark, node)
            parent.value[key] = node.value
