"""From a document to the renderer of a format, and to where it is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from planner.cli.money import in_currency, said, told
from planner.cli.streams import Screen, tell, write_result

if TYPE_CHECKING:
    from planner.render.text import Pen
    from planner.review.currency import Currency

Document = Mapping[str, Any]
Renderer = Callable[[Screen], str]
Locate = Callable[[str], str]

GATE_FORMATS = ("junit", "sarif", "github")


def write(
    document: Any,
    shape: str,
    out: Path | None,
    table: Callable[[Any, Pen], str],
    formats: Mapping[str, Callable[[Any], str]] = MappingProxyType({}),
    quiet: int = 0,
    currency: Currency | None = None,
) -> None:
    """Write what a command found: as `table` on a screen, as JSON, or in one of the `formats` by its name."""
    if out is None and quiet > 1:
        return
    shown = in_currency(document, currency)
    if shape == "table":
        write_result(said(lambda screen: table(shown, screen.pen), currency), out)
        return
    from planner.render.json import to_json

    render = {"json": to_json, **formats}[shape]
    write_result(said(lambda _: render(shown), currency), out)


def write_document(
    result: Document, shape: str, out: Path | None, verbose: int, quiet: int, currency: Currency | None = None
) -> None:
    """Write a result, of one scenario or of many; with `--out`, one line for people on stderr as well."""
    if out is None and quiet > 1:
        return
    shown = in_currency(result, currency)
    write_result(said(renderer(shown, shape, verbose=verbose, quiet=quiet), currency), out)
    if out is not None and quiet < 2:
        tell(f"{told(_answer(shown), currency)}  ({out})")


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
    if shape in GATE_FORMATS:
        from planner.review.document import gated

        whole = gated(result)
        if shape == "github":
            _write_step_summary(whole)
        located = _located(shape)
        return lambda _: located(whole, from_repository)
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
        case "markdown":
            from planner.render.markdown import to_markdown as render
        case "html":
            from planner.render.html import to_html as render
        case _:
            raise ValueError(f"no format {shape}")
    return render


def _located(shape: str) -> Callable[[Document, Locate], str]:
    """The renderer of a format that points at lines of files, or stands beside those that do."""
    match shape:
        case "junit":
            from planner.render.junit import to_junit as render
        case "sarif":
            from planner.render.sarif import to_sarif as render
        case _:
            from planner.render.github import to_github as render
    return render


def from_repository(path: str) -> str:
    """A path from the root of the repository it lies in; as it was given where there is none."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - links are kept: they are what the repository holds
    for folder in absolute.parents:
        if (folder / ".git").exists():
            return absolute.relative_to(folder).as_posix()
    return Path(path).as_posix()


def _write_step_summary(result: Document) -> None:
    """Add the Markdown to the page that the run of a job shows, where the platform names one."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    from planner.errors import Fault, InputError
    from planner.render.markdown import to_markdown

    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as summary:
            summary.write(to_markdown(result) + "\n")
    except OSError as error:
        reason = f"GITHUB_STEP_SUMMARY cannot be written: {error.strerror or error}"
        raise InputError([Fault(reason, path)]) from None


def _table(result: Document, verbose: int, quiet: int) -> Renderer:
    if "results" in result:
        from planner.render.gate import gate_text

        return lambda seen: gate_text(result, seen.pen, notes=not quiet, inputs=verbose > 0)
    from planner.render.table import to_text

    return lambda seen: to_text(result, seen.pen, notes=not quiet, detail=verbose > 0)
