"""Where a run comes from and whether it is what it says: verifying runs from their checkpoints."""
