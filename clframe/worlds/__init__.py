"""Simulators, renderer and task languages, which know nothing of continual learning."""
