"""Soft actor-critic (Haarnoja et al., 2018): its settings.

See :mod:`clframe.rl.sac_learner` for an update and :mod:`clframe.rl.critics` for the critics.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from clframe.core.learning import Learning
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.rl._interaction import LiveData, Pace
from clframe.rl.actor import SquashedGaussian
from clframe.rl.sac_learner import SACLearner
from clframe.rl.stream import live_stream
from clframe.utils.settings import at_least, check_at_least

if TYPE_CHECKING:
    from torch import nn

    from clframe.core.engine import Engine
    from clframe.core.registry import Registry
    from clframe.core.stream import Stream

Part: TypeAlias = Literal["buffer", "optimizers", "critics", "temperature", "exploration"]


@dataclass(frozen=True)
class SAC(Learning):
    """Soft actor-critic: learning by reward, with a budget of decisions for each experience.

    The batch size is ``trainer.batch_size``, the actor's learning rate the optimizer's.

    Args:
        steps: Decisions in an experience.
        start_steps: Of these, before the first update; see ``reset`` for who makes them.
        update_ratio: Updates per decision after that.
        action_repeat: How often each action is done, in learning and in evaluation.
        gamma: What a reward one decision later counts.
        tau: Share of the critics that goes into their targets with each update.
        critic_hidden: Width of each hidden layer of the critics; None is as the actor has it.
        critic_lr: Learning rate of the critics.
        temperature: At first; what entropy counts against reward.
        temperature_lr: Its learning rate; 0 leaves it as it is.
        target_entropy: What the temperature aims at; None is minus the numbers of an action.
        buffer_size: Transitions to keep at most.
        reset: What is made new when a task begins: the ``buffer``, the ``optimizers``, the
            ``critics``, the ``temperature``; and ``exploration``, that the decisions before the
            first update are random again, instead of the policy's.
        cloning: Weight of the divergence from what earlier policies have left, in replay.
        remember: States of an experience to leave to plugins, the last ones; None for all.
        epoch_steps: Updates in an epoch, after which numbers are logged.
    """

    steps: int = 10_000
    start_steps: int = 1_000
    update_ratio: float = 1.0
    action_repeat: int = 1
    gamma: float = 0.99
    tau: float = 0.005
    critic_hidden: list[int] | tuple[int, ...] | None = None
    critic_lr: float = 1e-3
    temperature: float = 1.0
    temperature_lr: float = 1e-3
    target_entropy: float | None = None
    buffer_size: int = 1_000_000
    reset: Sequence[Part] = ("buffer", "optimizers", "critics", "temperature", "exploration")
    cloning: float = 1.0
    remember: int | None = None
    epoch_steps: int = 1_000

    def __post_init__(self) -> None:
        check_at_least(
            self, "learner", steps=1, start_steps=0, action_repeat=1, gamma=0, tau=0,
            critic_lr=0, temperature_lr=0, buffer_size=1, cloning=0, remember=1, epoch_steps=1,
        )  # fmt: skip
        for width in self.critic_hidden or ():
            at_least(width, 1, "learner.critic_hidden")
        for name in ("update_ratio", "temperature"):
            if not getattr(self, name) > 0:
                raise SettingError(f"learner.{name} must be above 0, got {getattr(self, name)!r}")
        for name in ("gamma", "tau"):
            if getattr(self, name) > 1:
                raise SettingError(f"learner.{name} must be at most 1, got {getattr(self, name)!r}")
        if self.pace.updates < 1:
            raise SettingError(
                f"learner.steps={self.steps} leaves no update after learner.start_steps="
                f"{self.start_steps}: raise steps or lower start_steps"
            )

    @property
    def pace(self) -> Pace:
        """Decisions and updates of an experience."""
        return Pace(self.steps, self.start_steps, self.update_ratio)

    def rows(self, experiences: int, joint: bool) -> int:
        """Transitions that have to be kept: no more than there will be."""
        together = joint or "buffer" not in self.reset
        of_run = self.steps * (experiences if together else 1)
        return min(self.buffer_size, of_run)

    def trainer(self, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """The budget is the updates that follow from the decisions; a stream's is for samples."""
        for name, value in (("max_epochs", None), ("max_steps", self.pace.updates)):
            if given.get(name) not in (None, value):
                raise SettingError(
                    f"trainer.{name}={given[name]}: learner=sac learns for learner.steps="
                    f"{self.steps} decisions, which are {self.pace.updates} updates; set "
                    "learner.steps instead"
                )
        return {**given, "max_epochs": None, "max_steps": self.pace.updates}

    def prepare_stream(self, stream: Stream, model: nn.Module, engine: Engine) -> Stream:
        """The stream with environments to act in, in the place of demonstrations."""
        if not isinstance(model, SquashedGaussian):
            raise SettingError(f"learner=sac needs model=actor, not {type(model).__name__}")
        if engine.world_size > 1:
            raise SettingError("learner=sac learns in one process: set trainer.devices=1")
        if engine.settings.precision not in ("32", "32-true"):
            raise SettingError(
                f"learner=sac learns in 32 bits: trainer.precision={engine.settings.precision} "
                "must be 32-true"
            )
        samples = self.epoch_steps * engine.settings.batch_size

        def data(task: Any) -> LiveData:
            return LiveData(task, samples, 2 * model.n_actions)

        return live_stream(stream, "sac", self.action_repeat, self.buffer_size, data)

    def learner_class(self, stream: Stream) -> Callable[..., SACLearner]:
        """The learner with these settings."""
        return functools.partial(SACLearner, settings=self)


@hookimpl
def register(registry: Registry) -> None:
    """Add the learner."""
    registry.add("learner", "sac", SAC, model={"name": "actor"})
