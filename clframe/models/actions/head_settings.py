"""The settings that all policies with a head for actions share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from clframe.errors import SettingError
from clframe.utils.setting_checks import at_least

Head: TypeAlias = Literal["mse", "l1", "gmm", "flow"]
Rule: TypeAlias = Literal["mode_mean", "draw", "draw_mode"]


@dataclass(frozen=True)
class ActionSettings:
    """How actions are learned and executed.

    Args:
        head: ``mse``, ``l1``: the outputs are the action, learned by the squared or the absolute
            error. ``gmm``: a mixture of Gaussians, learned by its likelihood. ``flow``: a flow that
            carries noise to actions (Lipman et al., 2023).
        modes: ``gmm``: Number of Gaussians in the mixture.
        act: ``gmm``: use the most likely mode's mean (``mode_mean``), sample an action (``draw``,
            as LIBERO does), or sample a mode and use its mean (``draw_mode``: robomimic's
            evaluation with low noise). None: ``draw`` for LIBERO's policies, ``mode_mean`` for
            others.
        least_deviation: ``gmm``: added to the Gaussians' deviations. With more than LIBERO's 1e-4
            (such as 0.03), a short training learns all numbers of an action, not only those that
            hardly vary.
        most_deviation: ``gmm``: upper bound of the deviations, None for none. With a bound (such as
            0.1), a wide Gaussian cannot represent two ways to do a task and everything between
            them: each needs its own mode.
        grip: ``bernoulli``: the last number of an action is the gripper's, from -1 (open) to 1
            (closed), and has its own output: the probability p of being closed, learned by
            cross-entropy, with fractional labels for partial openings. The action is the mean 2p -
            1, or a sample with ``act=draw``. ``gaussian``: a number like the others.
        chunk: Actions predicted at each step: this one and the following ones (Zhao et al., 2023).
        execute: Actions of a chunk to execute before a new one is predicted; None averages all
            chunks' predictions of this step.
        ensemble: Decay of the weights ``exp(-ensemble * i)`` of these averages, from the oldest
            chunk (i = 0) to the newest.
        flow_steps: ``flow``: Euler steps from noise to an action.
    """

    head: Head = "gmm"
    modes: int = 5
    act: Rule | None = None
    least_deviation: float = 1e-4
    most_deviation: float | None = None
    grip: Literal["bernoulli", "gaussian"] = "gaussian"
    chunk: int = 1
    execute: int | None = None
    ensemble: float = 0.01
    flow_steps: int = 10

    def __post_init__(self) -> None:
        at_least(self.modes, 1, "model.modes")
        at_least(self.least_deviation, 1e-6, "model.least_deviation")
        at_least(self.chunk, 1, "model.chunk")
        at_least(self.execute, 1, "model.execute")
        at_least(self.ensemble, 0, "model.ensemble")
        at_least(self.flow_steps, 1, "model.flow_steps")
        if self.most_deviation is not None and self.most_deviation <= self.least_deviation:
            raise SettingError(
                f"model.most_deviation={self.most_deviation:g} must be more than "
                f"model.least_deviation={self.least_deviation:g}"
            )
        if self.execute is not None and self.execute > self.chunk:
            raise SettingError(
                f"model.execute={self.execute} exceeds the actions of a chunk; use at most "
                f"model.chunk={self.chunk}"
            )
        if self.act is not None and self.head != "gmm" and not self._can_draw_grip:
            raise SettingError(
                f"model.act={self.act} chooses how a mixture of Gaussians acts, so it needs "
                f"model.head=gmm instead of model.head={self.head} (act=draw also works with "
                "model.grip=bernoulli)"
            )

    @property
    def _can_draw_grip(self) -> bool:
        return self.grip == "bernoulli" and self.act == "draw"

    @property
    def plain(self) -> bool:
        """Whether outputs are one action, learned by the squared error, without grip or chunk."""
        return self.head == "mse" and self.grip == "gaussian" and self.chunk == 1

    def in_words(self, rule: Rule) -> dict[str, Any]:
        """Describe how a policy with these settings acts, for the results.

        Args:
            rule: The rule if ``act`` is None.
        """
        description: dict[str, Any] = {"head": self.head}
        if self.head == "gmm":
            description |= {"modes": self.modes, "act": self.act or rule}
        if self.head == "flow":
            description["flow_steps"] = self.flow_steps
        if self.grip == "bernoulli":
            description["grip"] = "drawn" if self.act == "draw" else "mean"
        if self.chunk > 1:
            description["chunk"] = self.chunk
            description |= (
                {"ensemble": self.ensemble} if self.execute is None else {"execute": self.execute}
            )
        return description


MIXTURE = ActionSettings()
SQUARED_ERROR = ActionSettings(head="mse")
