"""A file as lines, read in pieces: a trace of any length in little memory, with its checksum."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from planner.errors import Fault, InputError
from planner.files.reading import decode

_PIECE_BYTES = 1 << 20
_GZIP, _GZIP_BITS = b"\x1f\x8b", 31
_LONGEST_LINE_BYTES = 500_000_000


def _plain(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces of a file as they are; unpacked where it is gzip, of one member or several."""
    first = next(pieces, b"")
    if not first.startswith(_GZIP):
        yield from filter(None, chain([first], pieces))
        return
    unpack = zlib.decompressobj(_GZIP_BITS)
    for piece in chain([first], pieces):
        data = piece
        while data:
            if unpack.eof:
                unpack = zlib.decompressobj(_GZIP_BITS)
            yield from filter(None, [unpack.decompress(data, _PIECE_BYTES)])
            data = unpack.unconsumed_tail or unpack.unused_data
    if not unpack.eof:
        raise zlib.error("it ends too early")


class Lines:
    """Lines of one file, plain or gzip, with their numbers from 1; `sha256`, of the file, holds once all were read.

    Iterating raises InputError when the file is missing, a folder, unreadable, binary or not UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        number = 0
        for piece in self._pieces():
            for text in self._decoded(piece, number).split("\n"):
                number += 1
                yield number, text

    def _pieces(self) -> Iterator[bytes]:
        """Whole lines, several at a time, without the last line feed."""
        rest = b""
        try:
            if self._path.is_dir():
                raise InputError([Fault("is a folder; want a file", self.name)])
            with self._path.open("rb") as stream:
                for data in _plain(self._hashed(stream)):
                    whole, feed, end = data.rpartition(b"\n")
                    if not feed:
                        rest += data
                        self._check_line(rest)
                        continue
                    yield rest + whole
                    rest = end
        except zlib.error as error:
            raise InputError([Fault(f"is damaged gzip: {error}", self.name)]) from None
        except FileNotFoundError:
            raise InputError([Fault("no such file", self.name)]) from None
        except OSError as error:
            raise InputError([Fault(f"cannot be read: {error.strerror or error}", self.name)]) from None
        except ValueError:  # a NUL character in the name
            raise InputError([Fault("is not a possible file name", repr(self.name))]) from None
        if rest:
            yield rest

    def _hashed(self, stream: BinaryIO) -> Iterator[bytes]:
        while data := stream.read(_PIECE_BYTES):
            self._hash.update(data)
            yield data

    def _check_line(self, data: bytes) -> None:
        if b"\0" in data[:_PIECE_BYTES]:
            raise InputError([Fault("is a binary file; want UTF-8 text", self.name)])
        if len(data) > _LONGEST_LINE_BYTES:
            raise InputError([Fault(f"has a line of more than {_LONGEST_LINE_BYTES // 1_000_000} MB", self.name)])

    def _decoded(self, piece: bytes, before: int) -> str:
        try:
            return decode(piece, self.name)
        except InputError as error:
            moved = [
                Fault(fault.message, fault.path, fault.line + before, fault.column) if fault.line else fault
                for fault in error.faults
            ]
            raise InputError(moved) from None
