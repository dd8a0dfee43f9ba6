"""Evaluation: what is measured when, and what it is kept in."""
