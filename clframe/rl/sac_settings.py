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
    """The settings of soft actor-critic.

    The batch size is ``trainer.batch_size``; the actor's learning rate is the optimizer's.

    Args:
        steps: Decisions in an experience.
        start_steps: Decisions before the first update; ``reset`` sets whether they are random.
        update_ratio: Updates per decision after these.
        action_repeat: How often each action is repeated, in training and in evaluation.
        gamma: Discount factor per decision.
        tau: Share of the critics that each update adds to their targets.
        critic_hidden: Width of each hidden layer of the critics; None uses the actor's.
        critic_lr: Learning rate of the critics.
        temperature: Initial weight of the entropy relative to the reward.
        temperature_lr: Learning rate of the temperature; 0 keeps it constant.
        target_entropy: Target of the temperature; None is minus the numbers in an action.
        num_envs: Environments stepped at the same time; None is one for each training process.
        overlap: Let worker processes execute actions while an update is computed. The first action
            after an update is then chosen before it.
        buffer_size: Largest number of transitions to keep.
        memory: Transitions of earlier experiences to keep when the buffer is reset, a uniform
            sample; they are learned together with the new ones.
        reset: What to reset when a task begins: the ``buffer``, the ``optimizers``, the
            ``critics``, the ``temperature``, and ``exploration``, which makes the decisions before
            the first update random again instead of the policy's.
        cloning: Weight of the divergence from earlier policies in replay.
        remember: Number of an experience's last states to leave to plugins; None for all.
        epoch_steps: Updates per epoch, after which values are logged.
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
                f"learner.memory={self.memory} needs a buffer that is reset, but learner.reset="
                f"{list(self.reset)} keeps all of it; set learner.memory=0, or add buffer to "
                "learner.reset"
            )
        if self.pace.updates < 1:
            raise SettingError(
                f"learner.steps={self.steps} leaves no update after learner.start_steps="
                f"{self.start_steps}; raise steps or lower start_steps"
            )

    @property
    def pace(self) -> Pace:
        """The decisions and updates of an experience."""
        return Pace(self.steps, self.start_steps, self.update_ratio)

    def rows(self, experiences: int, joint: bool) -> int:
        """Return the number of transitions to keep, at most as many as there will be."""
        keeps_all = joint or "buffer" not in self.reset
        of_run = self.steps * (experiences if keeps_all else 1)
        return min(self.buffer_size, of_run)
