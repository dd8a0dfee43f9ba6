"""Demonstrations in the layouts of others, one file or folder a layout."""
