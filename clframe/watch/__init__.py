"""Follow runs through their folders: current work, results and time left.

This package never writes to a run folder, takes its lock or imports torch.
"""
