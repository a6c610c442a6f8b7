"""Agent sessions: one JSON file a session, its turns with block ids, and sub-agents nested in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.errors import Fault, InputError
from planner.files.traces.formats import SESSION, seconds, tokens
from planner.files.traces.rows import Gatherer, Rows
from planner.units import shown


def is_session(document: dict[str, Any]) -> bool:
    return isinstance(document.get("requests"), list)


def read_session(document: dict[str, Any], path: str, sha256: str) -> Rows:
    """Turns of a session and its sub-agents; times from its start, ids of this file only unless it says otherwise.

    Raises
    ------
    InputError
        With every turn that cannot be read, by its place in the document, up to ten.
    """
    block_tokens = document.get("block_size")
    if block_tokens is not None and (type(block_tokens) is not int or block_tokens < 1):
        raise InputError([Fault(f"block_size is {shown(block_tokens)}; want a whole number of tokens", path)])
    rows = Gatherer(SESSION, path, has_ids=True)
    for place, turn, start_s in _turns(document["requests"], "requests", 0.0):
        wrong = _wrong(turn)
        if wrong:
            rows.fault(0, f"{place}{wrong}")
        else:
            rows.add(0, (start_s + turn["t"], turn["in"], turn["out"]), turn["hash_ids"])
    return rows.done(sha256, block_tokens, local_ids=document.get("hash_id_scope", "local") == "local")


def _turns(turns: list[Any], place: str, start_s: float) -> Iterator[tuple[str, Any, float]]:
    """Every request with its place in the document and when its clock starts; those of sub-agents in their stead."""
    for index, turn in enumerate(turns):
        here = f"{place}[{index}]"
        if isinstance(turn, dict) and isinstance(turn.get("requests"), list) and not _wrong_time(turn):
            yield from _turns(turn["requests"], f"{here}.requests", start_s + turn["t"])
        else:
            yield here, turn, start_s


def _wrong(turn: Any) -> str:
    """What is wrong with a turn; empty when nothing is."""
    if not isinstance(turn, dict):
        return f" is {shown(turn)}; want a request with t, in and out"
    if _wrong_time(turn):
        return f".t is {shown(turn.get('t'))}; want a finite number"
    for name in (SESSION.input, SESSION.output):
        try:
            tokens(turn.get(name))
        except (ValueError, TypeError, OverflowError):
            return f".{name} is {shown(turn.get(name))}; want a whole number of tokens"
    ids = turn.get(SESSION.ids)
    if not isinstance(ids, list) or not all(type(block) is int for block in ids):
        return f".{SESSION.ids} is {shown(ids)}; want a list of whole numbers"
    return ""


def _wrong_time(turn: dict[str, Any]) -> bool:
    if not isinstance(turn.get("t"), int | float):
        return True
    try:
        seconds(turn["t"])
    except (ValueError, OverflowError):
        return True
    return False
