"""Compose the description of a run from overrides.

The catalog checks every name before Hydra is imported. Hydra then composes the chosen files, and
the settings are put over them. So every mistake gets an error message of clframe's, and no config
can bring code.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clframe.config.apply_overrides import error_messages, find_place, resolve
from clframe.config.groups import EMPTY_CHOICES, GROUPS, NAMED, ROOT_KEYS, SETTINGS
from clframe.config.name_catalog import Catalog
from clframe.config.read_overrides import (
    catalog_of,
    chosen_strategies,
    divide,
    plugin_paths,
    read_single,
    split,
    take_config_dirs,
)
from clframe.errors import SettingError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from clframe.config.run_config import RunConfig


def compose(overrides: Sequence[str]) -> RunConfig:
    """Compose the description of one run.

    With ``resume=RUN``, compose the description of that run, with the other overrides put over it.

    Args:
        overrides: As on the command line, such as ``strategy=ewc`` or ``trainer.max_epochs=2``.

    Raises:
        ClframeError: A name, key or value is invalid.
    """
    others, resume, allowed = divide_resume(overrides)
    others, config_dirs = take_config_dirs(others)
    if resume not in (None, "auto"):
        from clframe.config.compose_over import compose_resumed

        return compose_resumed(str(resume), others, allowed, config_dirs)
    catalog = catalog_of(plugin_paths(others), config_dirs)
    choices, settings = divide(others, catalog)
    with error_messages():
        config, chosen = _compose_groups(choices, catalog)
        _choose_stream(config, str(chosen.get("experiment")))
        _choose_scenario(config, str(chosen.get("experiment")))
        names = chosen_strategies(choices)
        if names is not None:  # What an experiment sets for other plugins does not apply.
            kept = {plugin for n in names for plugin in catalog.get("strategy", n).plugins}
            for plugin in set(config.strategy or {}) - kept:
                del config.strategy[plugin]
        _complete(config, chosen, catalog)
        values = resolve(config, settings, catalog)
    if names is None or any(_takes_plugin_out(word) for word in settings):
        # Hydra knows the name of a single choice, but only the plugins of a list (from the default
        # or an experiment).
        names = [] if names is not None else [str(n) for n in [chosen.get("strategy")] if n]
        names = names or list(values["strategy"] or {})
    from clframe.config.run_config import RunConfig

    values |= {"strategy_name": catalog.strategy_name(names)}
    values |= {"resume": resume, "resume_allow": allowed}
    recorded = [word for word in overrides if not word.startswith("resume")]
    return RunConfig(**values, overrides=recorded)


def divide_resume(overrides: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """Return all other overrides, the run to resume, and the differences that are allowed."""
    others: list[str] = []
    resume: str | None = None
    allowed: list[str] = []
    for override in overrides:
        key, _, value = override.partition("=")
        if key == "resume":
            resume = None if value in ("", "null") else value
        elif key in ("resume.allow", "resume_allow"):
            names = value.strip().strip("[]").split(",")
            allowed += [name.strip().strip("'\"") for name in names if name.strip()]
        else:
            others.append(override)
    return others, resume, allowed


def _takes_plugin_out(override: str) -> bool:
    sign, key, _ = split(override)
    return sign == "~" and key.startswith("strategy.") and key.count(".") == 1


# ---------------------------------------------------------------- Hydra


def _compose_groups(choices: Sequence[str], catalog: Catalog) -> tuple[DictConfig, dict[str, Any]]:
    """Let Hydra compose choices; return the config and what is chosen in each group."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    for choice in choices:
        read_single(choice)
    _store(catalog)
    GlobalHydra.instance().clear()
    folders = [f"'file://{folder}'" for folder in catalog.config_dirs]
    search = [f"hydra.searchpath=[{','.join(folders)}]"] if folders else []
    with initialize_config_module("clframe.configs", version_base="1.3"):
        composed = hydra_compose("fit", overrides=[*search, *choices], return_hydra_config=True)
    chosen = OmegaConf.to_container(composed.hydra.runtime.choices)
    assert isinstance(chosen, dict)
    # `hydra` itself is not part of a run and holds values that only exist in a sweep.
    config = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    OmegaConf.set_struct(config, False)
    return config, {str(key): value for key, value in chosen.items()}


@functools.cache
def _offered_name() -> type[Any]:
    """Return the class of a name in Hydra's store, whose node is made when it is chosen.

    There are hundreds, but a run chooses a few, and Hydra copies its whole store for every run.
    """
    from hydra.core.config_store import ConfigNode
    from omegaconf import OmegaConf

    class OfferedName(ConfigNode):
        def __init__(self, name: str, group: str, content: Mapping[str, Any]) -> None:
            self.name, self.group, self.content = f"{name}.yaml", group, content
            self.package = self.provider = None

        def __getattr__(self, name: str) -> Any:
            if name != "node":
                raise AttributeError(name)
            return OmegaConf.create(dict(self.content))

        def __deepcopy__(self, memo: dict[int, Any]) -> OfferedName:
            return self  # Nobody changes it; loading copies it into its own node.

    return OfferedName


def _store(catalog: Catalog) -> None:
    """Let Hydra's groups offer every name that has no file; Hydra finds the files itself."""
    from hydra.core.config_store import ConfigStore

    contents: dict[str, dict[str, Mapping[str, Any]]] = {
        group: {name: {"name": name} for name in catalog.items[group]} for group in NAMED
    }
    contents["model"][EMPTY_CHOICES["model"]] = {"name": EMPTY_CHOICES["model"]}
    contents["logger"] = {name: {name: {}} for name in catalog.items["logger"]}
    contents["strategy"] = {name: item.plugins for name, item in catalog.items["strategy"].items()}
    for group, choices in contents.items():
        # Hydra would take a node with the name of a file for the schema of the file. Names from
        # the plugins of an earlier run are left out.
        files = {name for name, item in catalog.items[group].items() if item.has_file}
        ConfigStore.instance().repo[group] = {
            f"{name}.yaml": _offered_name()(name, group, content)
            for name, content in choices.items()
            if name not in files
        }


# ---------------------------------------------------------------- what files leave open


def _choose_stream(config: DictConfig, experiment: str) -> None:
    """Apply the settings of an experiment for the run's stream (``streams:``)."""
    if "streams" not in config:
        return
    streams, stream = config.pop("streams"), str(config.stream.name)
    if stream not in streams:
        raise SettingError(
            f"experiment '{experiment}' is for stream={' or stream='.join(map(str, streams))}, not "
            f"for stream={stream}"
        )
    config.merge_with(streams[stream])


def _choose_scenario(config: DictConfig, experiment: str) -> None:
    """Apply the settings of an experiment for the run's scenario (``scenarios:``)."""
    if "scenarios" not in config:
        return
    scenarios = config.pop("scenarios")
    offered = [str(name) for name in scenarios if scenarios[name] is not None]
    if config.scenario is None:
        raise SettingError(
            f"experiment '{experiment}' needs a scenario: scenario={' or scenario='.join(offered)}"
        )
    if str(config.scenario) not in offered:
        raise SettingError(
            f"experiment '{experiment}' is for scenario={' or scenario='.join(offered)}, not for "
            f"scenario={config.scenario}"
        )
    config.merge_with(scenarios[config.scenario])


def _complete(config: DictConfig, chosen: Mapping[str, Any], catalog: Catalog) -> None:
    """Check and complete the content of the chosen files."""
    from omegaconf import OmegaConf

    config.pop("experiment", None)
    for kind in NAMED:
        content = config.get(kind)
        if not content or not isinstance(content.get("name"), str):
            file = f"{kind}={chosen.get(kind)}"
            raise SettingError(f"{file}: its file must say which {kind} it is, such as name: NAME")
    if config.model.name == EMPTY_CHOICES["model"]:
        model = catalog.model_for(config.stream.name, config.learner.name)
        config.model = OmegaConf.merge(model, config.model, {"name": model["name"]})
    if config.scheduler.name == EMPTY_CHOICES["scheduler"]:
        # Of an experiment's schedule that is switched off, no settings remain.
        config.scheduler = {"name": EMPTY_CHOICES["scheduler"]}
    for group in SETTINGS:
        config[group] = config.get(group) or {}
    for key, value in OmegaConf.to_container(config).items():  # type: ignore[union-attr]
        if key not in (*GROUPS, *ROOT_KEYS):  # the bare name of a setting in a file
            del config[key]
            OmegaConf.update(config, find_place(config, str(key), catalog), value, force_add=True)
