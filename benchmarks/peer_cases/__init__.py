"""A file for each program that ``peers.py`` runs in an environment of its own."""
