"""Bytes of a user's file, or one clear fault: missing, a folder, unreadable, too big, binary, not UTF-8."""

from __future__ import annotations

import hashlib
from pathlib import Path

from planner.errors import Fault, InputError


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """The content of `path`.

    Raises
    ------
    InputError
        When there is no such file, it is a folder, it cannot be read, or it is larger than `most_bytes`.
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

    Raises
    ------
    InputError
        When it is binary or not UTF-8, with the line and column of the first bad byte.
    """
    if b"\0" in data[:65536]:
        raise InputError([Fault("is a binary file; want UTF-8 text", path)])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8", "replace")
        line = good.count("\n") + 1
        column = len(good) - (good.rfind("\n") + 1) + 1
        message = f"is not UTF-8 text: byte 0x{data[error.start]:02x} cannot be read"
        raise InputError([Fault(message, path, line, column)]) from None


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
