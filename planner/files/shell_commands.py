"""Commands of a shell script as words, read and never run: variables set in the script itself are put in.

What the shell would compute (`$(...)`, variables from outside) stays unknown, as None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_MOST_DEPTH = 20  # of defaults inside defaults; no script that people write comes near
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_SEPARATORS = "\n;&|()"
_KEYWORDS = frozenset(
    {"for", "do", "done", "if", "then", "else", "elif", "fi", "while", "until", "case", "esac", "{", "}"}
)
_REDIRECTION = re.compile(r"[0-9]*[<>]{1,3}(&[0-9-]+)?")
_HERE = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")

Piece = str | None  # text, or None for what only a shell could say


@dataclass(slots=True)
class Word:
    """One word of a command. `pieces` in order; `array` names the array whose elements it stands for."""

    pieces: list[Piece] = field(default_factory=list)
    array: str = ""
    loose: bool = False  # an expansion outside quotes, which the shell splits at blanks

    @property
    def text(self) -> str | None:
        """The word; None when a part of it is unknown."""
        return None if None in self.pieces else "".join(piece for piece in self.pieces if piece is not None)

    @property
    def known_end(self) -> str:
        """What follows the last unknown part."""
        tail: list[str] = []
        for piece in reversed(self.pieces):
            if piece is None:
                break
            tail.append(piece)
        return "".join(reversed(tail))


@dataclass(frozen=True, slots=True)
class Script:
    """Commands in order, and the variables as the script leaves them."""

    commands: tuple[tuple[Word, ...], ...]
    variables: dict[str, str | None]


def read_script(text: str) -> Script:
    """The commands of a script. Nothing is run; conditions and loops are read as if each body stood once."""
    return _Reader(_without_here_documents(text)).script()


def _without_here_documents(text: str) -> str:
    lines, kept, end = text.split("\n"), [], ""
    for line in lines:
        if end:
            end = "" if line.strip() == end else end
            kept.append("")
            continue
        found = _HERE.search(line)
        end = found[2] if found and "<<<" not in line else ""
        kept.append(line)
    return "\n".join(kept)


class _Reader:
    """Walks through the text once; arrays and variables are replaced as soon as they are used."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self.text = text
        self.depth = depth
        self.at = 0
        self.variables: dict[str, str | None] = {}
        self.arrays: dict[str, list[Word]] = {}

    def script(self) -> Script:
        commands = [command for command in self._commands() if command]
        return Script(tuple(tuple(command) for command in commands), self.variables)

    def _commands(self) -> Iterator[list[Word]]:
        command: list[Word] = []
        while self.at < len(self.text):
            self._skip_blanks()
            if self.at >= len(self.text):
                break
            if self.text[self.at] in _SEPARATORS:
                self.at += 1
                yield command
                command = []
            elif self._redirection() or (not command and self._assignment()):
                continue
            else:
                word = self._word()
                if not command and word.text in _KEYWORDS:
                    yield command
                    command = []
                    continue
                command += self._spread(word)
        yield command

    def _skip_blanks(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at] in " \t\r":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _redirection(self) -> bool:
        """Skips `2>&1`, `> file` and the like, which are no words of a command."""
        found = _REDIRECTION.match(self.text, self.at)
        if not found:
            return False
        self.at = found.end()
        if not found[1]:
            self._skip_blanks()
            self._word()
        return True

    def _assignment(self) -> bool:
        found = _ASSIGNMENT.match(self.text, self.at)
        if not found:
            return False
        name, adds = found[1], found[2]
        self.at = found.end()
        if self.at < len(self.text) and self.text[self.at] == "(":
            self.at += 1
            words = self._array()
            self.arrays[name] = [*self.arrays.get(name, []), *words] if adds else words
        else:
            value = self._word().text
            before = self.variables.get(name, "") if adds else ""
            self.variables[name] = None if value is None or before is None else before + value
        return True

    def _array(self) -> list[Word]:
        words: list[Word] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.text[self.at] == "\n":
                self.at += 1
            else:
                words += self._spread(self._word()) if self.text[self.at] not in " \t\r\\#" else []
                before = self.at
                self._skip_blanks()
                if self.at == before and self.at < len(self.text) and self.text[self.at] in ";&|(":
                    self.at += 1
        self.at += 1
        return words

    def _spread(self, word: Word) -> list[Word]:
        """A word as the words it stands for: elements of an array, or text split at blanks."""
        if word.array:
            return list(self.arrays.get(word.array, [Word([None])]))
        if word.loose and word.text is not None:
            return [Word([part]) for part in word.text.split()]
        return [word]

    def _word(self) -> Word:
        word = Word()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\r<>" + _SEPARATORS:
                break
            if char == "\\":
                self.at += 1
                if self.at < len(self.text) and self.text[self.at] != "\n":
                    word.pieces.append(self.text[self.at])
                self.at += 1
            elif char == "'":
                end = self.text.find("'", self.at + 1)
                end = len(self.text) if end < 0 else end
                word.pieces.append(self.text[self.at + 1 : end])
                self.at = end + 1
            elif char == '"':
                self._double_quoted(word)
            elif char == "`":
                self._skip_backticks(word)
            elif char == "$":
                self._expansion(word, quoted=False)
            else:
                word.pieces.append(char)
                self.at += 1
        return word

    def _double_quoted(self, word: Word) -> None:
        self.at += 1
        word.pieces.append("")
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\":
                follower = self.text[self.at + 1 : self.at + 2]
                word.pieces.append(follower if follower in '"\\$`' else "" if follower == "\n" else "\\" + follower)
                self.at += 2
            elif char == "$":
                self._expansion(word, quoted=True)
            elif char == "`":
                self._skip_backticks(word)
            else:
                word.pieces.append(char)
                self.at += 1
        self.at += 1

    def _skip_backticks(self, word: Word) -> None:
        end = self.text.find("`", self.at + 1)
        self.at = len(self.text) if end < 0 else end + 1
        word.pieces.append(None)

    def _expansion(self, word: Word, quoted: bool) -> None:
        """`$name`, `${name}`, `${name:-default}`, `${name[@]}`; anything else is unknown."""
        following = self.text[self.at + 1 : self.at + 2]
        if following == "(":
            self.at = self._closing(self.at + 1, "(", ")")
            word.pieces.append(None)
        elif following == "{":
            end = self._closing(self.at + 1, "{", "}")
            self._braced(word, self.text[self.at + 2 : end - 1], quoted)
            self.at = end
        else:
            name = _NAME.match(self.text, self.at + 1)
            self.at = name.end() if name else self.at + 2
            self._variable(word, name[0] if name else "", quoted)

    def _closing(self, start: int, opens: str, closes: str) -> int:
        """The place behind the bracket that closes the one at `start`."""
        depth, at, quote = 0, start, ""
        while at < len(self.text):
            char = self.text[at]
            if quote:
                quote = "" if char == quote else quote
            elif char in "'\"" and opens == "(":
                quote = char
            elif char == opens:
                depth += 1
            elif char == closes:
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        return len(self.text)

    def _braced(self, word: Word, inside: str, quoted: bool) -> None:
        name = _NAME.match(inside)
        rest = inside[name.end() :] if name else ""
        if name and rest in ("[@]", "[*]"):
            word.array = name[0]
        elif name and not rest:
            self._variable(word, name[0], quoted)
        elif name and rest[:2] in (":-", ":="):
            if self.variables.get(name[0]) is not None:
                self._variable(word, name[0], quoted)
            else:
                word.pieces.append(self._default(rest[2:]))
        else:
            word.pieces.append(None)

    def _default(self, text: str) -> str | None:
        if self.depth >= _MOST_DEPTH:
            return None
        inner = _Reader(text, self.depth + 1)
        inner.variables, inner.arrays = self.variables, self.arrays
        return inner._word().text

    def _variable(self, word: Word, name: str, quoted: bool) -> None:
        word.pieces.append(self.variables.get(name))
        word.loose |= not quoted
