"""The settings of soft actor-critic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from clframe.errors import SettingError
from clframe.rl.online_data import Pace
from clframe.utils.setting_checks import at_least, check_at_least

Part: TypeAlias = Literal["buffer", "optimizers", "critics", "temperature", "exploration"]


@dataclass(frozen=True)
class SACSettings:
    """What soft actor-critic is set by.

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
        num_envs: Environments that are acted in at once, of which a decision is made in each;
            None is one for each process that learns.
        overlap: Have other processes do actions while an update is computed. The first action
            after an update is then chosen before it.
        buffer_size: Transitions to keep at most.
        memory: Transitions of earlier experiences to keep when the buffer is made new, a uniform
            sample of them all, and to learn from as from the new ones.
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
    num_envs: int | None = None
    overlap: bool = False
    buffer_size: int = 1_000_000
    memory: int = 0
    reset: Sequence[Part] = ("buffer", "optimizers", "critics", "temperature", "exploration")
    cloning: float = 1.0
    remember: int | None = None
    epoch_steps: int = 1_000

    def __post_init__(self) -> None:
        check_at_least(
            self, "learner", steps=1, start_steps=0, action_repeat=1, gamma=0, tau=0,
            critic_lr=0, temperature_lr=0, num_envs=1, buffer_size=1, memory=0, cloning=0,
            remember=1, epoch_steps=1,
        )  # fmt: skip
        for width in self.critic_hidden or ():
            at_least(width, 1, "learner.critic_hidden")
        for name in ("update_ratio", "temperature"):
            if not getattr(self, name) > 0:
                raise SettingError(f"learner.{name} must be above 0, got {getattr(self, name)!r}")
        for name in ("gamma", "tau"):
            if getattr(self, name) > 1:
                raise SettingError(f"learner.{name} must be at most 1, got {getattr(self, name)!r}")
        if self.memory and "buffer" not in self.reset:
            raise SettingError(
                f"learner.memory={self.memory} is what stays when the buffer is made new, but "
                f"learner.reset={list(self.reset)} keeps all of it: set learner.memory=0, or add "
                "buffer to learner.reset"
            )
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
