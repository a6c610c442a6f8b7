"""Options of engines that a plan decides, each with the field of the plan that it carries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """One option of a command line; `value` None is a switch. `why` names the plan's field."""

    name: str
    value: str | None
    why: str

    @property
    def text(self) -> str:
        """The option as one argument."""
        return self.name if self.value is None else f"{self.name}={self.value}"


def flag(name: str, value: object, why: str) -> Flag:
    return Flag(name, str(value), why)


def switch(name: str, why: str) -> Flag:
    return Flag(name, None, why)
