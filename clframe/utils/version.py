"""The version of clframe, said once."""

__version__ = "0.1.0"
