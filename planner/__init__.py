"""What to buy, and how to split it, so that a language model serves its traffic inside its latency targets."""

__version__ = "0.1.0"
