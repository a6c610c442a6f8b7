"""Which deployment to buy."""
