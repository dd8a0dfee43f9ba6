"""From the command line to checked settings: Hydra composes, the registry decides what exists.

Hydra merges files and overrides; names and types are then checked against the signatures of what
was chosen, so that every mistake gets a sentence of ours and no config can bring code.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.config.changes import change
from clframe.config.config_store import DEFAULT_MODEL, store
from clframe.config.overrides import (
    EMPTY_CHOICES,
    names_of,
    read_single,
    split_plus,
    take_config_dirs,
)
from clframe.config.place import GROUPS, NO_SCHEDULER, ROOT_KEYS, arguments
from clframe.config.run_config import RunConfig, read_content
from clframe.core.registry import Kind, Registry, discover
from clframe.errors import SettingError, UnknownNameError, nearest
from clframe.runs.received import check_places, plugin_paths, say_changed
from clframe.strategies import joined, known_strategies, measuring_plugins
from clframe.utils.config_files import config_files

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig


def compose(overrides: Sequence[str]) -> RunConfig:
    """Compose the description of one run.

    With ``resume=RUN`` it is that run's own, with what else is given put over it.

    Args:
        overrides: As on the command line, such as ``strategy=ewc`` or ``trainer.max_epochs=2``.

    Raises:
        ClframeError: A name, key or value is not right.
    """
    from omegaconf import OmegaConf

    asked = list(overrides)
    overrides, resume, allowed = divide_resume(overrides)
    overrides, config_dirs = take_config_dirs(overrides)
    if resume not in (None, "auto"):
        return compose_resumed(str(resume), overrides, allowed, config_dirs)
    registry = discover(plugin_paths(overrides), config_dirs)
    choices, changes = divide(overrides, registry)
    with _sentences():
        config, chosen = _compose_groups(choices, registry)
        _choose_stream(config, str(chosen.get("experiment")))
        _choose_scenario(config, str(chosen.get("experiment")))
        names = _chosen_strategies(choices)
        if names is not None:  # what an experiment sets for others is not for these
            known = known_strategies(registry)
            kept = {plugin for name in names for plugin in known[name].plugins}
            for plugin in set(config.strategy or {}) - kept:
                del config.strategy[plugin]
        for group in ("stream", "model", "learner", "optimizer", "scheduler"):
            _check_named(group, config.get(group), chosen.get(group))
        if config.model.name == DEFAULT_MODEL:
            model = registry.model_for(config.stream.name, config.learner.name)
            config.model = OmegaConf.merge(model, config.model, {"name": model["name"]})
        if config.scheduler.name == NO_SCHEDULER:
            # Of an experiment's schedule that is switched off, no settings are left.
            config.scheduler = {"name": NO_SCHEDULER}
        for override in changes:
            change(config, override, (*GROUPS, *ROOT_KEYS))
        made = arguments(config, registry)
    if names is None or any(_takes_plugin_out(override) for override in changes):
        # Hydra tells a single choice; of a list (the default's, an experiment's) the plugins are
        # left.
        names = [] if names is not None else [str(n) for n in [chosen.get("strategy")] if n]
        names = names or list(made["strategy"] or {})
    name = joined(names, measuring_plugins(registry))
    made |= {"strategy_name": name, "resume": resume, "resume_allow": allowed}
    made["overrides"] = [word for word in asked if not word.startswith("resume")]
    return RunConfig(**made)


def _compose_groups(
    choices: Sequence[str], registry: Registry
) -> tuple[DictConfig, dict[str, Any]]:
    """What Hydra makes of choices, and what is chosen in each group then."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    GlobalHydra.instance().clear()
    folders = [f"'file://{folder}'" for folder in registry.config_dirs]
    search = [f"hydra.searchpath=[{','.join(folders)}]"] if folders else []
    with initialize_config_module("clframe.configs", version_base="1.3"):
        composed = hydra_compose("fit", overrides=[*search, *choices], return_hydra_config=True)
    chosen = OmegaConf.to_container(composed.hydra.runtime.choices)
    assert isinstance(chosen, dict)
    # `hydra` itself is not part of a run and holds values that only exist in a sweep.
    config = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    OmegaConf.set_struct(config, False)
    return config, {str(key): value for key, value in chosen.items()}


def _choose_stream(config: DictConfig, experiment: str) -> None:
    """Put what an experiment has for the run's stream (``streams:``) over the rest of it."""
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
    """Put what an experiment has for the run's scenario (``scenarios:``) over the rest of it."""
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


def _check_named(group: str, content: Any, chosen: Any) -> None:
    if not content or not isinstance(content.get("name"), str):
        raise SettingError(
            f"{group}={chosen}: its file must say which {group} it is, such as name: NAME"
        )


def _chosen_strategies(choices: Sequence[str]) -> list[str] | None:
    """The strategies named on the command line; None if there are none."""
    for choice in reversed(choices):
        if choice.startswith("strategy="):
            return names_of(read_single(choice))
    return None


def _takes_plugin_out(override: Override) -> bool:
    parts = override.key_or_group.split(".")
    return override.is_delete() and parts[0] == "strategy" and len(parts) == 2


def divide_resume(overrides: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """All other overrides, what to resume, and what may be different then."""
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


def compose_resumed(
    path: str, overrides: Sequence[str], allowed: Sequence[str], config_dirs: Sequence[str] = ()
) -> RunConfig:
    """The description of a run that is continued, with overrides put over what it was made with.

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
    """The description that a run's ``config.yaml`` holds, with overrides put over it."""
    from omegaconf import OmegaConf

    # Refuses what only Python can continue, and code that the user has not confirmed.
    described = RunConfig.from_content(content, path, overrides)
    check_places(content, Path(path), overrides)
    if not overrides:
        return described
    content, files = dict(content), content.get("plugin_files")
    registry = discover(plugin_paths(overrides) or described.plugin_paths, config_dirs)
    choices, changes = divide(overrides, registry)
    name, asked = content.pop("strategy_name", None), content.pop("overrides", None)
    fork = content.pop("fork", None)
    content.pop("plugin_files", None)
    with _sentences():
        for override in map(read_single, choices):
            key = override.key_or_group
            if key in ("experiment", "trainer"):
                raise SettingError(
                    f"'{override.input_line}' describes another run; resume=RUN takes single "
                    "settings, such as trainer.max_epochs=20"
                )
            if override.is_delete():
                content.pop(key, None)
            else:
                content[key] = _chosen(override, content, registry)
        config = OmegaConf.create(content)
        for override in changes:
            change(config, override, (*GROUPS, *ROOT_KEYS))
        made = arguments(config, registry)
    if files is not None and not any(word.startswith("plugin_path=") for word in overrides):
        made["plugin_files"] = files
    resumed = RunConfig.from_content(made, path, overrides)
    asked = None if not isinstance(asked, list) else [*asked, *overrides]
    return resumed.replace(strategy_name=name, overrides=asked, fork=fork)


def compose_forked(path: str, overrides: Sequence[str]) -> RunConfig:
    """The description of a run with overrides put over it, as that of a run of its own."""
    for word in overrides:
        if word.partition("=")[0] in ("resume", "resume.allow", "resume_allow", "seeds"):
            raise SettingError(f"'{word}': fork makes a run of its own, which takes no such word")
    overrides, config_dirs = take_config_dirs(overrides)
    content = read_content(path)
    content.pop("fork", None)
    forked = compose_over(path, content, overrides, config_dirs)
    registry = discover(forked.plugin_paths, config_dirs)
    choices = divide(overrides, registry)[0]
    names = _chosen_strategies(choices)
    if names is not None:
        forked = forked.replace(strategy_name=joined(names, measuring_plugins(registry)))
    return forked


def _chosen(override: Override, content: Mapping[str, Any], registry: Registry) -> Any:
    """What a group's choice puts into the config."""
    key = override.key_or_group
    if key in ROOT_KEYS:
        return override.value()
    names = names_of(override)
    if key == "strategy":
        known = known_strategies(registry)
        return {plugin: dict(v) for name in names for plugin, v in known[name].plugins.items()}
    if key == "model" and names[0] == DEFAULT_MODEL:
        return registry.model_for(content["stream"]["name"], content["learner"]["name"])
    files = config_files(key, registry.config_dirs)
    if key == "logger":
        names = ["lightning" if "." in name else name for name in names]
        contents = [files[name].read() if name in files else {name: {}} for name in names]
        return {name: values for content in contents for name, values in content.items()}
    return files[names[0]].read() if names[0] in files else {"name": names[0]}


def divide(overrides: Sequence[str], registry: Registry) -> tuple[list[str], list[Override]]:
    """Overrides that choose among Hydra's groups, with their names checked, and all others."""
    store(registry)
    known = known_names(registry)
    choices: list[str] = []
    changes: list[Override] = []
    for word in map(split_plus, overrides):
        override = read_single(word)
        key, text = override.key_or_group, word.partition("=")[2]
        if key in ROOT_KEYS:
            choices.append(f"~{key}" if override.is_delete() else f"{key}={text}")
            continue
        if key not in known:
            changes.append(override)
            continue
        names = names_of(override)
        if override.is_add() and key in ("strategy", "logger"):
            raise SettingError(f"'{word}': write all that there shall be: {key}=[a,{text}]")
        if override.is_delete() or not names:
            if key not in EMPTY_CHOICES:
                raise SettingError(f"'{word}': {key} cannot be left out; write {key}=NAME")
            if override.is_delete() and names:
                raise SettingError(f"'{word}': write ~{key}, or {key}=NAME for another one")
            choices.append(f"{key}={EMPTY_CHOICES[key]}")
            continue
        for name in names:
            if name in known[key]:
                continue
            if key == "logger" and "." in name:
                continue  # the class of a Lightning logger
            if key == "model" and _is_backbone(name):
                choices.append("model=timm")
                changes.append(read_single(f"model.backbone={name}"))
                break
            raise UnknownNameError(f"unknown {key} '{name}'; {nearest(name, known[key])}")
        else:
            if key == "logger":
                text, named = by_class(names, text)
                changes += named
            choices.append(f"{key}={text}")
    return choices, changes


def by_class(names: Sequence[str], text: str) -> tuple[str, list[Override]]:
    """The choice of loggers with ``lightning`` in place of a class, and the setting that names it.

    Raises:
        SettingError: There are several.
    """
    classes = [name for name in names if "." in name]
    if not classes:
        return text, []
    if len(classes) > 1 or "lightning" in names:
        raise SettingError(f"'logger={text}' names several classes; a run can have one of them")
    chosen = ["lightning" if "." in name else name for name in names]
    return f"[{','.join(chosen)}]", [read_single(f"logger.lightning.class_path={classes[0]}")]


def known_names(registry: Registry) -> dict[str, Sequence[str]]:
    """What can be chosen in each of Hydra's groups."""

    def names(group: Kind) -> list[str]:
        files = config_files(group, registry.config_dirs)
        for name in registry.names(group):
            if name in files and files[name].from_user:
                raise SettingError(
                    f"'{files[name].path}' has the name of a {group} that there is already; call "
                    "it differently"
                )
        return sorted({*registry.names(group), *files})

    return {
        "stream": names("stream"),
        "strategy": list(known_strategies(registry)),
        "model": names("model"),
        "learner": names("learner"),
        "optimizer": names("optimizer"),
        "scheduler": names("scheduler"),
        "trainer": list(config_files("trainer", registry.config_dirs)),
        "logger": sorted({*names("logger"), "none"}),
        "experiment": experiments(registry.config_dirs),
    }


def experiments(config_dirs: Sequence[Path] = ()) -> list[str]:
    """The named experiments: clframe's own, and those in the user's config folders."""
    return list(config_files("experiment", config_dirs))


def _is_backbone(name: str) -> bool:
    from clframe.models.backbone import is_backbone

    return is_backbone(name)


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    """Hydra's and OmegaConf's errors as ours."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise SettingError(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    """A message of Hydra's as one line; of a resolver's error, what it says itself."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    ours = re.match(r"SettingError raised while resolving interpolation: (.*)", first)
    if ours:
        return ours[1]
    keys = [line.removeprefix("full_key: ") for line in lines if line.startswith("full_key: ")]
    said = [line for line in lines[1:] if not line.startswith(("full_key:", "object_type="))]
    return " ".join([*(f"{key}:" for key in keys[:1]), first, *said[:2]])
