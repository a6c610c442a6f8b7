"""Every exception the program raises on purpose.

    PlannerError
    ├── InputError          the user's files or arguments (exit code 2); carries one `Fault` per mistake
    ├── FieldError          a value that physics or an engine refuses; carries the field path, `files` adds the line
    └── PhysicsError        a result that would pass a roofline or a memory floor: our bug (exit code 3)

An infeasible target is an answer, not an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake in the input, and where it is."""

    message: str
    path: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.path, self.line, self.column) if part)
        return f"{where}: {self.message}" if where else self.message


class PlannerError(Exception):
    """Base of all of ours."""


class InputError(PlannerError):
    """The input cannot be used. Holds every fault found, not only the first."""

    def __init__(self, faults: Sequence[Fault] | str) -> None:
        self.faults: tuple[Fault, ...] = (Fault(faults),) if isinstance(faults, str) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class FieldError(PlannerError):
    """A value that was read correctly but that the model, the hardware or the engine cannot take.

    `field` is the dotted path in the scenario, such as ``deployment.decode.tp``.
    """

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        self.message = message
        super().__init__(f"{field}: {message}" if field else message)


class PhysicsError(PlannerError):
    """A computed result lies past a physical limit, so it is wrong and must not be shown."""
