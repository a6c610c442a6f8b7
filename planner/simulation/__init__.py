"""A deployment step by step: an independent witness of the closed forms, never used to compute a plan."""
