"""What a serving engine does, by version."""
