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
    """How actions are learned and done.

    Args:
        head: ``mse``, ``l1``: the outputs are the action, learned by the squared or the absolute
            error. ``gmm``: a mixture of Gaussians, learned by its likelihood. ``flow``: a flow that
            carries noise to actions (Lipman et al., 2023).
        modes: ``gmm``: Gaussians of the mixture.
        act: ``gmm``: do the most likely mode's mean (``mode_mean``), draw an action (``draw``, as
            LIBERO does), or draw a mode and do its mean (``draw_mode``: robomimic's evaluation with
            low noise). None: ``draw`` of LIBERO's policies, ``mode_mean`` of others.
        least_deviation: ``gmm``: added to the Gaussians' deviations. More than LIBERO's 1e-4
            (0.03, say) lets a short training attend to all numbers of an action, not to those that
            hardly vary.
        most_deviation: ``gmm``: upper bound of the deviations, None for none. With one (0.1, say) a
            wide Gaussian cannot stand for two ways of doing a task, between which there is none:
            each needs a mode of its own.
        grip: ``bernoulli``: the last number of an action is the gripper's, from -1 (open) to 1
            (closed), and has an output of its own: the probability p of being closed, learned by
            cross-entropy, where an opening in between is a label in between. The mean 2p - 1 is
            done, or with ``act=draw`` a draw. ``gaussian``: a number like the others.
        chunk: Actions that are predicted at each step: this one and those that follow (Zhao et
            al., 2023).
        execute: Of a chunk, do so many actions before a new one is asked for; None averages what
            all chunks say of this step.
        ensemble: How fast the weights ``exp(-ensemble * i)`` of these averages fall, from the
            oldest chunk (i = 0) to the newest.
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
                f"model.execute={self.execute} is more than a chunk has: at most "
                f"model.chunk={self.chunk}"
            )
        if self.act is not None and self.head != "gmm" and not self._can_draw_grip:
            raise SettingError(
                f"model.act={self.act} chooses how a mixture of Gaussians acts: it needs "
                f"model.head=gmm, which model.head={self.head} is not (act=draw is also for "
                "model.grip=bernoulli)"
            )

    @property
    def _can_draw_grip(self) -> bool:
        return self.grip == "bernoulli" and self.act == "draw"

    @property
    def plain(self) -> bool:
        """Whether outputs are one action, learned by the squared error, and nothing else."""
        return self.head == "mse" and self.grip == "gaussian" and self.chunk == 1

    def in_words(self, rule: Rule) -> dict[str, Any]:
        """How a policy with these settings acts, for the results.

        Args:
            rule: What is done where ``act`` is None.
        """
        words: dict[str, Any] = {"head": self.head}
        if self.head == "gmm":
            words |= {"modes": self.modes, "act": self.act or rule}
        if self.head == "flow":
            words["flow_steps"] = self.flow_steps
        if self.grip == "bernoulli":
            words["grip"] = "drawn" if self.act == "draw" else "mean"
        if self.chunk > 1:
            words["chunk"] = self.chunk
            words |= (
                {"ensemble": self.ensemble} if self.execute is None else {"execute": self.execute}
            )
        return words


MIXTURE = ActionSettings()
SQUARED_ERROR = ActionSettings(head="mse")
