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

from clframe.checkpoint import identity
from clframe.checkpoint import pretrain as pretraining
from clframe.checkpoint.checkpointer import CheckpointSettings
from clframe.core.learner import Learner
from clframe.core.plugin import Plugin, check_composition
from clframe.core.registry import Kind, Registry, discover
from clframe.core.results import Result
from clframe.core.stream import SCENARIOS, Scenario, Stream
from clframe.data.augment import augmented
from clframe.distributed import launch
from clframe.distributed.ranks import check_plugins
from clframe.errors import SettingError
from clframe.plugins.builtin.accuracy import Accuracy
from clframe.plugins.builtin.curves import Curves
from clframe.plugins.builtin.lifetime_log import LifetimeLog
from clframe.plugins.builtin.logging import Logging
from clframe.plugins.builtin.loop import Loop
from clframe.plugins.builtin.metrics import Metrics
from clframe.plugins.builtin.progress import Progress, ProgressBar
from clframe.plugins.builtin.recorder import Recorder
from clframe.plugins.builtin.rollouts import Rollouts
from clframe.run import run
from clframe.runs.folder import RunFolder
from clframe.strategies import StrategyLike, compose
from clframe.training.engine import Engine, TrainerSettings
from clframe.utils import settings

Named = str | Mapping[str, Any]
"""A registered name, or a mapping with ``name`` and settings."""


def fit(
    stream: Named | Stream = "split_mnist",
    strategy: StrategyLike = "naive",
    model: Named | nn.Module | None = None,
    *,
    scenario: Scenario | None = None,
    optimizer: Named = "adam",
    logger: Named | Sequence[str] | None = "csv",
    seed: int = 0,
    data_dir: str | Path | None = None,
    download: bool = False,
    active_outputs: Literal["seen", "all"] = "seen",
    pretrain: str | Path | None = None,
    plugin_path: str | Path | Sequence[str | Path] | None = None,
    run_dir: str | Path | Literal[False] | None = None,
    resume: str | Path | None = None,
    resume_allow: Sequence[str] = (),
    progress: bool = True,
    strategy_name: str | None = None,
    trainer: Mapping[str, Any] | None = None,
    checkpoint: Mapping[str, Any] | None = None,
    **trainer_settings: Any,
) -> Result:
    """Learn a stream with a strategy and return the matrix and its metrics.

    Args:
        stream: A registered name, a mapping with ``name`` and settings, or a stream.
        strategy: A name, a plugin, a mapping from plugin to settings, or a list of those.
        model: A registered name, a mapping with ``name`` and settings, or a module; None is the
            one that the stream is registered with.
        scenario: task, domain or class; None takes the stream's own.
        optimizer: adam, adamw, sgd, or a mapping with ``name`` and settings.
        logger: csv, wandb, tensorboard, a list of them, a mapping, or None.
        seed: Of everything that is drawn.
        data_dir: The data folder; None is ``$CLFRAME_DATA`` or ``~/.cache/clframe``.
        download: Whether missing data may be fetched.
        active_outputs: Class-incremental: compete among the classes ``seen`` so far or ``all``.
        pretrain: A run folder whose final weights the model starts from.
        plugin_path: A file (or files) with plugins of your own.
        run_dir: Where to write; None is ``runs/<stream>/<strategy>/<time>-s<seed>/``, False is
            nowhere.
        resume: A run folder to continue, made with the same arguments; ``auto`` continues the run
            in ``run_dir`` if there is one and begins it if not.
        resume_allow: What may be different when a run is continued, such as
            ``["trainer.max_epochs"]``, ``["version"]``, ``["data"]`` or ``["plugins"]``.
        progress: Whether to show how far the run is.
        strategy_name: What to call the strategy in the records; None takes the names given.
        trainer: Settings of :class:`clframe.training.engine.TrainerSettings`, as a mapping.
        checkpoint: Settings of ``CheckpointSettings``: how often to save.
        **trainer_settings: The same as keywords, such as ``max_epochs=1``.

    Raises:
        ClframeError: Something given cannot be used; nothing has been written then.
    """
    with launch.together():
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
            pretrain=pretrain,
            plugin_path=plugin_path,
            run_dir=run_dir,
            resume=resume,
            resume_allow=resume_allow,
            progress=progress,
            strategy_name=strategy_name,
            trainer={**(trainer or {}), **trainer_settings},
            checkpoint=checkpoint,
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
    model: Named | nn.Module | None = None,
    *,
    scenario: Scenario | None = None,
    optimizer: Named = "adam",
    logger: Named | Sequence[str] | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    download: bool = False,
    active_outputs: Literal["seen", "all"] = "seen",
    pretrain: str | Path | None = None,
    plugin_path: str | Path | Sequence[str | Path] | None = None,
    run_dir: str | Path | Literal[False] | None = False,
    resume: str | Path | None = None,
    resume_allow: Sequence[str] = (),
    progress: bool = False,
    strategy_name: str | None = None,
    trainer: Mapping[str, Any] | None = None,
    checkpoint: Mapping[str, Any] | None = None,
    only_look: bool = False,
) -> Prepared:
    """Check all arguments of :func:`fit`, then make the learner and the run folder.

    Left to itself it writes and shows nothing, as tests and benchmarks want it. With ``only_look``
    a run that is there is read and not changed, even while another process goes on with it.
    """
    paths = [plugin_path] if isinstance(plugin_path, str | Path) else list(plugin_path or ())
    registry = discover(paths)
    seed = settings.convert(seed, int, "seed")
    settings.at_least(seed, 0, "seed")
    if active_outputs not in ("seen", "all"):
        raise SettingError(f"active_outputs must be seen or all, got {active_outputs!r}")
    settings.check(TrainerSettings, trainer or {}, "trainer")
    saving = CheckpointSettings(
        **settings.check(CheckpointSettings, checkpoint or {}, "checkpoint")
    )
    the_stream = make_stream(registry, stream, scenario, seed, data_dir, download)
    trained = registry.trainer_for(the_stream.name, trainer or {})
    how = TrainerSettings(**settings.check(TrainerSettings, trained, "trainer"))
    model = registry.model_for(the_stream.name) if model is None else model
    composed_name, plugins = compose(strategy, registry, the_stream.name)
    strategy_name = strategy_name or composed_name
    make_optimizer = make(registry, "optimizer", optimizer)
    names = _logger_names(logger)
    for name in names:
        registry.get("logger", name)
    check_composition(plugins, the_stream)

    folder = None
    if resume == "auto":
        if not run_dir:
            raise SettingError("resume=auto continues the run in run_dir: give run_dir=FOLDER")
        resume = run_dir if RunFolder(Path(run_dir)).config.exists() else None
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
        "trainer": _plain(vars(how)),
        "checkpoint": _plain(vars(saving)),
        "logger": {
            n: dict(logger.get(n) or {}) if isinstance(logger, Mapping) else {} for n in names
        },
        "scenario": the_stream.scenario,
        "seed": seed,
        "data_dir": None if data_dir is None else str(data_dir),
        "download": download,
        "active_outputs": active_outputs,
        "pretrain": None if pretrain is None else str(pretrain),
        "plugin_path": [str(path) for path in paths] or None,
        "strategy_name": strategy_name,
    }

    seed_everything(seed)
    engine = Engine(how)
    check_plugins(plugins, engine.world_size)
    engine.launch()
    if not engine.is_zero:  # rank zero writes and speaks for all
        folder, names, progress = None, [], False
    the_model = make_model(registry, model, the_stream, data_dir)
    begun = pretraining.begin(pretrain, resume, the_model)
    the_stream = augmented(the_stream, how.augment)
    # A model may replace the inputs by something that it makes of them once (frozen features).
    prepare: Any = getattr(the_model, "prepare_stream", None)
    if prepare is not None:
        the_stream = prepare(the_stream, engine.device)
    # Anything wrong with the first data is found before a folder is made.
    the_stream.experiences[0].data  # noqa: B018
    if folder is not None:
        folder.saving, folder.allowed = saving, tuple(resume_allow)
        if not only_look:
            folder.identity = identity.describe(config, the_stream, plugins)
            folder.enter(config, new=resume is None)
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
    evaluators: list[Plugin] = [Accuracy()]
    if any(task.load is None for task in the_stream.tasks):
        evaluators.append(Rollouts())
    learner = (the_stream.learner or Learner)(
        the_model,
        the_stream,
        [*plugins, *recorders, Loop(), *evaluators],
        engine,
        make_optimizer,
        active_outputs,
        seed,
    )
    learner.pretrained = begun
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


def data_folder(data_dir: str | Path | None) -> Path:
    """The data folder that was named, or the default one."""
    return (default_data_dir() if data_dir is None else Path(data_dir)).expanduser()


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
    given: dict[str, Any] = {"data_dir": data_folder(data_dir), "download": download}
    said = stream if isinstance(stream, Mapping) else {}
    # A stream may have a seed and a scenario of its own in its settings.
    if "seed" not in said:
        given["seed"] = seed
    name = stream if isinstance(stream, str) else stream.get("name")
    if not isinstance(name, str):
        raise SettingError("stream must be a name or a mapping with a name")
    fixed = not settings.accepts(registry.get("stream", name).factory, "scenario")
    if scenario is not None and not fixed:
        given["scenario"] = scenario
    made: Stream = make(registry, "stream", stream, **given)
    if scenario is not None and fixed and made.scenario != scenario:
        raise SettingError(
            f"stream '{name}' has a scenario of its own, {made.scenario}; leave scenario out"
        )
    return made


def make_model(
    registry: Registry,
    model: Named | nn.Module,
    stream: Stream,
    data_dir: str | Path | None = None,
) -> nn.Module:
    """Make a model for a stream's inputs and outputs."""
    if isinstance(model, nn.Module):
        return model
    made: nn.Module = make(
        registry,
        "model",
        model,
        stream=stream,
        input_shape=stream.input_shape,
        n_outputs=stream.n_outputs,
        data_dir=data_folder(data_dir),
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
    core = ("stream", "input_shape", "n_outputs", "data_dir", "download", "seed", "scenario")
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
