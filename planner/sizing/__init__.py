"""Which deployment to buy."""

from planner.sizing.compare import compare
from planner.sizing.confident import size_with_confidence
from planner.sizing.plan import evaluate, size

__all__ = ["compare", "evaluate", "size", "size_with_confidence"]
