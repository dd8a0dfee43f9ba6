"""The Python interface: names and settings become a stream, a learner and a run folder."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import nn

from clframe import settings
from clframe.engine import Engine, TrainerSettings
from clframe.errors import SettingError
from clframe.experience import SCENARIOS, Scenario, Stream
from clframe.learner import Learner
from clframe.plugin import Plugin, check_composition
from clframe.plugins.accuracy import Accuracy
from clframe.plugins.curves import Curves
from clframe.plugins.lifetime_log import LifetimeLog
from clframe.plugins.logging import Logging
from clframe.plugins.loop import Loop
from clframe.plugins.metrics import Metrics
from clframe.plugins.progress import Progress, ProgressBar
from clframe.plugins.recorder import Recorder
from clframe.registry import Kind, Registry, discover
from clframe.results import Result
from clframe.run import run
from clframe.run_folder import RunFolder
from clframe.strategies import StrategyLike, compose

Named = str | Mapping[str, Any]
"""A registered name, or a mapping with ``name`` and settings."""


def fit(
    stream: Named | Stream = "split_mnist",
    strategy: StrategyLike = "naive",
    model: Named | nn.Module = "mlp",
    *,
    scenario: Scenario | None = None,
    optimizer: Named = "adam",
    logger: Named | Sequence[str] | None = "csv",
    seed: int = 0,
    data_dir: str | Path | None = None,
    download: bool = False,
    active_outputs: Literal["seen", "all"] = "seen",
    plugin_path: str | Path | Sequence[str | Path] | None = None,
    run_dir: str | Path | Literal[False] | None = None,
    resume: str | Path | None = None,
    progress: bool = True,
    strategy_name: str | None = None,
    trainer: Mapping[str, Any] | None = None,
    **trainer_settings: Any,
) -> Result:
    """Learn a stream with a strategy and return the matrix and its metrics.

    Args:
        stream: A registered name, a mapping with ``name`` and settings, or a stream.
        strategy: A name, a plugin, a mapping from plugin to settings, or a list of those.
        model: A registered name, a mapping with ``name`` and settings, or a module.
        scenario: task, domain or class; None takes the stream's own.
        optimizer: adam, adamw, sgd, or a mapping with ``name`` and settings.
        logger: csv, wandb, tensorboard, a list of them, a mapping, or None.
        seed: Of everything that is drawn.
        data_dir: The data folder; None is ``$CLFRAME_DATA`` or ``~/.cache/clframe``.
        download: Whether missing data may be fetched.
        active_outputs: Class-incremental: compete among the classes ``seen`` so far or ``all``.
        plugin_path: A file (or files) with plugins of your own.
        run_dir: Where to write; None is ``runs/<stream>/<strategy>/<time>-s<seed>/``, False is
            nowhere.
        resume: A run folder to continue, made with the same arguments.
        progress: Whether to show how far the run is.
        strategy_name: What to call the strategy in the records; None takes the names given.
        trainer: Settings of :class:`clframe.engine.TrainerSettings`, as a mapping.
        **trainer_settings: The same as keywords, such as ``max_epochs=1``.

    Raises:
        ClframeError: Something given cannot be used; nothing has been written then.
    """
    prepared = prepare_run(
        stream,
        strategy,
        model,
        scenario=scenario,
        optimizer=optimizer,
        logger=logger,
        seed=seed,
        data_dir=data_dir,
        download=download,
        active_outputs=active_outputs,
        plugin_path=plugin_path,
        run_dir=run_dir,
        resume=resume,
        progress=progress,
        strategy_name=strategy_name,
        trainer={**(trainer or {}), **trainer_settings},
    )
    try:
        return run(prepared.learner, prepared.stream, prepared.strategy, prepared.folder)
    finally:
        for plugin in prepared.learner.plugins.ordered:
            if isinstance(plugin, ProgressBar):
                plugin.close()


class Prepared(NamedTuple):
    """A run that is ready to start."""

    learner: Learner
    stream: Stream
    strategy: str
    folder: RunFolder | None


def prepare_run(
    stream: Named | Stream,
    strategy: StrategyLike = "naive",
    model: Named | nn.Module = "mlp",
    *,
    scenario: Scenario | None = None,
    optimizer: Named = "adam",
    logger: Named | Sequence[str] | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    download: bool = False,
    active_outputs: Literal["seen", "all"] = "seen",
    plugin_path: str | Path | Sequence[str | Path] | None = None,
    run_dir: str | Path | Literal[False] | None = False,
    resume: str | Path | None = None,
    progress: bool = False,
    strategy_name: str | None = None,
    trainer: Mapping[str, Any] | None = None,
) -> Prepared:
    """Check all arguments of :func:`fit`, then make the learner and the run folder.

    Left to itself it writes and shows nothing, as tests and benchmarks want it.
    """
    paths = [plugin_path] if isinstance(plugin_path, str | Path) else list(plugin_path or ())
    registry = discover(paths)
    seed = settings.convert(seed, int, "seed")
    settings.at_least(seed, 0, "seed")
    if active_outputs not in ("seen", "all"):
        raise SettingError(f"active_outputs must be seen or all, got {active_outputs!r}")
    how = TrainerSettings(**settings.check(TrainerSettings, trainer or {}, "trainer"))
    the_stream = make_stream(registry, stream, scenario, seed, data_dir, download)
    composed_name, plugins = compose(strategy, registry)
    strategy_name = strategy_name or composed_name
    make_optimizer = make(registry, "optimizer", optimizer)
    names = _logger_names(logger)
    for name in names:
        registry.get("logger", name)
    check_composition(plugins, the_stream)

    folder = None
    if resume is not None:
        folder = RunFolder(Path(resume))
        folder.read_config()
    elif run_dir is not False:
        folder = (
            RunFolder.default(the_stream.name, strategy_name, seed)
            if run_dir is None
            else RunFolder(Path(run_dir))
        )
        folder.check()
    config = {
        "stream": _record(registry, "stream", stream),
        "strategy": {plugin.name: _settings_of(plugin) for plugin in plugins},
        "model": _record(registry, "model", model),
        "optimizer": _record(registry, "optimizer", optimizer),
        "trainer": dict(vars(how)),
        "logger": {
            n: dict(logger.get(n) or {}) if isinstance(logger, Mapping) else {} for n in names
        },
        "scenario": the_stream.scenario,
        "seed": seed,
        "data_dir": None if data_dir is None else str(data_dir),
        "download": download,
        "active_outputs": active_outputs,
        "plugin_path": [str(path) for path in paths] or None,
        "strategy_name": strategy_name,
    }

    seed_everything(seed)
    engine = Engine(how)
    the_model = make_model(registry, model, the_stream)
    # Anything wrong with the first data is found before a folder is made.
    the_stream.experiences[0].data  # noqa: B018
    if folder is not None and resume is None:
        folder.create(config)
    elif folder is not None and not folder.checkpoint.exists():
        folder.events.write_text("")
    families = {entry.name: entry.factory for entry in registry.entries("metric")}
    recorders: list[Plugin] = []
    if how.check_val_every_n_epoch is not None:
        recorders.append(Curves(how.check_val_every_n_epoch))
    recorders.append(Metrics(families))
    if folder is not None:
        recorders.append(Recorder(str(folder.events)))
        recorders.append(LifetimeLog(str(folder.log), resume=resume is not None))
        given = {"run_dir": folder.path, "run_config": config}
        recorders.append(
            Logging([make(registry, "logger", _pick(logger, n), **given) for n in names])
        )
    if progress:
        recorders.append(ProgressBar() if sys.stderr.isatty() else Progress())
    learner = Learner(
        the_model,
        the_stream,
        [*plugins, *recorders, Loop(), Accuracy()],
        engine,
        make_optimizer,
        active_outputs,
        seed,
    )
    return Prepared(learner, the_stream, strategy_name, folder)


def stream(
    name: str,
    *,
    data_dir: str | Path | None = None,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    plugin_path: Sequence[str | Path] = (),
    **values: Any,
) -> Stream:
    """Make a registered stream.

    Args:
        name: Registered name, such as ``split_mnist``.
        data_dir: The data folder; None is ``$CLFRAME_DATA`` or ``~/.cache/clframe``.
        download: Whether missing data may be fetched.
        seed: Of everything the stream draws.
        scenario: task, domain or class; None takes the stream's own.
        plugin_path: Files with streams of your own.
        **values: The stream's own settings.
    """
    registry = discover(plugin_path)
    return make_stream(registry, {"name": name, **values}, scenario, seed, data_dir, download)


def default_data_dir() -> Path:
    """``$CLFRAME_DATA`` or ``~/.cache/clframe``."""
    chosen = os.environ.get("CLFRAME_DATA")
    return Path(chosen) if chosen else Path.home() / ".cache" / "clframe"


def make(registry: Registry, kind: Kind, named: Named, **given: Any) -> Any:
    """Make the named thing from a name or from a mapping with a name and settings."""
    if isinstance(named, str):
        return registry.build(kind, named, {}, **given)
    if not isinstance(named, Mapping) or not isinstance(named.get("name"), str):
        raise SettingError(f"{kind} must be a name or a mapping with a name, got {named!r}")
    values = {key: value for key, value in named.items() if key != "name"}
    return registry.build(kind, named["name"], values, **given)


def make_stream(
    registry: Registry,
    stream: Named | Stream,
    scenario: str | None,
    seed: int,
    data_dir: str | Path | None,
    download: bool,
) -> Stream:
    """Make a stream from its name, with what core gives to every stream that asks for it."""
    if isinstance(stream, Stream):
        if scenario is not None and scenario != stream.scenario:
            raise SettingError(
                f"scenario={scenario}, but the given stream is {stream.scenario}-incremental"
            )
        return stream
    if scenario is not None and scenario not in SCENARIOS:
        raise SettingError(f"scenario must be one of {', '.join(SCENARIOS)}, got '{scenario}'")
    folder = default_data_dir() if data_dir is None else Path(data_dir)
    given: dict[str, Any] = {"data_dir": folder.expanduser(), "download": download}
    said = stream if isinstance(stream, Mapping) else {}
    # A stream may have a seed and a scenario of its own in its settings.
    if "seed" not in said:
        given["seed"] = seed
    if scenario is not None:
        name = stream if isinstance(stream, str) else str(stream.get("name"))
        if not settings.accepts(registry.get("stream", name).factory, "scenario"):
            raise SettingError(f"stream '{name}' has a scenario of its own; leave scenario out")
        given["scenario"] = scenario
    made: Stream = make(registry, "stream", stream, **given)
    return made


def make_model(registry: Registry, model: Named | nn.Module, stream: Stream) -> nn.Module:
    """Make a model for a stream's inputs and outputs."""
    if isinstance(model, nn.Module):
        return model
    made: nn.Module = make(
        registry, "model", model, input_shape=stream.input_shape, n_outputs=stream.n_outputs
    )
    return made


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _logger_names(logger: Named | Sequence[str] | None) -> list[str]:
    if logger is None:
        return []
    if isinstance(logger, str):
        return [logger]
    return list(logger)


def _pick(logger: Named | Sequence[str] | None, name: str) -> dict[str, Any]:
    values = logger.get(name) if isinstance(logger, Mapping) else None
    return {"name": name, **(values or {})}


def _record(registry: Registry, kind: Kind, named: Any) -> dict[str, Any]:
    """What config.yaml says of a thing: its name with all settings, or its class."""
    if isinstance(named, str):
        named = {"name": named}
    if not isinstance(named, Mapping):
        return {"object": f"{type(named).__module__}.{type(named).__qualname__}"}
    factory = registry.get(kind, named["name"]).factory
    core = ("input_shape", "n_outputs", "data_dir", "download", "seed", "scenario")
    return {"name": named["name"], **settings.defaults(factory, core), **_plain(dict(named))}


def _settings_of(plugin: Plugin) -> dict[str, Any]:
    """A plugin's settings as it holds them (hyperparameters are attributes of the same name)."""
    return {
        name: _plain(getattr(plugin, name, value))
        for name, value in settings.defaults(type(plugin)).items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
