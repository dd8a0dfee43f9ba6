"""Loggers of a run, by name: Lightning loggers."""
