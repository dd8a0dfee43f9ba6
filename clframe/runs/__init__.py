"""A run on disk, written and read."""
