"""From overrides to the description of a run."""
