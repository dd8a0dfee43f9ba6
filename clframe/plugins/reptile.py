"""Reptile and first-order MAML: an initialization from which tasks are learned quickly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from clframe.core.plugin import Plugin
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.metrics import MetricInfo

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.stream import Experience, Stream


class Reptile(Plugin):
    """Reptile and first-order MAML: an outer step towards where each task's training leads.

    An experience is one inner loop: learning goes from ``phi`` to ``W`` in ``k`` steps, whose
    gradients are ``g_1 ... g_k``. After it (Nichol et al., algorithm 1 and section 5)::

        reptile  phi <- phi + step (W - phi)
        fomaml   phi <- phi - step g_k

    ``g_k`` is the gradient on the last batch after the ``k - 1`` updates before it. First-order
    MAML takes it for that of the initialization (Finn et al. 2017 without second derivatives; each
    batch is drawn again, so the last one is fresh). With ``form=reptile step=1`` tasks are simply
    learned in turn: fine-tuning, as a baseline. The outer step moves the parameters that
    regularizers act on (of soft actor-critic the actor); buffers such as running means stay as
    training left them.

    A stream may end with tasks to adapt to (``stream.adapt=true`` of Meta-World's ML streams).
    Each starts with the learner after the other tasks, is trained for as long as an inner loop,
    and changes nothing for the next. The metrics ``adaptation.*`` are the mean measure of these
    tasks before and after it.

    Args:
        step: The outer step size (epsilon of Reptile, the outer learning rate of MAML).
        form: ``reptile`` or ``fomaml``.

    Example:
        >>> from clframe.plugins import Reptile
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [Reptile(step=0.5)]).strategy
        'reptile'
    """

    paper = "Nichol, Achiam & Schulman, On First-Order Meta-Learning Algorithms, 2018"
    roles = ("first weights",)
    excludes: ClassVar[Mapping[str, str]] = {
        "task weights": "its outer step would move them away from where training left them"
    }
    state = ("last", "kept")
    metric_info = (
        MetricInfo("adaptation.before", meaning="tasks to adapt to, as the others leave them"),
        MetricInfo("adaptation.after", meaning="each of them after adaptation", headline=True),
        MetricInfo("adaptation.gain", "after - before", "what adaptation brings"),
    )

    def __init__(self, step: float = 0.1, form: Literal["reptile", "fomaml"] = "reptile") -> None:
        if not step > 0:
            raise SettingError(f"reptile.step must be above 0, got {step!r}")
        self.step, self.form = step, form
        # State of the current experience; its start is set again when it begins again.
        self.parameters: dict[str, nn.Parameter] = {}
        self.start: list[Tensor] = []
        self.last: list[Tensor] = []
        """The gradients of the last step, for fomaml."""
        self.kept: dict[str, Tensor] = {}
        """The learner at the start of the first adaptation."""
        self._adapted: list[Experience] = []
        self._learned: Experience | None = None

    @hookimpl
    def configure(self, stream: Stream) -> None:
        """Find the tasks to adapt to."""
        self._adapted = [e for e in stream if e.info.get("adapts")]
        others = [e for e in stream if not e.info.get("adapts")]
        self._learned = others[-1] if others else None

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Store the start of the inner loop; every adaptation starts where the first one did."""
        if experience.info.get("adapts"):
            if self.kept:
                learner.load_state_dict(self.kept)
            else:
                self.kept = {name: v.detach().clone() for name, v in learner.state_dict().items()}
        self.parameters = learner.named_trainable()
        self.start = [p.detach().clone() for p in self.parameters.values()]
        self.last = [torch.zeros_like(p) for p in self.start] if self.form == "fomaml" else []

    @hookimpl(trylast=True)
    def after_step(self) -> None:
        """Store the gradient, which may be the last one."""
        if not self.last:
            return
        for last, parameter in zip(self.last, self.parameters.values(), strict=True):
            if parameter.grad is not None:
                last.copy_(parameter.grad)

    @hookimpl(tryfirst=True)
    @torch.no_grad()
    def after_experience(self, experience: Experience) -> None:
        """Take the outer step."""
        if experience.info.get("adapts"):
            return
        now = [p.data for p in self.parameters.values()]
        if self.form == "fomaml":
            moved = torch._foreach_sub(self.start, self.last, alpha=self.step)
        else:
            moved = torch._foreach_lerp(self.start, now, self.step)
        torch._foreach_copy_(now, list(moved))

    @hookimpl
    def metrics(self, result: Result) -> dict[str, dict[str, Any]] | None:
        """Return the mean measure of the adaptation tasks, before and after."""
        if not self._adapted or self._learned is None:
            return None
        matrix, values = result.matrix, result.matrix.values

        def mean_of(rows: list[str]) -> float | None:
            cells = [
                values[matrix.rows.index(row), matrix.columns.index(task.name)]
                for row, experience in zip(rows, self._adapted, strict=True)
                for task in experience.tasks
            ]
            mean = sum(map(float, cells)) / len(cells)
            return None if math.isnan(mean) else mean

        before = mean_of([self._learned.name] * len(self._adapted))
        after = mean_of([experience.name for experience in self._adapted])
        gain = None if before is None or after is None else after - before
        return {"adaptation": {"before": before, "after": after, "gain": gain}}
