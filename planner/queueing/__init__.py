"""Waits and occupancies. Numbers only."""
