"""Sources of experiences, one file per family."""
