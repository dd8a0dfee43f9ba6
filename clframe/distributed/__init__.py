"""Train one run in several processes."""
