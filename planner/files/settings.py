"""The project file `planner.yaml`: defaults that a repository shares, found from the folder that a command runs in.

catalog: [my-hardware]     # folders of your own hardware and models, relative to the file
format: table              # of commands that have it
strict: true               # `planner check` fails what is at risk
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.errors import Fault, InputError
from planner.files.nearest import did_you_mean
from planner.units import shown

NAME = "planner.yaml"
FORMATS = ("table", "json", "yaml", "csv", "markdown", "html", "junit", "sarif", "github")
_KEYS = ("catalog", "format", "strict")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a project file says; `catalog` holds paths that exist."""

    path: Path
    catalog: tuple[Path, ...] = ()
    format: str = ""
    strict: bool = False

    def said(self) -> str:
        """One line for people."""
        parts = [f"catalog {', '.join(map(str, self.catalog))}"] if self.catalog else []
        parts += [f"format {self.format}"] if self.format else []
        parts += ["strict"] if self.strict else []
        return f"defaults from {self.path}: {', '.join(parts) or 'none'}"


def nearest_settings(start: Path) -> Path | None:
    """`planner.yaml` in `start` or the nearest folder above it, not past the root of a repository."""
    for folder in (start, *start.parents):
        found = folder / NAME
        if found.is_file():
            return found
        if (folder / ".git").exists():
            return None
    return None


def load_settings(path: Path) -> Settings:
    """Read a project file.

    Raises InputError with every fault: unknown keys, folders that do not exist, no such format.
    """
    from planner.files.yamlfile import load

    document = load(path)
    value, faults = document.value, []
    if not isinstance(value, dict):
        raise InputError([document.fault((), f"want a mapping with the keys {', '.join(_KEYS)}; got {shown(value)}")])
    for key in value:
        if key not in _KEYS:
            hint = "; a scenario goes by another file name" if key in ("model", "workload", "targets") else ""
            faults.append(document.fault((key,), f"unknown key; {did_you_mean(key, _KEYS)}{hint}"))
    folders = value.get("catalog", [])
    if not isinstance(folders, list):
        faults.append(document.fault(("catalog",), f"want a list of folders, e.g. [my-hardware]; got {shown(folders)}"))
        folders = []
    catalog = [path.parent / str(folder) for folder in folders]
    faults += [
        document.fault(("catalog", index), f"{shown(folders[index])}: no such file or folder")
        for index, folder in enumerate(catalog)
        if not isinstance(folders[index], str) or not folder.exists()
    ]
    faults += _plain_faults(document, value)
    if faults:
        raise InputError(faults)
    return Settings(path, tuple(catalog), value.get("format", ""), value.get("strict", False))


def _plain_faults(document: Any, value: dict[str, Any]) -> list[Fault]:
    faults = []
    if "format" in value and value["format"] not in FORMATS:
        known = did_you_mean(str(value["format"]), FORMATS)
        faults.append(document.fault(("format",), f"{shown(value['format'])} is no format; {known}"))
    if "strict" in value and not isinstance(value["strict"], bool):
        faults.append(document.fault(("strict",), f"{shown(value['strict'])} is neither true nor false"))
    return faults
