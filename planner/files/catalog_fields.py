"""Reading keys of one catalog file: values with units and provenance in, faults with line and column out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from planner import units
from planner.errors import Fault, InputError
from planner.files.nearest import did_you_mean
from planner.files.yamlfile import Document, FieldPath

if TYPE_CHECKING:
    from planner.records import Provenance

_SOURCED = ("value", "source", "retrieved", "kind")


class Fields:
    """One mapping of a document. Every fault is kept; a bad or missing value reads as its default."""

    def __init__(self, document: Document, faults: list[Fault], path: FieldPath = ()) -> None:
        self.document = document
        self.faults = faults
        self.path = path
        self.known: dict[str, None] = {}
        self.provenance: dict[str, Provenance] = {}
        value = document.value
        for part in path:
            value = value[part]
        if not isinstance(value, dict):
            self.fault((), f"{units.shown(value)} is not a mapping of keys to values")
            value = {}
        self.values: Mapping[str, Any] = value

    def fault(self, path: FieldPath, message: str) -> None:
        self.faults.append(self.document.fault((*self.path, *path), message))

    def quantity(self, key: str, kind: str, field: str = "", example: str = "") -> float | None:
        """A positive quantity of `kind`, plain or as a mapping with `value` and its provenance.

        `field` is the name the provenance is kept under; a key with an `example` is required.
        """
        number, value, path = self._parsed(key, kind, field, example)
        if number is not None and number <= 0:
            self.fault(path, f"{units.shown(value)} must be more than 0")
            return None
        return number

    def ratio(self, key: str, example: str = "", most: float = float("inf")) -> float:
        """A plain number from 0 to `most`, 0 when it is absent; with an `example` it is required."""
        number, value, path = self._parsed(key, "ratio", "", example)
        if number is not None and number > most:
            self.fault(path, f"{units.shown(value)} is more than {most:g}")
        return number or 0.0

    def time(self, key: str, example: str = "") -> float:
        """A time of zero or more in seconds, 0 when it is absent."""
        return self._parsed(key, "seconds", "", example)[0] or 0.0

    def count(self, key: str, field: str = "", example: str = "") -> int | None:
        number = self.quantity(key, "count", field, example)
        return None if number is None else int(number)

    def text(self, key: str, default: str = "", choices: Iterable[str] = (), example: str = "") -> str:
        """Text, one of `choices` when they are given."""
        value, path = self._value(key, "", example)
        if value is None:
            return default
        if not isinstance(value, str):
            self.fault(path, f'{units.shown(value)} is not text; want e.g. "{value}"')
            return default
        allowed = tuple(choices)
        if allowed and value not in allowed:
            self.fault(path, f'"{value}" is not possible; {did_you_mean(value, allowed, "want one of")}')
            return default
        return value

    def inner(self, key: str, required: bool = False) -> Fields | None:
        """The mapping under `key`."""
        self.known[key] = None
        if self.values.get(key) is None:
            if required:
                self.fault((key,), "is missing")
            return None
        return Fields(self.document, self.faults, (*self.path, key))

    def require_id(self, stem: str) -> str:
        """The file's id, which is its name without the ending."""
        name = self.text("id", default=stem, example=stem)
        if name != stem:
            self.fault(("id",), f'"{name}" is not the name of the file; rename the file to {name}.yaml')
        return name

    def origin(self, key: str) -> Provenance:
        """Where the value under `key` comes from."""
        from planner.records import Provenance

        value = self.values.get(key)
        given = value if isinstance(value, dict) else {}
        return Provenance(
            source=str(given.get("source", self.document.path)),
            retrieved=str(given.get("retrieved", "")),
            kind=str(given.get("kind", "user")),
        )

    def refuse_unknown(self) -> None:
        for key in self.values:
            if key not in self.known:
                self.fault((key,), f"unknown key; {did_you_mean(key, self.known, 'keys are')}")

    def _parsed(self, key: str, kind: str, field: str, example: str) -> tuple[float | None, Any, FieldPath]:
        """The value of `key` in base units, None where it is absent or at fault; as it is written, and its place."""
        value, path = self._value(key, field, example)
        try:
            return None if value is None else units.parse(value, kind), value, path
        except ValueError as error:
            self.fault(path, str(error))
            return None, value, path

    def _value(self, key: str, field: str, example: str) -> tuple[Any, FieldPath]:
        """The bare value of `key` and its place, None when it is absent."""
        self.known[key] = None
        given = self.values.get(key)
        path: FieldPath = (key,)
        if isinstance(given, dict):
            for part in given:
                if part not in _SOURCED:
                    self.fault((key, part), f"unknown key; {did_you_mean(part, _SOURCED, 'keys are')}")
            given, path = given.get("value"), (key, "value")
        if given is None:
            if example or isinstance(self.values.get(key), dict):
                want = f'; want e.g. "{example}"' if example else "; want a value"
                self.fault((key,), f"is missing{want}")
            return None, path
        if field:
            self.provenance[field] = self.origin(key)
        return given, path


def finish(faults: list[Fault]) -> None:
    """Raise `faults` in file order when there are any."""
    if faults:
        raise InputError(sorted(faults, key=lambda fault: (fault.path, fault.line, fault.column)))
