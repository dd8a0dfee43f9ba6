"""Soft actor-critic (Haarnoja et al., 2018) for the config group ``learner``.

See :mod:`clframe.rl.sac_learner` for an update and :mod:`clframe.rl.critics` for the critics.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from clframe.core.learner_factory import LearnerFactory
from clframe.core.protocols import RobotStream
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.rl.actor import SquashedGaussian
from clframe.rl.online_data import LiveData
from clframe.rl.sac_learner import SACLearner
from clframe.rl.sac_settings import SACSettings
from clframe.rl.stream import live_stream

if TYPE_CHECKING:
    from torch import nn

    from clframe.core.engine import Engine
    from clframe.core.registry import Registry
    from clframe.core.stream import Stream


class SAC(SACSettings, LearnerFactory):
    """Soft actor-critic: learning by reward, with a budget of decisions for each experience."""

    def trainer(self, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the budget as updates, from the decisions; a stream's defaults count samples."""
        for name, value in (("max_epochs", None), ("max_steps", self.pace.updates)):
            if given.get(name) not in (None, value):
                raise SettingError(
                    f"trainer.{name}={given[name]}: learner=sac learns for learner.steps="
                    f"{self.steps} decisions, which are {self.pace.updates} updates; set "
                    "learner.steps instead"
                )
        return {**given, "max_epochs": None, "max_steps": self.pace.updates}

    def prepare_stream(self, stream: Stream, model: nn.Module, engine: Engine) -> Stream:
        """Return the stream with environments to act in instead of demonstrations."""
        if isinstance(stream, RobotStream) and stream.discrete:
            raise SettingError(
                f"learner=sac needs numeric actions, but those of stream '{stream.name}' are "
                "choices; set learner=ppo"
            )
        if not isinstance(model, SquashedGaussian):
            raise SettingError(f"learner=sac needs model=actor, not {type(model).__name__}")
        if engine.world_size > engine.settings.batch_size:
            raise SettingError(
                f"learner=sac splits trainer.batch_size={engine.settings.batch_size} over "
                f"{engine.world_size} processes; raise it"
            )
        if engine.settings.precision not in ("32", "32-true"):
            raise SettingError(
                f"learner=sac learns in 32 bits: trainer.precision={engine.settings.precision} "
                "must be 32-true"
            )
        samples = self.epoch_steps * engine.settings.batch_size

        def data(task: Any) -> LiveData:
            return LiveData(task, samples, 2 * model.n_actions)

        environments = self.num_envs or engine.world_size
        return live_stream(stream, "sac", self.action_repeat, self.buffer_size, data, environments)

    def learner_class(self, stream: Stream) -> Callable[..., SACLearner]:
        """Return the constructor of the learner with these settings."""
        return functools.partial(SACLearner, settings=self)


@hookimpl
def register(registry: Registry) -> None:
    """Register the learner."""
    registry.add("learner", "sac", SAC, model={"name": "actor"})
