"""Heads of policies that imitate: what outputs mean, how they are learned, and how one acts."""
