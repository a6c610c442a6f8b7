"""Defaults of a project: `--config`, else `PLANNER_CONFIG`, else the nearest `planner.yaml`; a flag wins over all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

    from planner.files.settings import Settings

VARIABLE = "PLANNER_CONFIG"


def apply(context: typer.Context, config: Path | None, verbose: bool) -> None:
    """Make what the project file says the defaults of every command that has such an option.

    Raises InputError when the file that is named does not exist, or a project file is at fault.
    """
    from planner.files.settings import load_settings, nearest_settings

    named = config or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    path = named or nearest_settings(Path.cwd())
    if path is None:
        return
    settings = load_settings(path)
    context.default_map = _defaults(context.command, settings)
    if verbose:
        from planner.cli.streams import tell

        tell(settings.said())


def _defaults(command: Any, settings: Settings) -> dict[str, Any]:
    """By command and option; groups hold those of their commands."""
    inner: Mapping[str, Any] = getattr(command, "commands", {})
    if inner:
        return {name: _defaults(one, settings) for name, one in inner.items()}
    found: dict[str, Any] = {}
    for option in command.params:
        if option.name == "catalog" and settings.catalog:
            found["catalog"] = [str(folder) for folder in settings.catalog]
        elif option.name == "shape" and settings.format in getattr(option.type, "choices", ()):
            found["shape"] = settings.format
        elif option.name == "strict" and settings.strict:
            found["strict"] = True
    return found
