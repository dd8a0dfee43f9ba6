"""Strategies inside somebody else's training code; :func:`clframe.attach` is the entry point."""
