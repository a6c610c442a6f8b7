"""Where results go: stdout, or one whole file; and what the screen can show."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

from planner.errors import Fault, InputError, printable

if TYPE_CHECKING:
    from planner.render.text import Pen

LEAST_COLUMNS = 40  # of a screen on which folding a table helps
SILENT_S = 1.0  # before progress is shown
PROSE_COLUMNS = 100  # where nothing says how wide the reader's screen is


@dataclass(frozen=True, slots=True)
class Screen:
    """What may be written to a stream."""

    width: int = PROSE_COLUMNS  # of prose
    unicode: bool = True
    color: bool = False
    table_width: int | None = None  # of tables; None where nobody says how wide the reader's screen is

    @property
    def pen(self) -> Pen:
        """What writes on it."""
        from planner.render.text import UNLIMITED, Pen

        return Pen(self.width, self.unicode, self.color, self.table_width or UNLIMITED)


def screen(stream: TextIO) -> Screen:
    """What `stream` can show: color only on a terminal that wants it, characters beyond ASCII only in UTF-8."""
    try:
        unicode = codecs.lookup(stream.encoding or "ascii").name == "utf-8"
    except LookupError:
        unicode = False
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    width = shutil.get_terminal_size((PROSE_COLUMNS, 24)).columns
    terminal = stream.isatty()
    known = terminal or os.environ.get("COLUMNS", "").isdigit()
    return Screen(width, unicode, terminal and not plain, width if known and width >= LEAST_COLUMNS else None)


def write_result(render: Callable[[Screen], str], out: Path | None) -> None:
    """Write a rendering to stdout, or to the file `out`.

    A reader of stdout that leaves early changes no answer: the rest is dropped, and the exit code stays what it is.

    Raises InputError when there is no stdout, or `out` cannot be written.
    """
    if out is not None:
        write_file(render(Screen()), out)
        return
    if sys.stdout is None:
        raise InputError("standard output is closed; give --out FILE, or -qq for the exit code only")
    text = render(screen(sys.stdout))
    try:
        sys.stdout.write(_writable(text, sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()


def _writable(text: str, stream: TextIO) -> str:
    """`text` as the encoding of the stream can hold it: file names may be bytes of no encoding."""
    encoding = stream.encoding or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def drop_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


# --------------------------------------------------------------------------------------------------------------- --out

_DEVICES = (Path("/dev"), Path("/proc"))


def check_out(out: Path | None, inputs: Sequence[Path] = ()) -> None:
    """Refuse, before anything is computed, an `--out` that cannot be written or that would replace an input.

    Raises InputError: a folder, a folder that is missing or may not be written, a file that is read by the same run.
    """
    if out is None:
        return
    try:
        _check_target(out, inputs)
    except OSError as error:
        raise _unwritable(out, error.strerror or str(error)) from None
    except ValueError:  # a NUL character in the name
        raise InputError([Fault("is not a possible file name", repr(str(out)))]) from None


def checked_out(command: Callable[..., int]) -> Callable[..., int]:
    """The command, which refuses before anything else an `--out` that cannot be written or that it reads."""

    @wraps(command)
    def run(**given: Any) -> int:
        named = [value for name, value in given.items() if name != "out" for value in _listed(value)]
        check_out(given.get("out"), [value for value in named if isinstance(value, Path)])
        return command(**given)

    return run


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _check_target(out: Path, inputs: Sequence[Path]) -> None:
    if out.is_dir():
        raise _unwritable(out, "it is a folder")
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise InputError([Fault("is read by this command; give --out another file", str(out))])
    if _is_stream(out):
        return
    target = Path(os.path.realpath(out))
    if target.is_symlink():
        raise _unwritable(out, os.strerror(errno.ELOOP))
    if not target.parent.is_dir():
        raise _unwritable(out, os.strerror(errno.ENOENT))
    if not os.access(target.parent, os.W_OK) or (target.exists() and not os.access(target, os.W_OK)):
        raise _unwritable(out, os.strerror(errno.EACCES))


def _is_stream(out: Path) -> bool:
    """Whether `out` is a device, a pipe or a socket, or a name of an open one, that must be written through."""
    if any(out.is_relative_to(folder) for folder in _DEVICES):
        return True
    return out.exists() and not out.is_file()


def write_file(text: str | bytes, out: Path) -> None:
    """Write a file as a whole or not at all; through devices and pipes; behind symbolic links, which stay.

    Raises InputError when it cannot be written.
    """
    check_out(out)
    data = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
    try:
        if _is_stream(out):
            with out.open("ab") as stream:
                stream.write(data)
        else:
            _replace(Path(os.path.realpath(out)), data)
    except BrokenPipeError:
        return  # the reader has left
    except OSError as error:
        raise _unwritable(out, error.strerror or str(error)) from None


def _replace(target: Path, data: bytes) -> None:
    """A new file in place of `target`, with its permissions where it exists."""
    temporary = target.with_name(f".planner-{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _unwritable(out: Path, reason: str) -> InputError:
    return InputError([Fault(f"cannot be written: {reason}", str(out))])


def tell(text: str) -> None:
    """Write lines for people to stderr, if there is one."""
    if sys.stderr is None:
        return
    text = printable(text, keep="\n")
    shown = text if screen(sys.stderr).unicode else text.encode("ascii", "replace").decode("ascii")
    with contextlib.suppress(OSError):  # nobody listens; the exit code still tells
        sys.stderr.write(_writable(shown, sys.stderr) + "\n")


def progress(said: str) -> Callable[[int, int], None] | None:
    """Tells on a terminal, in one line and after the first second, how much is done: ``said`` with both numbers."""
    if not sys.stderr.isatty():
        return None
    begun = monotonic()

    def show(done: int, whole: int) -> None:
        if monotonic() - begun > SILENT_S:
            sys.stderr.write(f"\r{said.format(done, whole)}" if done < whole else "\r\x1b[K")
            sys.stderr.flush()

    return show
