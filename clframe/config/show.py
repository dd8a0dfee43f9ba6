"""A composed run as the YAML that its ``config.yaml`` would be, without running it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from clframe.config.groups import NAMED
from clframe.config.record import content_of
from clframe.config.run_config import RunConfig
from clframe.core.factory import make_stream
from clframe.core.learner_factory import make_learner_factory
from clframe.core.registry import GIVEN, GIVEN_UNLESS_SET, Registry
from clframe.core.trainer import TrainerSettings
from clframe.errors import DataError
from clframe.strategies import compose
from clframe.utils import plain_yaml, setting_checks


def as_yaml(config: RunConfig, registry: Registry) -> str:
    """Return every setting as the run would have it.

    The scenario stays null if it is not set and the stream cannot be made because its data is
    missing.

    Raises:
        ClframeError: A setting is wrong.
    """
    check_settings(config, registry)
    named: Any = config.stream
    stream: Any
    try:
        stream = make_stream(registry, named, config.scenario, config.seed, config.data_dir)
    except DataError:
        stream = SimpleNamespace(name=named["name"], scenario=config.scenario, tasks=())
    learning = make_learner_factory(registry, config.learner, stream)
    chosen = config.trainer or {}
    values = learning.trainer(registry.trainer_for(stream.name, chosen), chosen)
    trainer = TrainerSettings(**setting_checks.check(TrainerSettings, values, "trainer"))
    name, plugins = compose(config.strategy, registry, stream.name)
    content = content_of(config, registry, stream, trainer, (config.strategy_name or name, plugins))
    return plain_yaml.as_yaml(content)


def check_settings(config: RunConfig, registry: Registry) -> None:
    """Check the settings as a run does when it builds its objects, without data."""
    for kind in NAMED:
        values = dict(getattr(config, kind))
        name = values.pop("name")
        given = {*GIVEN.get(kind, ()), *(set(GIVEN_UNLESS_SET) - set(values))}
        setting_checks.check(registry.get(kind, name).factory, values, f"{kind} '{name}'", given)
    plugins: Any = config.strategy
    for name, values in plugins.items():
        setting_checks.check(registry.get("plugin", name).factory, values or {}, f"plugin '{name}'")
