"""Registered names that have no config file, as Hydra's groups offer them."""

from __future__ import annotations

from typing import Any

from clframe.core.config_files import config_files
from clframe.core.registry import Kind, Registry
from clframe.strategies import known_strategies

DEFAULT_MODEL = "default"
"""Stands in the config where no model is chosen: the stream says which one it is."""


def store(registry: Registry) -> None:
    """Let Hydra's config groups offer every registered name that has no file."""
    from hydra.core.config_store import ConfigStore

    configs = ConfigStore.instance()
    groups: tuple[Kind, ...] = ("stream", "model", "learner", "optimizer", "scheduler")
    nodes: dict[str, dict[str, Any]] = {
        group: {name: {"name": name} for name in registry.names(group)} for group in groups
    }
    nodes["model"][DEFAULT_MODEL] = {"name": DEFAULT_MODEL}
    nodes["logger"] = {name: {name: {}} for name in registry.names("logger")}
    nodes["strategy"] = {
        name: strategy.plugins for name, strategy in known_strategies(registry).items()
    }
    for group, choices in nodes.items():
        configs.repo.pop(group, None)  # what an earlier run's plugins had is not for this one
        # Hydra would take a node of a file's name for the schema of the file.
        for name in choices.keys() - config_files(group, registry.config_dirs).keys():
            configs.store(name, choices[name], group=group)
