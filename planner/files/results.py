"""A saved result, JSON, back to the document that was written: one result, or many under one gate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from planner.errors import Fault, InputError
from planner.files.reading import decode, read_bytes

Document = dict[str, Any]

MOST_BYTES = 500_000_000
SCHEMA_VERSION = 1  # that is read; `planner.review.document` writes it
REDO = "write it again with `planner size SCENARIO --format json` or `planner check SCENARIO --format json`"
_RESULT = {
    "inputs": dict, "verdict": str, "limits": list, "kv": dict, "usd_per_mtok": dict, "energy": dict, "search": dict,
    "memory_per_accelerator": dict, "alternatives": list, "notes": list,
}  # fmt: skip
_RESULT_OR_NULL = ("plan", "prediction")  # null where no candidate holds the model
_GATE = {"results": list, "broken": list, "summary": dict, "verdict": str}


def load_result(path: Path) -> Document:
    """Read a result that `--format json` wrote.

    Raises InputError: no file, not JSON (with line and column), no result of this program, or of another
    `schema_version`; says how to write it anew.
    """
    text = decode(read_bytes(path, MOST_BYTES), str(path))
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError([Fault(f"is not JSON: {error.msg}", str(path), error.lineno, error.colno)]) from None
    except (ValueError, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError([Fault(f"is no result: {reason}", str(path))]) from None
    _check(found, str(path))
    return dict(found)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _check(found: Any, path: str) -> None:
    if not isinstance(found, dict) or "schema_version" not in found or not _is_ours(found):
        raise InputError([Fault(f"is no result of planner; {REDO}", path)])
    version = found["schema_version"]
    if version != SCHEMA_VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        how = "use the release that wrote it, or" if newer else "it is older:"
        raise InputError(
            [Fault(f"has schema_version {version}, this release reads {SCHEMA_VERSION}; {how} {REDO}", path)]
        )
    if "results" in found:
        _check_parts(found, _GATE, path)
        for one in found["results"]:
            if not isinstance(one, dict):
                raise _damaged("results", path)
            _check_result(one, path)
    elif "plan" in found and "limits" in found:
        _check_result(found, path)
    else:
        raise InputError([Fault(f"is a document of planner, but no result to render or compare; {REDO}", path)])


def _is_ours(found: Mapping[str, Any]) -> bool:
    tool = found.get("tool")
    return isinstance(tool, dict) and tool.get("name") == "planner"


def _check_result(found: Mapping[str, Any], path: str) -> None:
    if not isinstance(found.get("checks", []), list):  # results of older releases have none
        raise _damaged("checks", path)
    _check_parts(found, _RESULT, path)
    for name in _RESULT_OR_NULL:
        if not isinstance(found.get(name), dict | None):
            raise _damaged(name, path)


def _check_parts(found: Mapping[str, Any], parts: Mapping[str, type], path: str) -> None:
    for name, kind in parts.items():
        if not isinstance(found.get(name), kind):
            raise _damaged(name, path)


def _damaged(name: str, path: str) -> InputError:
    return InputError([Fault(f"is no whole result: {name} is missing or damaged; {REDO}", path)])


@contextmanager
def believed_whole(*paths: Path) -> Iterator[None]:
    """Within it, a part that a saved result lacks or holds in another shape is a fault of the files at `paths`.

    A file may say anything inside, and only its outer parts are checked when it is read.

    Raises InputError: the parts were not what a result has.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, StopIteration) as error:
        told = f"is no whole result: {type(error).__name__}: {str(error)[:60]}; {REDO}"
        raise InputError([Fault(told, " or ".join(map(str, paths)))]) from error


def results_of(document: Document) -> list[Document]:
    """The results that a saved file holds."""
    return list(document["results"]) if "results" in document else [document]


def load_one(path: Path) -> Document:
    """As `load_result`, of a file that must hold a single result."""
    return only_one(results_of(load_result(path)), path)


def only_one(results: Sequence[Document], path: Path) -> Document:
    """The single one of several results. InputError where a file holds none or many."""
    if len(results) != 1:
        raise InputError([Fault(f"holds {len(results)} results; want a file with one", str(path))])
    return results[0]


def result_of(document: Document, path: str, name: str) -> Document | None:
    """The result of one scenario: the same file, else the same name where only one has it.

    A file with a single result is taken whatever it is called, as a scenario may have been renamed since.
    """
    results = results_of(document)
    if "results" not in document:
        return results[0]
    same = [one for one in results if _file_of(one) == PurePath(path).as_posix()]
    named = [one for one in results if one["inputs"].get("scenario") == name]
    found = same or named
    return found[0] if len(found) == 1 else None


def _file_of(result: Mapping[str, Any]) -> str:
    files = result["inputs"].get("files") or [{}]
    return PurePath(str(files[0].get("path", ""))).as_posix() if isinstance(files[0], dict) else ""
