"""Save a run and resume it at the exact step."""
