"""Sweeps: many runs from one command, on this machine, on Slurm or on a Ray cluster."""
