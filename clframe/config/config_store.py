"""Registered names that have no config file, as Hydra's groups offer them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import OmegaConf

from clframe.core.registry import Kind, Registry
from clframe.strategies import known_strategies
from clframe.utils.config_files import config_files

DEFAULT_MODEL = "default"
"""Stands in the config where no model is chosen: the stream says which one it is."""


class OfferedName(ConfigNode):
    """A name in Hydra's store, whose node is made when it is chosen.

    There are hundreds, a run chooses a few, and Hydra copies its whole store for every run.

    Args:
        name: What is chosen.
        group: Among these.
        content: What it puts into the config.
    """

    def __init__(self, name: str, group: str, content: Mapping[str, Any]) -> None:
        self.name, self.group = f"{name}.yaml", group
        self.package = self.provider = None
        self.content = content

    def __getattr__(self, name: str) -> Any:
        if name != "node":
            raise AttributeError(name)
        return OmegaConf.create(dict(self.content))

    def __deepcopy__(self, memo: dict[int, Any]) -> OfferedName:
        return self  # nobody changes it: what is loaded from the store is a copy with its own node


def store(registry: Registry) -> None:
    """Let Hydra's config groups offer every registered name that has no file."""
    repository = ConfigStore.instance().repo
    groups: tuple[Kind, ...] = ("stream", "model", "learner", "optimizer", "scheduler")
    contents: dict[str, dict[str, Any]] = {
        group: {name: {"name": name} for name in registry.names(group)} for group in groups
    }
    contents["model"][DEFAULT_MODEL] = {"name": DEFAULT_MODEL}
    contents["logger"] = {name: {name: {}} for name in registry.names("logger")}
    contents["strategy"] = {
        name: strategy.plugins for name, strategy in known_strategies(registry).items()
    }
    for group, choices in contents.items():
        # Hydra would take a node of a file's name for the schema of the file.
        names = choices.keys() - config_files(group, registry.config_dirs).keys()
        # What an earlier run's plugins had is not for this one.
        repository[group] = {
            f"{name}.yaml": OfferedName(name, group, choices[name]) for name in names
        }
