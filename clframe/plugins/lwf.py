"""Learning without forgetting: distillation of the old model's outputs on new inputs."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.core.step import Term
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.utils.setting_checks import at_most, check_at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.step import Step
    from clframe.core.stream import Experience
    from clframe.data.dataset import Batch, Data


class LwF(Plugin):
    """Distillation of the old model's outputs on the current inputs into the new model.

    With ``q`` the old and ``p`` the new model's softmax at temperature ``T``, the distillation is
    ``D = -sum_c q_c log p_c`` on the current inputs, mean over samples. In the task scenario it is
    computed separately for the outputs of each earlier task. Two forms::

        van_de_ven  1/N * loss + (1 - 1/N) * T^2 * D    N experiences with this one; D is the mean
                                                        over earlier tasks; p ranges over all
                                                        active classes, q is 0 for new ones
        paper       loss + weight * D                   Li & Hoiem, eqs. 1 to 3: D is the sum over
                                                        earlier tasks; p and q range over old
                                                        classes (their warm-up is left out)

    The sum over classes in ``D`` is what the papers write (``reduction=sum``). The program behind
    the tables of van de Ven & Tolias, "Three scenarios for continual learning" (2018 and 2019),
    took the mean over a head's outputs as well as over samples until May 2019, when it became a
    sum. So with ``m`` outputs that ``p`` ranges over, ``reduction=mean`` is ``D / m``: the
    distillation is weaker, the more classes have been seen. Class-incremental split MNIST tells
    them apart: the 2019 table (23.85) follows ``mean``, the later program and the 2022 paper
    (21.89) ``sum``.

    The old model runs in evaluation mode. If an input is the same each time, its output is
    computed once per experience.

    Args:
        temperature: Softening temperature (T).
        weighting: Which of the two forms.
        weight: Multiplies the distillation: in ``van_de_ven`` relative to the shares above, in
            ``paper`` it is lambda_o.
        reduction: Over the outputs of a head: their ``sum``, or their ``mean`` as in the tables of
            2018 and 2019.
        cache: Keep the old model's outputs if possible.
        memory: Megabytes for kept outputs; above this they are computed at each step.

    Example:
        ``clframe fit strategy=lwf stream=split_mnist scenario=task``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import LwF
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [LwF(temperature=2.0)]).strategy
        'lwf'
    """

    capabilities = Capabilities(batched_seeds=True, needs_class_labels=True, needs_boundaries=True)
    name = "lwf"
    paper = "Li & Hoiem, Learning without forgetting, 2016"

    def __init__(
        self,
        temperature: float = 2.0,
        weighting: Literal["van_de_ven", "paper"] = "van_de_ven",
        weight: float = 1.0,
        reduction: Literal["sum", "mean"] = "sum",
        cache: bool = True,
        memory: int = 1024,
    ) -> None:
        if not temperature > 0:
            raise SettingError(f"lwf.temperature must be above 0, got {temperature!r}")
        at_most(temperature, 1e6, "lwf.temperature")
        self.temperature = temperature
        self.weighting = weighting
        self.weight = weight
        self.reduction = reduction
        self.cache = cache
        self.memory = memory
        check_at_least(self, self.name, weight=0, memory=0)
        # Everything below is computed again from the model when an experience begins.
        self.teacher: nn.Module | None = None
        self.units = torch.empty(0, 0, dtype=torch.long)
        self.closed_to_teacher = torch.empty(0, 0, dtype=torch.bool)
        self.closed_to_student = torch.empty(0, 0, dtype=torch.bool)
        self.kept: tuple[Data, Tensor] | None = None

    @hookimpl
    def configure(self) -> None:
        """Start without a teacher."""
        self.teacher = self.kept = None

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Copy the model and choose the outputs to distil."""
        self.teacher = self.kept = None
        if learner.seen:
            self.teacher = copy.deepcopy(learner.model).eval().requires_grad_(False)
            self._choose_outputs(learner, experience)

    @hookimpl
    def after_experience(self) -> None:
        """Free the teacher and its outputs."""
        self.teacher = self.kept = None

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Tensor | Term | None:
        """Return the distillation on the current batch; None in the first experience."""
        if self.teacher is None:
            return None
        batch = step.batch
        if learner.stream.scenario != "task":
            logits = step.outputs[0]
        elif step.features[0] is not None:
            # The outputs of other tasks were masked in the step's own outputs.
            logits = learner.model.head(step.features[0])  # type: ignore[operator]
        else:
            logits = learner.model(batch.x)
        scores = self._heads(logits, self.closed_to_student)
        targets = self.targets(learner, batch)
        if self.reduction == "mean":
            targets = targets / (~self.closed_to_student).sum(1, keepdim=True)
        value = functional.cross_entropy(scores.flatten(0, 1), targets.flatten(0, 1))
        if self.weighting == "paper":
            return self.weight * len(self.units) * value
        return Term(self.temperature**2 * value, self.weight * len(learner.seen))

    def targets(self, learner: Learner, batch: Batch) -> Tensor:
        """Return the teacher's probabilities for a batch, ``[samples, heads, head outputs]``."""
        data = batch.data
        if self.kept is not None and data is self.kept[0]:
            return self.kept[1][batch.positions]
        if self.cache and data is not None and data.repeatable:
            megabytes = len(data) * self.units.numel() * 4 / 2**20
            if megabytes <= self.memory:
                order = torch.arange(len(data), device=self.units.device)
                batches = data.batches(order, learner.engine.evaluation.eval_batch_size)
                answers = [self._answer(learner, chunk.x, chunk.task) for chunk in batches]
                self.kept = (data, torch.cat(answers))
                return self.kept[1][batch.positions]
        return self._answer(learner, batch.x, batch.task)

    @torch.no_grad()
    def _answer(self, learner: Learner, x: object, task: Tensor) -> Tensor:
        assert self.teacher is not None
        # Gate the teacher's units by task as well.
        learner.set_task(task)
        return self._heads(self.teacher(x), self.closed_to_teacher).softmax(-1)

    def _heads(self, logits: Tensor, closed: Tensor) -> Tensor:
        """Return logits over the temperature, one row of outputs for each head."""
        chosen = logits.index_select(1, self.units.flatten()) / self.temperature
        heads = chosen.view(len(logits), *self.units.shape)
        return heads.masked_fill(closed, torch.finfo(heads.dtype).min)

    def _choose_outputs(self, learner: Learner, experience: Experience) -> None:
        """Choose one row of output units per head; pad shorter heads with closed ones."""
        device = learner.engine.device
        if learner.stream.scenario == "task":
            tasks = {task.index: task for past in learner.seen for task in past.tasks}
            old = [list(task.outputs) for task in tasks.values()]
            new: list[int] = []
        elif learner.stream.scenario == "class" and (
            learner.active_outputs == "seen" or self.weighting == "paper"
        ):
            old = [sorted({unit for past in learner.seen for unit in past.outputs})]
            new = [unit for unit in experience.outputs if unit not in old[0]]
        else:
            old, new = [list(range(learner.stream.n_outputs))], []
        if self.weighting == "paper":
            new = []
        width = max(len(row) for row in old) + len(new)
        self.units = torch.tensor([(row + new + [0] * width)[:width] for row in old], device=device)
        column = torch.arange(width, device=device)
        n_old = torch.tensor([len(row) for row in old], device=device)[:, None]
        self.closed_to_teacher = column >= n_old
        self.closed_to_student = column >= n_old + len(new)
