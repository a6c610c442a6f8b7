"""Every exception the program raises on purpose.

    PlannerError
    ├── InputError          the user's files or arguments (exit code 2); carries one `Fault` per mistake
    ├── FieldError          a value that physics or an engine refuses; carries the field path, `files` adds the line
    └── PhysicsError        a result that would pass a roofline or a memory floor: our bug (exit code 3)

An infeasible target is an answer, not an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def printable(text: str, keep: str = "") -> str:
    """`text` with every character that a terminal would act on written out, such as ``\\x1b``.

    Control characters, line separators, and marks that turn the direction of writing; those in `keep` stay.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char if char == "\u00a0" else char.encode("unicode_escape").decode("ascii")


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake in the input, and where it is."""

    message: str
    path: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.path, self.line, self.column) if part)
        return printable(f"{where}: {self.message}" if where else self.message)


class PlannerError(Exception):
    """Base of all of ours."""


class InputError(PlannerError):
    """The input cannot be used. Holds every fault found, not only the first."""

    def __init__(self, faults: Sequence[Fault] | str) -> None:
        self.faults: tuple[Fault, ...] = (Fault(faults),) if isinstance(faults, str) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class FieldError(PlannerError):
    """A value that was read correctly but that the model, the hardware or the engine cannot take.

    `field` is the dotted path in the scenario, such as ``deployment.decode.tp``; `others` are further such values,
    found before anything was computed.
    """

    def __init__(self, field: str, message: str, others: Sequence[FieldError] = ()) -> None:
        self.field = field
        self.message = message
        self.others = tuple(others)
        super().__init__(f"{field}: {message}" if field else message)

    @property
    def every(self) -> tuple[FieldError, ...]:
        """This error and the others."""
        return (self, *self.others)


def raise_every(errors: Iterable[FieldError]) -> None:
    """Raise all of `errors` as one, if there are any; each once."""
    found = list({(error.field, error.message): error for error in errors}.values())
    if found:
        raise FieldError(found[0].field, found[0].message, found[1:])


class PhysicsError(PlannerError):
    """A computed result lies past a physical limit, so it is wrong and must not be shown."""
