"""What every run has: the loop, the evaluators, the records and what is shown."""
