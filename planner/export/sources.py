"""Programs that are shipped as text: exported beside launch files, never run here."""

from __future__ import annotations

from importlib.resources import files


def router_source() -> str:
    """The router in front of exported workers, a program of the standard library alone."""
    return files("planner.export").joinpath("router.py").read_text(encoding="utf-8")
