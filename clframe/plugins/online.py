"""Online (prequential) accuracy: each batch is predicted before it is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.step import Step
    from clframe.core.stream import Experience


class Online(Plugin):
    """Online accuracy: each training batch is predicted before it is learned.

    Prequential evaluation ("test, then train", Gama et al. 2013; of continual learners Cai et al.
    2021): every sample of an experience is predicted once, by the outputs of the step that then
    learns it, so no pass is added. Later epochs do not count, because their samples have been
    learned before. Samples of past tasks that a method joins to the data do not count either. The
    model is in training mode (dropout, batch statistics). Counts stay on the device.

    Example:
        >>> from clframe.plugins import Online
        >>> from clframe.testing import toy_run, toy_stream
        >>> result, _ = toy_run([Online()], toy_stream())
        >>> len(result.metrics["online"]["accuracy_k"])
        3
    """

    name = "online"
    paper = "Gama et al., On evaluating stream learning algorithms, 2013"
    capabilities = Capabilities(evaluator=True, needs_class_labels=True)
    state: ClassVar[tuple[str, ...]] = ("right", "taken", "counts")

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {"right": [], "taken": []}
        """Counts of each learned experience."""
        self.right: Tensor
        self.taken: Tensor
        self._current: Tensor

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Create the counts of the current experience."""
        device = learner.engine.device
        self.right = torch.zeros((), dtype=torch.long, device=device)
        self.taken = torch.zeros((), dtype=torch.long, device=device)

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Reset the counts; note which samples are the experience's own."""
        self.right, self.taken = torch.zeros_like(self.right), torch.zeros_like(self.taken)
        own = torch.zeros(len(learner.stream.tasks) + 1, dtype=torch.bool)
        own[[task.index for task in experience.tasks]] = True
        self._current = own.to(learner.engine.device)

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        """Count the correct outputs of the step, computed before its update."""
        experience = learner.experience
        assert experience is not None
        # Phases after learning (retraining) begin when the experience counts as seen.
        if learner.epoch or len(learner.seen) > experience.index:
            return
        batch = step.batch
        own = self._current[batch.task]
        hits = step.outputs[0].detach().argmax(1) == batch.y
        self.right += (hits & own).sum()
        self.taken += own.sum()

    @hookimpl
    def after_experience(self, learner: Learner) -> None:
        """Read the experience's counts, and log its accuracy."""
        right, taken = torch.stack([self.right, self.taken]).tolist()
        self.counts["right"].append(right)
        self.counts["taken"].append(taken)
        if taken:
            learner.log("online/accuracy", right / taken)

    @hookimpl
    def metrics(self, result: Result) -> None:
        """Store the counts."""
        result.measured[self.name] = self.counts
