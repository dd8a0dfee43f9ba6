"""The version of clframe."""

__version__ = "0.1.0"
