"""Where results go: stdout, or one whole file; and what the screen can show."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from planner.errors import Fault, InputError

PROSE_COLUMNS = 100  # where nothing says how wide the reader's screen is


@dataclass(frozen=True, slots=True)
class Screen:
    """What may be written to a stream."""

    width: int = PROSE_COLUMNS
    unicode: bool = True
    color: bool = False


def screen(stream: TextIO) -> Screen:
    """What `stream` can show: color only on a terminal that wants it, characters beyond ASCII only in UTF-8."""
    try:
        unicode = codecs.lookup(stream.encoding or "ascii").name == "utf-8"
    except LookupError:
        unicode = False
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    width = shutil.get_terminal_size((PROSE_COLUMNS, 24)).columns
    return Screen(width, unicode, color=stream.isatty() and not plain)


def write_result(render: Callable[[Screen], str], out: Path | None) -> None:
    """Write a rendering to stdout, or to the file `out` as a whole or not at all."""
    if out is None:
        sys.stdout.write(render(screen(sys.stdout)))
        sys.stdout.flush()
        return
    text = render(Screen())
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError([Fault(f"cannot be written: {error.strerror or error}", str(out))]) from None


def tell(text: str) -> None:
    """Write a line for people to stderr."""
    sys.stderr.write(text if screen(sys.stderr).unicode else text.encode("ascii", "replace").decode("ascii"))
    sys.stderr.write("\n")


def render_result(document: Mapping[str, Any], shape: str, *, verbose: int, quiet: int) -> Callable[[Screen], str]:
    """The renderer of a result document: `shape` is table or json."""
    if shape == "json":
        from planner.render.json import to_json

        return lambda _: to_json(document)
    from planner.render.table import to_text

    return lambda seen: to_text(
        document, width=seen.width, unicode=seen.unicode, color=seen.color, notes=not quiet, inputs=verbose > 0
    )
