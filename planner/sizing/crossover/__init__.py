"""Where colocated serving turns into the cheaper one, and where it stops: thousands of questions at once."""
