"""Which deployment to buy."""

from planner.sizing.confident import size_with_confidence
from planner.sizing.plan import evaluate, size

__all__ = ["evaluate", "size", "size_with_confidence"]
