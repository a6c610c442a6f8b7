"""The program's entry: runs a command and turns whatever happens into an exit code.

Exit codes: 0 yes, 1 nothing fits, 2 your input, 3 our bug, 130 interrupted. Results go to stdout, all else to stderr.
"""

from __future__ import annotations

import io
import os
import sys

from planner import __version__

OK, INPUT, BUG, INTERRUPTED = 0, 2, 3, 130
_GARBAGE_EVERY = 500_000  # objects; Python's 700 spend a tenth of a command on looking through catalogs that stay

# Our matrices are small: threads of the array library cost more than they bring. Read when it is first loaded.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> int:
    """Run the command line and return its exit code."""
    arguments = sys.argv[1:]
    _open_streams()
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    try:
        if arguments in (["--version"], ["-V"]):  # answered before the command line library is loaded
            if sys.stdout is not None:
                sys.stdout.write(f"planner {__version__}\n")
            code = OK
        else:
            code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        return OK
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except Exception as error:
        return _failed(error, arguments)
    return code


def _open_streams() -> None:
    """Keep the numbers of streams that the caller closed, so that no file opened later is written to by their name."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _run(arguments: list[str]) -> int:
    import atexit
    import gc

    gc.set_threshold(_GARBAGE_EVERY)
    atexit.register(gc.freeze)  # a process that ends need not look for garbage: that took a tenth of a command
    import typer

    from planner.cli.app import app

    try:
        code = app(arguments, prog_name="planner", standalone_mode=False)
    except typer.TyperException as error:
        show = getattr(error, "show", None)  # usage faults print the usage line and a hint
        if show is None:
            return _say(error.format_message(), INPUT)
        text = io.StringIO()
        show(file=text)
        return _say(text.getvalue().rstrip("\n"), INPUT)
    except typer.Abort:
        return INTERRUPTED
    except SystemExit:  # how typer leaves when the reader of stdout has gone
        raise BrokenPipeError from None
    return code or OK


def _failed(error: Exception, arguments: list[str]) -> int:
    from planner.errors import InputError

    if isinstance(error, InputError):
        return INPUT if silent(arguments) else _say(str(error), INPUT)
    if isinstance(error, OSError):
        _drop_stdout()
        return _say(f"planner: {error}", INPUT)
    if verbosity(arguments) < 2:
        first = str(error).partition("\n")[0]
        hint = "a bug of planner: please report it with what -vv prints"
        text = f"planner: internal error: {type(error).__name__}: {first} ({hint})"
        return _say(text, BUG)
    import traceback

    return _say("".join(traceback.format_exception(error)).rstrip("\n"), BUG)


def verbosity(arguments: list[str]) -> int:
    """How many -v were given, read without a parser because the parser may be what failed."""
    flags = [argument for argument in arguments if argument.startswith("-v") and set(argument[1:]) == {"v"}]
    return sum(len(flag) - 1 for flag in flags) + arguments.count("--verbose")


def silent(arguments: list[str]) -> bool:
    """Whether -qq asks for the exit code only."""
    flags = [argument for argument in arguments if argument.startswith("-q") and set(argument[1:]) == {"q"}]
    return sum(len(flag) - 1 for flag in flags) + arguments.count("--quiet") > 1


def _say(text: str, code: int) -> int:
    from planner.errors import printable

    if sys.stderr is None:
        return code
    text = printable(text, keep="\n")
    try:
        encoding = getattr(sys.stderr, "encoding", None) or "ascii"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    except OSError:  # nobody listens; the exit code still tells
        return code
    return code


def _drop_stdout() -> None:
    from planner.cli.streams import drop_stdout  # loaded only now: `--version` needs none of it

    drop_stdout()
