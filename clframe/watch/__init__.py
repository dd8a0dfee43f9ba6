"""Follow runs by their folders alone: what they do, what they have measured, when they are done.

Nothing here writes to a run folder, takes its lock or imports torch.
"""
