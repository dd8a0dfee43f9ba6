"""From a composed config to the arguments of a run: every bare name finds the group that has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clframe.checkpoint.settings import CheckpointSettings
from clframe.config.changes import resolve
from clframe.core.learner_factory import STREAMS_OWN
from clframe.core.registry import GIVEN, Kind, Registry
from clframe.core.trainer import TrainerSettings
from clframe.errors import SettingError, nearest
from clframe.utils import setting_checks

if TYPE_CHECKING:
    from omegaconf import DictConfig

GROUPS = (
    "stream",
    "strategy",
    "model",
    "learner",
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
    "progress",
)
NO_SCHEDULER = "none"


def arguments(config: DictConfig, registry: Registry) -> dict[str, Any]:
    """The arguments of :func:`clframe.fit`, with bare names put where they belong."""
    from omegaconf import OmegaConf

    # Bare names find their place before interpolations are resolved, which may refer to it.
    content: Any = OmegaConf.to_container(config)
    known = {key: content.pop(key) for key in (*GROUPS, *ROOT_KEYS) if key in content}
    known.pop("experiment", None)
    for name in known["strategy"] or {}:
        registry.get("plugin", name)
    known["trainer"] = known.get("trainer") or {}
    known["checkpoint"] = known.get("checkpoint") or {}
    known["learner"] = known.get("learner") or {"name": STREAMS_OWN}
    known["scheduler"] = known.get("scheduler") or {"name": NO_SCHEDULER}
    for key, value in content.items():
        _place(known, key, value, registry)
    known = resolve(OmegaConf.create(known), registry)
    kinds: tuple[Kind, ...] = ("stream", "model", "learner", "optimizer", "scheduler")
    for kind in kinds:
        registry.get(kind, known[kind]["name"])
    for name, values in (known["strategy"] or {}).items():
        checked: dict[str, Any] = values or {}
        setting_checks.check(registry.get("plugin", name).factory, checked, f"plugin '{name}'")
    return known


def _place(known: dict[str, Any], key: str, value: Any, registry: Registry) -> None:
    """Put a bare setting into the one group that has it."""
    homes: list[tuple[str, dict[str, Any]]] = []
    kinds: tuple[Kind, ...] = ("stream", "model", "learner", "optimizer", "scheduler")
    offered: set[str] = {*GROUPS, *ROOT_KEYS}

    def offer(where: str, target: dict[str, Any], factory: Callable[..., Any]) -> None:
        offered.update(setting_checks.defaults(factory, GIVEN["model"]))
        if setting_checks.accepts(factory, key):
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
