"""Heads of imitation policies: outputs, losses, and acting."""
