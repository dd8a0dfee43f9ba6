"""Record a run: build the content of its ``config.yaml``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.checkpoint.settings import CheckpointSettings
from clframe.config.setting_groups import evaluation_settings, logging_settings
from clframe.config.to_overrides import given_overrides
from clframe.core.learner_factory import name_of
from clframe.runs.received import copy_names
from clframe.utils import setting_checks

if TYPE_CHECKING:
    from clframe.config.run_config import RunConfig
    from clframe.core.plugin import Plugin
    from clframe.core.registry import Kind, Registry
    from clframe.core.stream import Stream
    from clframe.core.trainer import TrainerSettings

_OF_LIGHTNING = ("class_path", "init_args")
"""Settings of the logger ``lightning`` that are not settings of the class it names."""


def content_of(
    config: RunConfig,
    registry: Registry,
    stream: Stream,
    trainer: TrainerSettings,
    strategy: tuple[str, Sequence[Plugin]],
) -> dict[str, Any]:
    """Return the content of ``config.yaml``: every setting as the run has it."""
    model: Any = config.model
    if model is None:
        model = registry.model_for(stream.name, name_of(config.learner))
    name, plugins = strategy
    checkpoint = setting_checks.check(CheckpointSettings, config.checkpoint or {}, "checkpoint")
    return {
        "stream": record(registry, "stream", config.stream),
        "strategy": {plugin.name: settings_of_plugin(plugin) for plugin in plugins},
        "model": record(registry, "model", model),
        "learner": _learner_record(config, registry, stream.name),
        "optimizer": record(registry, "optimizer", config.optimizer),
        "scheduler": record(registry, "scheduler", config.scheduler),
        "trainer": plain(vars(trainer)),
        "evaluation": plain(vars(evaluation_settings(config.evaluation))),
        "logging": plain(vars(logging_settings(config.logging))),
        "checkpoint": plain(vars(CheckpointSettings(**checkpoint))),
        "logger": {logger: logger_settings(config, logger) for logger in config.logger_names},
        "scenario": stream.scenario,
        "seed": config.seed,
        "data_dir": None if config.data_dir is None else str(config.data_dir),
        "download": config.download,
        "active_outputs": config.active_outputs,
        "pretrain": None if config.pretrain is None else str(config.pretrain),
        "plugin_path": [str(path) for path in config.named_files] or None,
        **copies(config.named_files, registry),
        "strategy_name": name,
        "overrides": _overrides_of(config),
        **({} if config.fork is None else {"fork": plain(config.fork)}),
    }


def _overrides_of(config: RunConfig) -> list[str] | None:
    """Return the overrides that ask for this run; None if Python objects are part of it."""
    if config.overrides is None:
        fields = dataclasses.fields(config)
        values = {entry.name: getattr(config, entry.name) for entry in fields}
        return given_overrides(values, {entry.name: entry.default for entry in fields})
    ignored = ("run_dir", "resume", "seed", "seeds", "sweep_dir", "progress", "config_dir")
    kept = [text for text in map(str, config.overrides) if text.partition("=")[0] not in ignored]
    return [*kept, f"seed={config.seed}"]


def _learner_record(config: RunConfig, registry: Registry, stream: str) -> dict[str, Any]:
    """Return the learner's name with all settings, including those of the stream."""
    chosen = {"name": config.learner} if isinstance(config.learner, str) else dict(config.learner)
    defaults = registry.learner_for(stream, name_of(config.learner))
    return record(registry, "learner", {**defaults, **chosen})


def record(registry: Registry, kind: Kind, named: Any) -> dict[str, Any]:
    """Return an object as config.yaml records it: its name with all settings, or its class."""
    if isinstance(named, str):
        named = {"name": named}
    if not isinstance(named, Mapping):
        return {"object": f"{type(named).__module__}.{type(named).__qualname__}"}
    name = named["name"]
    return {"name": name, **registry.settings_of(kind, name), **plain(dict(named))}


def logger_settings(config: RunConfig, name: str) -> dict[str, Any]:
    """Return the settings of a chosen logger; for ``lightning``, its class has settings, too."""
    settings = dict(config.logger.get(name) or {}) if isinstance(config.logger, Mapping) else {}
    if name == "lightning":
        own = {key: settings.pop(key) for key in list(settings) if key not in _OF_LIGHTNING}
        settings["init_args"] = {**(settings.get("init_args") or {}), **own}
    return settings


def settings_of_plugin(plugin: Plugin) -> dict[str, Any]:
    """Return a plugin's settings from its attributes of the same names."""
    return {
        name: plain(getattr(plugin, name, value))
        for name, value in setting_checks.defaults(type(plugin)).items()
    }


def plain(value: Any) -> Any:
    """Return a value as config.yaml has it; an object of another type as its text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def copies(names: Sequence[str | Path], registry: Registry) -> dict[str, Any]:
    """Return the entries that list the run folder's copies of the plugin files."""
    files = [
        {"file": copy, "sha256": file.sha256}
        for copy, file in zip(copy_names(names), registry.files, strict=False)
    ]
    return {"plugin_files": files} if files else {}
