"""Detection of losses that are not finite, without waiting for the device at every step.

Losses stay on the device and are checked together: at the end of an epoch, before a checkpoint and
every few hundred steps. No checkpoint is ever taken of a run whose loss is not finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clframe.errors import ClframeError

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.state import LoopProgress
    from clframe.core.step import Step
    from clframe.core.stream import Experience

_CHECK_EVERY = 256
"""Steps after which losses are checked even if nothing else triggers it."""


class NotFiniteError(ClframeError):
    """The loss became infinite or not a number."""


class NonFiniteMonitor:
    """Losses of the last steps and their terms, still on the device.

    Args:
        learner: The learner.
        experience: The experience that is learned.
        progress: Progress of the loop.
        named: Whether the message names the seed, because several seeds train together.
    """

    def __init__(
        self, learner: Learner, experience: Experience, progress: LoopProgress, named: bool = False
    ) -> None:
        self.learner = learner
        self.experience = experience
        self.progress = progress
        self.whose = f" of seed {learner.seed}" if named else ""
        self._steps: list[tuple[Tensor, list[Tensor], list[Tensor]]] = []
        self._last: Step | None = None

    def add(self, loss: Tensor, step: Step | None) -> None:
        """Keep a step's loss and, if known, its terms."""
        self._steps.append((loss, [], []) if step is None else (loss, step.losses, step.terms))
        self._last = step
        if len(self._steps) >= _CHECK_EVERY:
            self.check()

    def check(self) -> None:
        """Check the losses kept so far, with one read from the device.

        Raises:
            NotFiniteError: The message names the experience, the first step and the term.
        """
        losses = [loss for loss, _, _ in self._steps]
        if not losses or bool(torch.stack(losses).isfinite().all()):
            self._steps = []
            return
        first = int(torch.stack(losses).isfinite().logical_not().nonzero()[0])
        number = self.progress.steps - len(losses) + first + 1
        whose = self._whose(*self._steps[first][1:])
        raise NotFiniteError(
            f"the loss{self.whose} is not finite in experience '{self.experience.name}', epoch "
            f"{self.learner.epoch + 1}, step {number}: {whose}; the last checkpoint is from before "
            "it. Try a smaller learning rate or weight, or continue regardless with "
            "trainer.on_nan=ignore"
        )

    def _whose(self, batch_losses: list[Tensor], terms: list[Tensor]) -> str:
        """Return which term of the loss is not finite: a plugin's, or the model's own."""
        bad_parts = [i for i, loss in enumerate(batch_losses) if not bool(loss.isfinite())]
        bad_terms = [i for i, term in enumerate(terms) if not bool(term.isfinite())]
        names: list[str] = []
        if 0 not in bad_parts:
            who = (
                self._names("extra_batches", len(batch_losses) - 1) if len(batch_losses) > 1 else []
            )
            names += [who[i - 1] for i in bad_parts]
            who = self._names("penalty", len(terms)) if terms else []
            names += [who[i] for i in bad_terms]
        if not names:
            return "the loss of the current batch itself, so the model's outputs are not finite"
        return "the term of plugin " + " and ".join(f"'{n}'" for n in dict.fromkeys(names))

    def _names(self, hook: str, count: int) -> list[str]:
        """Return the plugins that gave the results of a hook, which pluggy does not tell."""
        assert self._last is not None
        plugins = self.learner.plugins
        caller = getattr(plugins.hook, hook)
        # pluggy calls the last implementation first.
        callers = [impl.plugin for impl in reversed(caller.get_hookimpls()) if not impl.wrapper]
        if len(callers) == count:
            return [plugin.name for plugin in callers]
        # Some returned None, or several values: call each again.
        arguments: dict[str, Any] = {"learner": self.learner}
        arguments |= {"step": self._last} if hook == "penalty" else {"batch": self._last.batch}
        names: list[str] = []
        for plugin in callers:
            others = [other for other in plugins.ordered if other is not plugin]
            with torch.no_grad():
                answers = plugins.manager.subset_hook_caller(hook, others)(**arguments)
            for answer in answers:
                names += [plugin.name] * (len(answer) if isinstance(answer, list) else 1)
        unknown = " or ".join(plugin.name for plugin in callers)
        return names if len(names) == count else [unknown] * count
