"""Demonstrations in other projects' layouts, one module or package per layout."""
