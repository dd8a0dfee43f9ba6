"""The left half of the diagram: the description of a run becomes its parts.

::

    RunConfig ─► stream ─► strategy ─► engine ─► model ─► folder ─► learner ─► run.py

Each step is one function. Nothing is written and no data is loaded here, so a mistake in any
setting is found before anything is made. :func:`clframe.run.run` creates the folder.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from lightning.pytorch import LightningModule
from torch import nn

from clframe.checkpoint import identity
from clframe.checkpoint.settings import CheckpointSettings
from clframe.config.read_config import refuse_objects
from clframe.config.record import content_of, logger_settings
from clframe.config.run_config import RunConfig
from clframe.config.setting_groups import evaluation_settings, logging_settings
from clframe.core.context import RunContext
from clframe.core.factory import make, make_stream
from clframe.core.learner import Learner, OptimizerFactory
from clframe.core.learner_factory import STREAMS_OWN, LearnerFactory, make_learner_factory, name_of
from clframe.core.plugin import Plugin, check_composition, check_online
from clframe.core.protocols import Model, RobotStream, check_model
from clframe.core.registry import Registry, discover
from clframe.core.stream import Stream
from clframe.core.trainer import TrainerSettings
from clframe.data.folder import data_folder
from clframe.data.real_time import drop_missed_batches
from clframe.data.stream_order import in_order
from clframe.distributed.ranks import check_plugins
from clframe.errors import PluginError, SettingError
from clframe.recording.logger import as_run_logger
from clframe.runs import pretrain
from clframe.runs.folder import RunFolder
from clframe.runs.fork_source import Origin
from clframe.runs.machine_errors import enough_memory
from clframe.strategies import DEFAULT_PLUGINS, compose
from clframe.training.augment_stream import augmented
from clframe.training.batched.single_seed import stacked_plugins
from clframe.training.engine import Engine
from clframe.training.lightning_model import (
    LightningLearner,
    brings_optimizer,
    check_module,
    has_own_step,
)
from clframe.training.lr_schedule import Schedule, stream_length
from clframe.training.schedulers import Scheduler, check
from clframe.utils import setting_checks


@dataclass(frozen=True)
class Built:
    """A run that is ready to start.

    Args:
        learner: Model, plugins and engine.
        stream: The stream to learn.
        strategy: The strategy's name, for the records.
        folder: Where to write the run; None for nowhere.
        content: Every setting, as ``config.yaml`` will hold it.
    """

    learner: Learner
    stream: Stream
    strategy: str
    folder: RunFolder | None
    content: dict[str, Any] = field(default_factory=dict)


def build(config: RunConfig, extra_plugins: Sequence[Plugin] = ()) -> Built:
    """Make everything a run needs.

    Args:
        config: The description of the run.
        extra_plugins: Plugins to add to the strategy. One with the name of a built-in plugin
            replaces it.

    Raises:
        ClframeError: Something given cannot be used. Nothing has been written yet.
    """
    registry = discover(config.plugin_paths)
    stream = build_stream(config, registry)
    learning = make_learner_factory(registry, config.learner, stream)
    trainer = trainer_settings(config, registry, stream, learning)
    stream = in_order(stream, trainer.experience_order)
    strategy, plugins = build_strategy(config, registry, stream)
    check_online(plugins, trainer.passes)
    make_optimizer = make(registry, "optimizer", config.optimizer)
    scheduler = build_scheduler(config, registry, make_optimizer, trainer, stream)
    content = content_of(config, registry, stream, trainer, (strategy, plugins))
    if brings_optimizer(config.model):
        kind = content["model"]["object"]
        content["optimizer"] = {"object": f"{kind}.configure_optimizers"}
    folder = build_folder(config, stream, strategy)
    engine = build_engine(config, trainer, plugins, learning)
    model = build_model(config, registry, stream)
    pretrained = pretrain.begin(config.pretrain, folder, model)
    stream = drop_missed_batches(stream, trainer, config.seed)
    stream = prepare_stream(stream, model, engine, learning)
    if folder is not None:
        folder.describe(content, identity.describe(content, plugins), registry.files)
    if not engine.is_global_zero:  # The main process writes and prints for all.
        folder, config = None, config.replace(logger=None, progress=False)
    built_in = default_plugins(config, registry, stream, trainer, folder, content)
    # A group of seeds has its own training loop.
    stacked = stacked_plugins() if trainer.batched and not extra_plugins else ()
    given = [*plugins, *extra_plugins, *stacked]
    taken = {plugin.name for plugin in given}
    learner: Any = learner_class(config, model, stream, engine, learning)(
        model,
        stream,
        [*given, *(plugin for plugin in built_in if plugin.name not in taken)],
        engine,
        make_optimizer,
        config.active_outputs,
        config.seed,
    )
    learner.set_origin(pretrained, content.get("fork"))
    if scheduler is not None:
        learner.set_schedule(Schedule(learner, scheduler, content["scheduler"]))
    return Built(learner, stream, strategy, folder, content)


def write_config(config: RunConfig) -> RunFolder:
    """Make the folder and ``config.yaml`` of a run that another process will start.

    ``clframe fit resume=FOLDER`` then starts it.

    Raises:
        ClframeError: Something given cannot be used, or cannot be written as a config.
    """
    registry = discover(config.plugin_paths)
    stream = build_stream(config, registry)
    learning = make_learner_factory(registry, config.learner, stream)
    trainer = trainer_settings(config, registry, stream, learning)
    stream = in_order(stream, trainer.experience_order)
    strategy = build_strategy(config, registry, stream)
    content = content_of(config, registry, stream, trainer, strategy)
    folder = build_folder(config, stream, strategy[0])
    assert folder is not None
    refuse_objects(content, folder.path)
    folder.describe(content, {}, registry.files)
    with contextlib.ExitStack() as around:
        around.callback(folder.lock.release)
        around.enter_context(folder.entered())
        folder.begin()
    return folder


# ---------------------------------------------------------------- stream


def build_stream(config: RunConfig, registry: Registry) -> Stream:
    """Make the stream, or return the one that was given."""
    stream, scenario = config.stream, config.scenario
    if isinstance(stream, Stream):
        if scenario is not None and scenario != stream.scenario:
            raise SettingError(
                f"scenario={scenario}, but the given stream is {stream.scenario}-incremental"
            )
        return stream
    name = stream.get("name") if isinstance(stream, Mapping) else stream
    with enough_memory(f"stream '{name}' with these settings"):
        return make_stream(
            registry, stream, scenario, config.seed, config.data_dir, config.download
        )


def trainer_settings(
    config: RunConfig, registry: Registry, stream: Stream, learning: LearnerFactory
) -> TrainerSettings:
    """Return the trainer's settings: the user's, on top of the stream's defaults.

    The folder tells whether the run belongs to a group of seeds; users cannot set this.
    """
    given = dict(config.trainer or {})
    begun = resumed_folder(config)
    if begun is not None and "batched" not in given:
        saved = begun.read_config().get("trainer")
        if isinstance(saved, Mapping) and saved.get("batched") is True:
            given["batched"] = True
    values = learning.trainer(registry.trainer_for(stream.name, given), given)
    return TrainerSettings(**setting_checks.check(TrainerSettings, values, "trainer"))


# ---------------------------------------------------------------- strategy


def build_strategy(
    config: RunConfig, registry: Registry, stream: Stream
) -> tuple[str, list[Plugin]]:
    """Return the strategy's name and its plugins, checked against each other and the stream."""
    name, plugins = compose(config.strategy, registry, stream.name)
    check_composition(plugins, stream)
    return config.strategy_name or name, plugins


# ---------------------------------------------------------------- learning rate


def build_scheduler(
    config: RunConfig,
    registry: Registry,
    make_optimizer: OptimizerFactory,
    trainer: TrainerSettings,
    stream: Stream,
) -> Scheduler | None:
    """Return the learning-rate scheduler, checked with the optimizer and the budget, or None."""
    scheduler: Scheduler | None = make(registry, "scheduler", config.scheduler)
    if scheduler is None:
        return None
    named = config.scheduler
    name = named if isinstance(named, str) else named["name"]
    length = stream_length(trainer.budget, len(stream), scheduler.settings.interval)
    return check(scheduler, name, make_optimizer, length)


# ---------------------------------------------------------------- engine


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def build_engine(
    config: RunConfig, trainer: TrainerSettings, plugins: Sequence[Plugin], learning: LearnerFactory
) -> Engine:
    """Seed the run and start its other processes, if it uses several."""
    seed_everything(config.seed)
    engine = Engine(
        trainer, evaluation_settings(config.evaluation), logging_settings(config.logging)
    )
    check_plugins(plugins, engine.world_size)
    if engine.world_size > 1 and not learning.supports_distributed:
        raise SettingError(
            f"learner={name_of(config.learner)} runs in one process: set trainer.devices=1"
        )
    engine.launch()
    return engine


# ---------------------------------------------------------------- model


def build_model(config: RunConfig, registry: Registry, stream: Stream) -> nn.Module:
    """Make a model for the stream's inputs and outputs."""
    if isinstance(config.model, nn.Module):
        check_model(config.model, isinstance(stream, RobotStream))
        return config.model
    named: Any = config.model
    if named is None:
        named = registry.model_for(stream.name, name_of(config.learner))
    values = named if isinstance(named, Mapping) else {"name": named}
    given = ", ".join(f"model.{key}={value}" for key, value in values.items() if key != "name")
    with enough_memory(f"model '{values.get('name')}' ({given or 'as it is by default'})"):
        model: nn.Module = make(
            registry,
            "model",
            named,
            stream=stream,
            input_shape=stream.input_shape,
            n_outputs=stream.n_outputs,
            data_dir=data_folder(config.data_dir),
        )
    if not isinstance(model, nn.Module):
        raise PluginError(
            f"model '{values.get('name')}' is a {type(model).__name__}: return a torch.nn.Module "
            "from its function"
        )
    check_model(model, isinstance(stream, RobotStream))
    return model


def learner_class(
    config: RunConfig, model: nn.Module, stream: Stream, engine: Engine, learning: LearnerFactory
) -> Callable[..., LightningModule]:
    """Return the chosen learner class, the stream's own, or one that wraps a LightningModule."""
    if not has_own_step(model):
        made = learning.learner_class(stream)
        if not callable(made):
            raise _returned(learning, "learner_class", made, "a subclass of clframe.Learner")
        return made
    if (name := name_of(config.learner)) != STREAMS_OWN:
        raise SettingError(
            f"learner={name} and the LightningModule {type(model).__name__} both compute "
            "the loss: leave one of them out"
        )
    defaults = {"optimizer": RunConfig.optimizer, "scheduler": RunConfig.scheduler}
    given = [name for name, default in defaults.items() if getattr(config, name) != default]
    check_module(cast(LightningModule, model), stream, engine.world_size, tuple(given))
    return LightningLearner


def prepare_stream(
    stream: Stream, model: nn.Module, engine: Engine, learning: LearnerFactory
) -> Stream:
    """Return the stream with augmented images, and adapted by the model and the learner."""
    stream = augmented(stream, engine.settings.augment)
    # A model may replace inputs with features that it computes once, such as those of a frozen
    # network.
    if isinstance(model, Model):
        prepared = model.prepare_stream(stream, engine.device)
        if not isinstance(prepared, Stream):
            raise _returned(model, "prepare_stream", prepared, "a clframe.Stream")
        stream = prepared
    prepared = learning.prepare_stream(stream, model, engine)
    if not isinstance(prepared, Stream):
        raise _returned(learning, "prepare_stream", prepared, "a clframe.Stream")
    return prepared


def _returned(owner: object, method: str, answer: object, wanted: str) -> PluginError:
    """Return the error for a method that returned something else than it has to."""
    kind = type(owner)
    answered = "None" if answer is None else f"a {type(answer).__name__}"
    return PluginError(
        f"{kind.__module__}.{kind.__name__}.{method} returned {answered}; return {wanted}"
    )


# ---------------------------------------------------------------- folder


def resumed_folder(config: RunConfig) -> RunFolder | None:
    """Return the folder of the run to continue; None for a new run."""
    resume = config.resume
    if resume == "auto":
        assert config.run_dir
        resume = config.run_dir if RunFolder(Path(config.run_dir)).config.exists() else None
    return None if resume is None else RunFolder(Path(resume), resumed=True)


def build_folder(config: RunConfig, stream: Stream, strategy: str) -> RunFolder | None:
    """Choose the run folder and check that it can be written, without creating it."""
    saving = setting_checks.check(CheckpointSettings, config.checkpoint or {}, "checkpoint")
    begun = resumed_folder(config)
    if begun is not None:
        folder = begun
        folder.read_config()
    elif config.run_dir is False:
        return None
    elif config.run_dir is None:
        folder = RunFolder.default(stream.name, strategy, config.seed)
        folder.check()
    else:
        folder = RunFolder(Path(config.run_dir))
        folder.check()
    fork = config.fork
    origin = None if fork is None else Origin(folder.path / fork["run"], fork["sha256"])
    folder.configure(CheckpointSettings(**saving), tuple(config.resume_allow), origin)
    return folder


# ---------------------------------------------------------------- built-in plugins


def default_plugins(
    config: RunConfig,
    registry: Registry,
    stream: Stream,
    trainer: TrainerSettings,
    folder: RunFolder | None,
    content: Mapping[str, Any],
) -> list[Plugin]:
    """Make the built-in plugins; each decides whether this run needs it."""
    loggers = []
    for name in config.logger_names:
        registry.get("logger", name)
        if folder is not None:
            named = {"name": name, **logger_settings(config, name)}
            given = {
                "run_dir": folder.path,
                "run_config": content,
                "stream_name": stream.name,
                "progress": config.progress,
            }
            loggers.append(as_run_logger(make(registry, "logger", named, **given), name))
    context = RunContext(
        stream=stream,
        settings=trainer,
        evaluation=evaluation_settings(config.evaluation),
        logging=logging_settings(config.logging),
        run_dir=None if folder is None else folder.path,
        resumed=folder is not None and folder.resumed,
        progress=config.progress,
        loggers=loggers,
        metrics={entry.name: entry.factory for entry in registry.entries("metric")},
        strategy=str(content.get("strategy_name", "")),
    )
    plugins: list[Plugin] = []
    for name in DEFAULT_PLUGINS:
        factory: Any = registry.get("plugin", name).factory
        plugin = factory.for_run(context)
        if plugin is not None:
            plugins.append(plugin)
    return plugins
