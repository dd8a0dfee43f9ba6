"""``clframe list [KIND]``: every name that can be typed, with one line each."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from clframe.config.overrides import take_config_dirs
from clframe.core.config_files import config_files
from clframe.errors import SettingError, nearest
from clframe.utils.console import say

if TYPE_CHECKING:
    from clframe.core.registry import Registry

KINDS = (
    *("streams", "strategies", "plugins", "models", "metrics", "loggers"),
    *("optimizers", "schedulers", "experiments"),
)


def main(words: Sequence[str]) -> int:
    """Print one kind, or all."""
    words, config_dirs = take_config_dirs(words)
    if len(words) > 1 or (words and words[0] not in KINDS):
        said = words[0] if len(words) == 1 else " ".join(words)
        raise SettingError(
            f"clframe list takes one of its kinds, got '{said}'; {nearest(said, KINDS)}"
        )
    from clframe.core.registry import discover
    from clframe.strategies import DEFAULT_PLUGINS, known_strategies

    registry = discover(config_dir=config_dirs)
    for kind in words or KINDS:
        if not words:
            say(f"\n{kind}")
        if kind == "strategies":
            for name, strategy in known_strategies(registry).items():
                say(f"  {name:<18} {strategy.summary}")
                plugins = [registry.get("plugin", p).factory for p in strategy.plugins]
                facts = []
                papers = [p.paper for p in plugins if p.paper]  # type: ignore[attr-defined]
                if papers:
                    facts.append("; ".join(papers))
                scenarios = set.intersection(
                    {"task", "domain", "class"},
                    *(set(p.scenarios) for p in plugins),  # type: ignore[attr-defined]
                )
                facts.append("scenarios: " + ", ".join(sorted(scenarios)))
                foes = {c for p in plugins for c in p.conflicts}  # type: ignore[attr-defined]
                facts.append(
                    "composes with all" + (f" but {', '.join(sorted(foes))}" if foes else "")
                )
                say(" " * 21 + " | ".join(facts))
            continue
        group = kind.removesuffix("s")
        if group == "experiment":
            show_files(group, registry, ())
            continue
        entries = registry.entries(group)  # type: ignore[arg-type]
        for _, alike in itertools.groupby(entries, key=lambda entry: (entry.origin, entry.summary)):
            entry, *others = alike
            origin = "" if entry.origin == "clframe" else f"  [{entry.origin}]"
            name = entry.name
            if others:  # one line for all tasks of a kind
                name = f"{name} ... {others[-1].name} ({len(others) + 1})"
            say(f"  {name:<18} {entry.summary}{origin}")
            if kind != "metrics" and entry.name not in DEFAULT_PLUGINS:
                settings = registry.settings_of(entry.kind, entry.name, all_settings=True)
                if settings:
                    shown = ", ".join(f"{key}={value}" for key, value in settings.items())
                    say(" " * 21 + shown)
        show_files(group, registry, {*registry.names(group), "none"})  # type: ignore[arg-type]
    return 0


def show_files(group: str, registry: Registry, known: Collection[str]) -> None:
    """The files of a group that are more than a registered name."""
    for name, file in config_files(group, registry.config_dirs).items():
        if name not in known:
            origin = f"  [{file.path}]" if file.from_user else ""
            say(f"  {name:<18} {file.summary}{origin}")
