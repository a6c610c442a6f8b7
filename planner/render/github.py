"""A gate as annotations of GitHub Actions, worst first, as many as are shown, and a line for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from planner.render.checks import sentence, subject
from planner.render.gate import gate_line
from planner.review.checks import worst_first

Document = Mapping[str, Any]
Locate = Callable[[str], str]

MOST_PER_KIND = 10  # annotations of a kind that a step may show


def to_github(document: Document, locate: Locate = str) -> str:
    """Return one workflow command per line, then the verdict in plain words.

    Parameters
    ----------
    locate : callable
        From a path as it was given to one from the root of the repository.
    """
    kinds: dict[str, list[str]] = {"error": [], "warning": []}
    for kind, place, title, text in [*_faults(document), *_lines(document)]:
        kinds[kind].append(_command(kind, place, title, text, locate))
    shown = [command for commands in kinds.values() for command in commands[:MOST_PER_KIND]]
    rest = [
        f"{len(commands) - MOST_PER_KIND} more {kind}s"
        for kind, commands in kinds.items()
        if len(commands) > MOST_PER_KIND
    ]
    last = gate_line(document) + (f" ({', '.join(rest)} not annotated)" if rest else "")
    return "\n".join([*shown, _data(last)]) + "\n"


Place = tuple[str, int | None, int | None]


def _faults(document: Document) -> Iterator[tuple[str, Place, str, str]]:
    for broken in document["broken"]:
        for fault in broken["faults"]:
            place = (fault["path"] or broken["scenario"], fault["line"], fault["column"])
            yield "error", place, "scenario cannot be read", fault["text"]


def _lines(document: Document) -> Iterator[tuple[str, Place, str, str]]:
    files = {id(line): _path(result) for result in document["results"] for line in result["checks"]}
    every = [line for result in document["results"] for line in result["checks"]]
    for line in worst_first(every):
        if line["verdict"] != "pass":
            kind = "error" if line["verdict"] == "fail" or document["strict"] else "warning"
            place = (line["path"] or files[id(line)], line["line"], line["column"])
            yield kind, place, f"{line['verdict']}: {subject(line)}", sentence(line)


def _path(result: Document) -> str:
    files = result["inputs"]["files"]
    return str(files[0]["path"]) if files else ""


def _command(kind: str, place: Place, title: str, text: str, locate: Locate) -> str:
    path, line, column = place
    properties = {"file": locate(path) if path else None, "line": line, "col": column, "title": title}
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value)
    return f"::{kind} {given}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
