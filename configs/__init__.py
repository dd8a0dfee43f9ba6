"""The Hydra configs, importable as ``clframe.configs``."""
