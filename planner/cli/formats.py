"""From a document to the renderer of a format, and to where it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from planner.cli.streams import Screen, tell, write_result

Document = Mapping[str, Any]
Renderer = Callable[[Screen], str]


def write_document(result: Document, shape: str, out: Path | None, verbose: int, quiet: int) -> None:
    """Write a result, of one scenario or of many; with `--out`, one line for people on stderr as well."""
    if out is None and quiet > 1:
        return
    write_result(renderer(result, shape, verbose=verbose, quiet=quiet), out)
    if out is not None and quiet < 2:
        tell(f"{_answer(result)}  ({out})")


def _answer(result: Document) -> str:
    if "results" in result:
        from planner.render.gate import gate_line

        return gate_line(result)
    from planner.render.table import verdict_line

    return verdict_line(result)


def renderer(result: Document, shape: str, *, verbose: int = 0, quiet: int = 0) -> Renderer:
    """The renderer of a format, bound to its document."""
    if shape == "table":
        return _table(result, verbose, quiet)
    render = _plain(shape)
    return lambda _: render(result)


def _plain(shape: str) -> Callable[[Document], str]:
    """The renderer of a format that looks the same on every screen; loaded only now."""
    match shape:
        case "json":
            from planner.render.json import to_json as render
        case "yaml":
            from planner.render.yaml import to_yaml as render
        case "csv":
            from planner.render.csv import to_csv as render
        case _:
            raise ValueError(f"no format {shape}")
    return render


def _table(result: Document, verbose: int, quiet: int) -> Renderer:
    if "results" in result:
        from planner.render.gate import gate_text
        from planner.render.text import Pen

        return lambda seen: gate_text(result, Pen(seen.width, seen.unicode, seen.color), notes=not quiet)
    from planner.render.table import to_text

    return lambda seen: to_text(
        result, width=seen.width, unicode=seen.unicode, color=seen.color, notes=not quiet, inputs=verbose > 0
    )
