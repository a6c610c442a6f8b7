"""One deployment under load, to a prediction."""
