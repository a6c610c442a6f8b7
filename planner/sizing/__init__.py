"""Which deployment to buy."""

from planner.sizing.plan import evaluate, size

__all__ = ["evaluate", "size"]
