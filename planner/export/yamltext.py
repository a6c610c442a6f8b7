"""Plain values as YAML text with a comment behind any of them. Text that could be read as anything else is quoted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Text that YAML 1.1 and 1.2 both read as itself: no digit, sign or dot first, no indicator inside, no word of truth.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})


@dataclass(frozen=True, slots=True)
class Commented:
    """A value with a comment at the end of its line."""

    value: Any
    comment: str


@dataclass(frozen=True, slots=True)
class Block:
    """Text of several lines, kept as it is."""

    text: str


def to_yaml(value: Mapping[str, Any], header: Sequence[str] = ()) -> str:
    """A mapping as block style YAML, under comment lines."""
    return "".join(f"{line}\n" for line in (*(f"# {line}".rstrip() for line in header), *_mapping(value, 0)))


def scalar(value: Any) -> str:
    """A scalar as YAML reads it back."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else json.dumps(value, ensure_ascii=True)
    return json.dumps(value)


def _mapping(value: Mapping[str, Any], depth: int) -> Iterator[str]:
    for key, item in value.items():
        yield from _entry(f"{'  ' * depth}{scalar(key)}:", item, depth + 1)


def _entry(start: str, item: Any, depth: int) -> Iterator[str]:
    """`start` and the value behind it: on the same line, or below."""
    comment = ""
    if isinstance(item, Commented):
        item, comment = item.value, f"  # {item.comment}"
    if isinstance(item, Block):
        yield f"{start} |{comment}"
        yield from (f"{'  ' * depth}{line}".rstrip() for line in item.text.splitlines())
    elif isinstance(item, Mapping) and item:
        yield start + comment
        yield from _mapping(item, depth)
    elif isinstance(item, list | tuple) and item:
        yield start + comment
        for element in item:
            yield from _element(element, depth)
    else:
        empty = "{}" if isinstance(item, Mapping) else "[]" if isinstance(item, list | tuple) else scalar(item)
        yield f"{start} {empty}{comment}"


def _element(element: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(element, Mapping) and element:
        lines = list(_mapping(element, depth + 1))
        yield f"{indent}- {lines[0].lstrip()}"
        yield from lines[1:]
    else:
        yield from _entry(f"{indent}-", element, depth + 1)
