"""Saving a run and bringing it back at the very step."""
