"""Compose overrides into the description of a run."""
