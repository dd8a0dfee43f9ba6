"""Evaluation: what is evaluated when, and how it is stored."""
