"""Verify, fork and bundle runs with their checkpoints."""
