"""Plugins of every run: the loop, the evaluators, the records and the progress display."""
