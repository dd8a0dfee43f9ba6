"""Saving a run and resuming it at the exact step."""
