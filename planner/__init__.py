"""What to buy, and how to split it, so that a language model serves its traffic inside its latency targets."""

__version__ = "0.1.0"

_API = ("evaluate", "load_scenario", "load_trace", "simulate", "size")


def __getattr__(name: str) -> object:
    """The functions of `planner.api`, imported when first asked for, because they load the array library."""
    if name not in _API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("planner.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_API])
