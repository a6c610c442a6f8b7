"""Bytes of a user's file, or one clear fault: missing, a folder, unreadable, too big, binary, not UTF-8."""

from __future__ import annotations

import codecs
import hashlib
from pathlib import Path

from planner.errors import Fault, InputError


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """The content of `path`.

    Raises InputError when there is no such file, it is a folder, it cannot be read, or it is larger than `most_bytes`.
    """
    try:
        if path.is_dir():
            raise InputError([Fault("is a folder; want a file", str(path))])
        with path.open("rb") as stream:
            data = stream.read(most_bytes + 1)
    except FileNotFoundError:
        raise InputError([Fault("no such file", str(path))]) from None
    except OSError as error:
        raise InputError([Fault(f"cannot be read: {error.strerror or error}", str(path))]) from None
    except ValueError:  # a NUL character in the name
        raise InputError([Fault("is not a possible file name", repr(str(path)))]) from None
    if len(data) > most_bytes:
        raise InputError([Fault(f"is larger than {most_bytes // 1_000_000} MB", str(path))])
    return data


def decode(data: bytes, path: str) -> str:
    """`data` as text without a byte order mark.

    Raises InputError when it is binary or not UTF-8, with the line and column of the first bad byte.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError([Fault("is UTF-16 text; save it as UTF-8", path, 1, 1)])
    zero = data.find(b"\0", 0, 65536)
    if zero >= 0:
        raise InputError([Fault("is a binary file; want UTF-8 text", path, *_place(data[:zero]))])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 text: byte 0x{data[error.start]:02x} cannot be read; save the file as UTF-8"
        raise InputError([Fault(message, path, *_place(data[: error.start]))]) from None


def _place(before: bytes) -> tuple[int, int]:
    """Line and column, from 1, of the byte that follows `before`."""
    good = before.decode("utf-8", "replace")
    return good.count("\n") + 1, len(good) - good.rfind("\n")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
