"""Which deployment to buy. Comparing architectures and sizing with confidence are in files of those names."""

from planner.sizing.plan import evaluate, size

__all__ = ["evaluate", "size"]
