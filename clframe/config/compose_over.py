"""Compose over the ``config.yaml`` of a run, to continue or fork it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clframe.config.apply_overrides import error_messages, resolve
from clframe.config.groups import EMPTY_CHOICES, ROOT_KEYS
from clframe.config.name_catalog import Catalog
from clframe.config.read_config import read_content
from clframe.config.read_overrides import (
    catalog_of,
    chosen_strategies,
    divide,
    names_in,
    plugin_paths,
    read_single,
    split,
    take_config_dirs,
)
from clframe.config.run_config import RunConfig
from clframe.errors import SettingError
from clframe.runs.received import check_places, say_changed
from clframe.utils.config_files import config_files


def compose_resumed(
    path: str, overrides: Sequence[str], allowed: Sequence[str], config_dirs: Sequence[str] = ()
) -> RunConfig:
    """Return the description of a run that is continued, with overrides put over its own.

    Whether a difference is allowed is decided when the run is resumed; see ``resume.allow``.
    """
    content = read_content(path)
    resumed = compose_over(path, content, overrides, config_dirs)
    if not plugin_paths(overrides):
        say_changed(content, Path(path))
    return resumed.replace(resume_allow=allowed)


def compose_over(
    path: str, content: dict[str, Any], overrides: Sequence[str], config_dirs: Sequence[str] = ()
) -> RunConfig:
    """Return the description in a run's ``config.yaml``, with overrides put over it."""
    from omegaconf import OmegaConf

    # Refuses runs that only Python can continue, and unconfirmed code.
    described = RunConfig.from_content(content, path, overrides)
    check_places(content, Path(path), overrides)
    if not overrides:
        return described
    content, files = dict(content), content.get("plugin_files")
    catalog = catalog_of(plugin_paths(overrides) or described.plugin_paths, config_dirs)
    choices, settings = divide(overrides, catalog)
    name, recorded = content.pop("strategy_name", None), content.pop("overrides", None)
    fork = content.pop("fork", None)
    content.pop("plugin_files", None)
    with error_messages():
        for choice in choices:
            sign, key, _ = split(choice)
            if key in ("experiment", "trainer"):
                raise SettingError(
                    f"'{choice}' describes another run; resume=RUN takes single settings, such as "
                    "trainer.max_epochs=20"
                )
            if sign == "~":
                content.pop(key, None)
            else:
                content[key] = _chosen(choice, content, catalog)
        made = resolve(OmegaConf.create(content), settings, catalog)
    if files is not None and not any(word.startswith("plugin_path=") for word in overrides):
        made["plugin_files"] = files
    resumed = RunConfig.from_content(made, path, overrides)
    recorded = None if not isinstance(recorded, list) else [*recorded, *overrides]
    return resumed.replace(strategy_name=name, overrides=recorded, fork=fork)


def compose_forked(path: str, overrides: Sequence[str]) -> RunConfig:
    """Return the description of a new run: another run's, with overrides put over it."""
    for word in overrides:
        if word.partition("=")[0] in ("resume", "resume.allow", "resume_allow", "seeds"):
            raise SettingError(f"'{word}': a fork is a new run; leave this argument out")
    overrides, config_dirs = take_config_dirs(overrides)
    content = read_content(path)
    content.pop("fork", None)
    forked = compose_over(path, content, overrides, config_dirs)
    catalog = catalog_of(forked.plugin_paths, config_dirs)
    names = chosen_strategies(divide(overrides, catalog)[0])
    return forked if names is None else forked.replace(strategy_name=catalog.strategy_name(names))


def _chosen(choice: str, content: Mapping[str, Any], catalog: Catalog) -> Any:
    """Return the config content for a choice."""
    _, key, _ = split(choice)
    if key in ROOT_KEYS:
        return read_single(choice).value()
    names = names_in(choice)
    if key == "strategy":
        plugins = [catalog.get("strategy", name).plugins for name in names]
        return {plugin: dict(values) for chosen in plugins for plugin, values in chosen.items()}
    if key == "model" and names[0] == EMPTY_CHOICES["model"]:
        return catalog.model_for(content["stream"]["name"], content["learner"]["name"])
    files = config_files(key, [Path(folder) for folder in catalog.config_dirs])
    if key == "logger":
        contents = [files[name].read() if name in files else {name: {}} for name in names]
        return {name: values for content in contents for name, values in content.items()}
    return files[names[0]].read() if names[0] in files else {"name": names[0]}
