"""From the command line to checked settings: Hydra composes, the registry decides what exists.

Hydra merges files and overrides; names and types are then checked against the signatures of what
was chosen, so that every mistake gets a sentence of ours and no config can bring code.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clframe.checkpoint.settings import CheckpointSettings
from clframe.config.run_config import RunConfig
from clframe.core.registry import GIVEN, Kind, Registry, discover
from clframe.core.trainer import TrainerSettings
from clframe.errors import SettingError, UnknownNameError, nearest
from clframe.runs.folder import RunFolder
from clframe.strategies import known_strategies
from clframe.utils import settings

GROUPS = (
    "stream",
    "strategy",
    "model",
    "optimizer",
    "scheduler",
    "trainer",
    "checkpoint",
    "logger",
    "experiment",
)
ROOT_KEYS = (
    "seed",
    "scenario",
    "data_dir",
    "download",
    "active_outputs",
    "pretrain",
    "plugin_path",
    "run_dir",
    "resume",
)
_DEFAULT_MODEL = "default"
"""Stands in the config where no model is chosen: the stream says which one it is."""
_NO_SCHEDULER = "none"

_KEY = re.compile(r"\+{0,2}[A-Za-z_][\w.]*")


def compose(overrides: Sequence[str]) -> RunConfig:
    """Compose the description of one run.

    With ``resume=RUN`` it is that run's own, with what else is given put over it.

    Args:
        overrides: As on the command line, such as ``strategy=ewc`` or ``trainer.max_epochs=2``.

    Raises:
        ClframeError: A name, key or value is not right.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    overrides, resume, allowed = divide_resume(overrides)
    if resume not in (None, "auto"):
        return compose_resumed(str(resume), overrides, allowed)
    registry = discover(plugin_paths(overrides))
    choices, values = divide(overrides, registry)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_module("clframe.configs", version_base="1.3"):
            composed = hydra_compose("fit", overrides=choices, return_hydra_config=True)
        chosen = OmegaConf.to_container(composed.hydra.runtime.choices)
        # `hydra` itself is not part of a run and holds values that only exist in a sweep.
        own = OmegaConf.masked_copy(composed, [str(k) for k in composed if k != "hydra"])
        content = OmegaConf.to_container(own, resolve=True)
        parsed = [_parse(value) for value in values]
    except (HydraException, OmegaConfBaseException) as error:
        raise SettingError(_sentence(error)) from error
    assert isinstance(content, dict)
    assert isinstance(chosen, dict)
    config = {str(key): value for key, value in content.items()}
    if config["model"]["name"] == _DEFAULT_MODEL:
        config["model"] |= registry.model_for(config["stream"]["name"])
    if config["scheduler"]["name"] == _NO_SCHEDULER:
        # Of an experiment's schedule that is switched off, no settings are left.
        config["scheduler"] = {"name": _NO_SCHEDULER}
    for key, value in parsed:
        _set(config, key, value, registry)
    made = arguments(config, registry)
    name = _strategy_name(choices, chosen, made["strategy"] or {})
    made |= {"strategy_name": name, "resume": resume, "resume_allow": allowed}
    return RunConfig(**made)


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


def compose_resumed(path: str, overrides: Sequence[str], allowed: Sequence[str]) -> RunConfig:
    """The description of a run that is continued, with overrides put over what it was made with.

    Whether a difference is allowed is decided when the run is resumed; see ``resume.allow``.
    """
    from hydra.errors import HydraException

    content = RunFolder(Path(path)).read_config()
    RunConfig.from_content(content, path)  # refuses a run that only Python can continue
    if not overrides:
        return RunConfig.from_content(content, path).replace(resume_allow=allowed)
    registry = discover(plugin_paths(overrides) or content.get("plugin_path") or ())
    choices, values = divide(overrides, registry)
    name = content.pop("strategy_name", None)
    try:
        for key, value in map(_parse, choices):
            if key in ("experiment", "trainer"):
                raise SettingError(
                    f"'{key}={value}' describes another run; resume=RUN takes single settings, "
                    "such as trainer.max_epochs=20"
                )
            content[key] = _chosen(key, value, registry)
        for key, value in map(_parse, values):
            _set(content, key, value, registry)
    except HydraException as error:
        raise SettingError(_sentence(error)) from error
    made = arguments(content, registry)
    config = RunConfig.from_content(made, path)
    return config.replace(strategy_name=name, resume_allow=allowed)


def _chosen(key: str, value: Any, registry: Registry) -> Any:
    """What a group's choice puts into the config."""
    if key in ROOT_KEYS:
        return value
    names = [str(name) for name in (value if isinstance(value, list) else [value])]
    if key == "strategy":
        known = known_strategies(registry)
        return {plugin: dict(v) for name in names for plugin, v in known[name].plugins.items()}
    if key == "logger":
        return {name: {} for name in names if name != "none"}
    return {"name": names[0]}


def plugin_paths(overrides: Sequence[str]) -> list[str]:
    """The files named by ``plugin_path=``, needed before anything else can be checked."""
    found: list[str] = []
    for override in overrides:
        if override.startswith("plugin_path="):
            value = override.partition("=")[2].strip().strip("[]")
            found += [path.strip().strip("'\"") for path in value.split(",") if path.strip()]
    return [path for path in found if path != "null"]


def divide(overrides: Sequence[str], registry: Registry) -> tuple[list[str], list[str]]:
    """Overrides that choose among Hydra's groups, with their names checked, and all others."""
    store(registry)
    known = known_names(registry)
    choices: list[str] = []
    values: list[str] = []
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise SettingError(f"'{override}' is not a setting; write key=value")
        key = key.lstrip("+")
        if key not in known:
            (choices if key in ("trainer", *ROOT_KEYS) else values).append(f"{key}={value}")
            continue
        for name in _names(value):
            if name in known[key]:
                continue
            if key == "model" and _is_backbone(name):
                choices.append("model=timm")
                values.append(f"model.backbone={name}")
                break
            raise UnknownNameError(f"unknown {key} '{name}'; {nearest(name, known[key])}")
        else:
            choices.append(f"{key}={value}")
    return choices, values


def known_names(registry: Registry) -> dict[str, Sequence[str]]:
    """What can be chosen in each of Hydra's groups."""
    return {
        "stream": registry.names("stream"),
        "strategy": list(known_strategies(registry)),
        "model": registry.names("model"),
        "optimizer": registry.names("optimizer"),
        "scheduler": registry.names("scheduler"),
        "logger": [*registry.names("logger"), "none"],
        "experiment": experiments(),
    }


def experiments() -> list[str]:
    """The named experiments under ``configs/experiment``."""
    root = importlib.resources.files("clframe.configs") / "experiment"
    with importlib.resources.as_file(root) as folder:
        files = sorted(folder.rglob("[!_]*.yaml"))
        return [file.relative_to(folder).with_suffix("").as_posix() for file in files]


def _is_backbone(name: str) -> bool:
    from clframe.models.backbone import is_backbone

    return is_backbone(name)


def _parse(override: str) -> tuple[str, Any]:
    """Key and value of an override, read by Hydra's grammar."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parsed = OverridesParser.create().parse_override(override)
    if parsed.is_sweep_override():
        raise SettingError(f"'{override}' names several values; put -m after fit to sweep them")
    return parsed.key_or_group, parsed.value()


def _set(config: dict[str, Any], key: str, value: Any, registry: Registry) -> None:
    """Put one value where its dotted key says, refusing places that are not there."""
    group, _, rest = key.partition(".")
    if not rest:
        config[key] = value
        return
    if group not in GROUPS or group == "experiment":
        raise SettingError(f"unknown key '{key}'; {nearest(group, (*GROUPS, *ROOT_KEYS))}")
    target = config[group] = config.get(group) or {}
    if group in ("strategy", "logger"):
        name, _, rest = rest.partition(".")
        if name not in target:
            words = "part of this strategy" if group == "strategy" else "a logger of this run"
            raise SettingError(f"'{key}': '{name}' is not {words}; {nearest(name, target)}")
        if not rest:
            raise SettingError(f"'{key}': write {key}.SETTING=value")
        target[name] = target[name] or {}
        target = target[name]
    if "." in rest:
        raise SettingError(f"'{key}' has too many parts; settings are {group}.NAME=value")
    target[rest] = value


def _names(value: str) -> list[str]:
    """The names in ``ewc``, ``[ewc,replay]`` or the sweep ``ewc,si``."""
    return [name.strip() for name in value.strip().strip("[]").split(",") if name.strip()]


def store(registry: Registry) -> None:
    """Let Hydra's config groups offer every registered name."""
    from hydra.core.config_store import ConfigStore

    configs = ConfigStore.instance()
    groups: tuple[Kind, ...] = ("stream", "model", "optimizer", "scheduler")
    for group in groups:
        folder = importlib.resources.files("clframe.configs") / group
        for name in registry.names(group):
            if not (folder / f"{name}.yaml").is_file():
                configs.store(name, {"name": name}, group=group)
    configs.store(_DEFAULT_MODEL, {"name": _DEFAULT_MODEL}, group="model")
    for name in registry.names("logger"):
        configs.store(name, {name: {}}, group="logger")
    configs.store("none", {}, group="logger")
    for name, strategy in known_strategies(registry).items():
        if not strategy.has_file:
            configs.store(name, strategy.plugins, group="strategy")


def arguments(content: dict[str, Any], registry: Registry) -> dict[str, Any]:
    """The arguments of :func:`clframe.fit`, with bare names put where they belong."""
    known = {key: content.pop(key) for key in (*GROUPS, *ROOT_KEYS) if key in content}
    known.pop("experiment", None)
    for name in known["strategy"] or {}:
        registry.get("plugin", name)
    known["trainer"] = known.get("trainer") or {}
    known["checkpoint"] = known.get("checkpoint") or {}
    known["scheduler"] = known.get("scheduler") or {"name": _NO_SCHEDULER}
    for key, value in content.items():
        _place(known, key, value, registry)
    for name, values in (known["strategy"] or {}).items():
        checked: dict[str, Any] = values or {}
        settings.check(registry.get("plugin", name).factory, checked, f"plugin '{name}'")
    return known


def _place(known: dict[str, Any], key: str, value: Any, registry: Registry) -> None:
    """Put a bare setting into the one group that has it."""
    homes: list[tuple[str, dict[str, Any]]] = []
    kinds: tuple[Kind, ...] = ("stream", "model", "optimizer", "scheduler")
    offered: set[str] = {*GROUPS, *ROOT_KEYS}

    def offer(where: str, target: dict[str, Any], factory: Callable[..., Any]) -> None:
        offered.update(settings.defaults(factory, GIVEN["model"]))
        if settings.accepts(factory, key):
            homes.append((where, target))

    for kind in kinds:
        offer(kind, known[kind], registry.get(kind, known[kind]["name"]).factory)
    offer("trainer", known["trainer"], TrainerSettings)
    offer("checkpoint", known["checkpoint"], CheckpointSettings)
    for name in known["strategy"] or {}:
        known["strategy"][name] = known["strategy"][name] or {}
        offer(f"strategy.{name}", known["strategy"][name], registry.get("plugin", name).factory)
    if not homes:
        raise SettingError(f"unknown key '{key}'; {nearest(key, offered)}")
    if len(homes) > 1:
        places = " or ".join(f"{where}.{key}" for where, _ in homes)
        raise SettingError(f"'{key}' could be {places}; write which one you mean")
    homes[0][1][key] = value


def _strategy_name(
    overrides: Sequence[str], chosen: dict[Any, Any], plugins: dict[str, Any]
) -> str:
    """The strategy's name for the records: its parts joined by a plus sign."""
    for override in reversed(overrides):
        if override.startswith("strategy="):
            return "+".join(_names(override.partition("=")[2]))
    # Hydra tells a single choice; of a list (the default's, an experiment's) the plugins are left.
    return str(chosen.get("strategy") or "+".join(plugins) or "naive")


def _sentence(error: Exception) -> str:
    """Hydra's message as one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3]) if lines else type(error).__name__
