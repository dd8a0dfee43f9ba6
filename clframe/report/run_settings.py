"""The settings of a run, from its `config.yaml`: to repeat it, and to compare runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clframe.runs.reader import Run
from clframe.utils.hydra_quote import override_value

# Settings of where a run is stored and continued from do not affect its results.
_PLACES = ("run_dir", "data_dir", "resume", "hydra", "strategy_name", "overrides")
# Groups written as a mapping from chosen names to settings: `logger: {csv: {}}`.
_BY_KEY = ("strategy", "logger")
# Settings that distinguish two forks with the same settings otherwise.
_OF_FORK = ("run", "at")


def flatten(settings: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting with its dotted name, except settings of where data is stored.

    >>> dict(flatten({"model": {"width": 400, "layers": [1, 2]}, "seed": 0, "run_dir": "x"}))
    {'model.width': 400, 'model.layers': [1, 2], 'seed': 0}
    """
    for key, value in settings.items():
        if not prefix and key in _PLACES:
            continue
        if prefix == "fork." and key not in _OF_FORK:
            continue
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from flatten(value, f"{name}.")
        else:
            yield name, value


def differing(runs: Sequence[Run]) -> list[str]:
    """Return names of the settings other than the seed in which the runs differ."""
    flat = [dict(flatten(s)) for s in (run.settings for run in runs) if s is not None]
    names = dict.fromkeys(name for settings in flat for name in settings)
    absent = object()
    return [
        name
        for name in names
        if name != "seed" and len({repr(settings.get(name, absent)) for settings in flat}) > 1
    ]


def setting(run: Run, name: str) -> str:
    """Return one setting as text, by its dotted name; "unset" if the run does not have it."""
    value = dict(flatten(run.settings or {})).get(name)
    return "unset" if value is None else override_value(value)


@dataclass(frozen=True)
class Command:
    """The command that repeats a run.

    Args:
        text: The command, quoted for a shell.
        note: Further information; may be empty.
        complete: The command with every setting written out, if `text` leaves defaults out.
    """

    text: str
    note: str = ""
    complete: str | None = None


def fit_command(run: Run) -> Command:
    """Return the `clframe fit` command that repeats a run, or `clframe fork` for a forked run.

    A run keeps its user's overrides, and defaults are not repeated. For a run without them, every
    setting is written out.
    """
    origin = (run.settings or {}).get("fork")
    if isinstance(origin, dict):
        return _fork_command(origin)
    complete = complete_command(run)
    overrides = (run.settings or {}).get("overrides")
    if not isinstance(overrides, list):
        return Command(complete)
    version = run.result.environment.get("clframe")
    note = "Settings that are not named have their defaults"
    note += f" of clframe {version}." if isinstance(version, str) else "."
    return Command(_shell_line([str(override) for override in overrides]), note, complete)


def _fork_command(origin: Mapping[str, Any]) -> Command:
    """Return the command that forks a run again: from its parent, with the same changes."""
    changed = origin.get("changed")
    overrides = [str(override) for override in changed] if isinstance(changed, list) else []
    overrides = [re.sub(r"^(\w+)\.name=", r"\1=", override) for override in overrides]
    start = ["clframe", "fork", str(origin.get("run")), "--at", str(origin.get("at")), *overrides]
    note = "From within the run folder; the parent's own report has the command for the parent."
    return Command(" ".join(map(shlex.quote, start)), note)


def complete_command(run: Run) -> str:
    """Return the command with every setting of a run, quoted for a shell.

    A group such as `stream: {name: split_mnist, parts: 5}` is chosen by its name, then its settings
    follow. A strategy is chosen by the names in the results, a logger by its own name.
    """
    settings, result = run.settings, run.result
    names = result.strategy.split("+")
    strategy = names if len(names) > 1 else result.strategy
    if settings is None:
        chosen = {"stream": result.stream, "scenario": result.scenario, "strategy": strategy}
        settings = {"seed": result.seed}
    else:
        chosen = {
            str(group): value["name"]
            for group, value in settings.items()
            if isinstance(value, dict) and isinstance(value.get("name"), str)
        }
        if isinstance(settings.get("strategy"), dict | None):
            chosen["strategy"] = strategy
        if isinstance(settings.get("logger"), dict):
            loggers = list(settings["logger"]) or ["none"]
            chosen["logger"] = loggers if len(loggers) > 1 else loggers[0]
    overrides = [*chosen.items(), *_further(settings, chosen)]
    return _shell_line([f"{name}={override_value(value)}" for name, value in overrides])


def _shell_line(overrides: Sequence[str]) -> str:
    return " ".join(["clframe", "fit", *map(shlex.quote, overrides)])


def _further(settings: Mapping[Any, Any], chosen: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield settings beyond the choices in the groups."""
    for name, value in flatten(settings):
        group, _, rest = name.partition(".")
        # A plugin without settings is written as `strategy: {cumulative: null}`; a root setting
        # that is null was left at its default.
        unset = value is None or value == {}
        if group in chosen:
            keep = rest not in ("", "name") and not (group in _BY_KEY and unset)
        else:
            keep = bool(rest) or not unset
        if keep:
            yield name, value
