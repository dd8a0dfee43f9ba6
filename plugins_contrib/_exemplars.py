"""Base class of class-incremental methods with exemplars and a teacher."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe import Capabilities, Plugin, Term, hookimpl
from clframe.data.buffer import Buffer
from clframe.data.class_buffer import make_buffer, remember
from clframe.utils.setting_checks import check_at_least

if TYPE_CHECKING:
    from clframe import Batch, Data, Experience, Learner, Step, Stream

Selection = Literal["herding", "random"]


class ExemplarPlugin(Plugin):
    """Base of methods that replay exemplars, with the former network as a teacher.

    Old classes are those of earlier experiences that are not in the current one.

    Args:
        size: Number of exemplars, shared evenly by the classes; not used with ``per_class``.
        per_class: Exemplars of each class.
        selection: Exemplars by iCaRL's ``herding`` or at ``random``.
    """

    scenarios = ("class",)
    roles: ClassVar[tuple[str, ...]] = ("training data",)
    excludes: ClassVar[Mapping[str, str]] = {
        "untrained head": "its teacher and its loss are about the outputs"
    }
    capabilities = Capabilities(needs_class_labels=True, needs_boundaries=True)
    state: ClassVar[tuple[str, ...]] = ("buffer",)

    def __init__(self, size: int, per_class: int | None, selection: Selection) -> None:
        self.size = size
        self.kept_for_training = size
        self.per_class = per_class
        self.selection = selection
        check_at_least(self, self.name, size=1, per_class=1)
        self.buffer: Buffer
        # Made before each experience, so not part of the state.
        self._teacher: nn.Module | None = None
        self._old = torch.empty(0, dtype=torch.long)
        self._new = torch.empty(0, dtype=torch.long)

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Create the buffer."""
        policy: Literal["herding", "class_balanced"] = (
            "herding" if self.selection == "herding" else "class_balanced"
        )
        self.buffer = make_buffer(stream, self.kept_for_training, self.per_class, policy)
        self._teacher = None

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Find the old and the new classes; copy the network if there are old ones."""
        device = learner.engine.device
        seen = {unit for past in learner.seen for unit in past.outputs}
        old = sorted(seen - set(experience.outputs))
        self._old = torch.tensor(old, dtype=torch.long, device=device)
        self._new = torch.tensor(experience.outputs, dtype=torch.long, device=device)
        self._teacher = None
        if old:
            self._teacher = copy.deepcopy(learner.model).eval().requires_grad_(False)

    @hookimpl
    def extra_data(self, learner: Learner, experience: Experience) -> Data | None:
        """Return all exemplars."""
        if not len(self.buffer):
            return None
        return self.buffer.data(learner).to(experience.data.labels.device)

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Choose exemplars; the new classes take space from the old ones."""
        self._teacher = None
        remember(self.buffer, learner, data)

    def distilled(self, step: Step, temperature: float) -> Term | None:
        """Return the distillation from the teacher, weighted by n old to m new classes.

        The loss with a = n / (n + m) is (1 - a) L + a L_KD.
        """
        if self._teacher is None:
            return None
        value = distillation(step.outputs[0], self.taught(step.batch), self._old, temperature)
        return Term(value, self.old_share)

    @property
    def old_share(self) -> float:
        """Number of old classes for each new one."""
        return len(self._old) / len(self._new)

    def taught(self, batch: Batch) -> Tensor:
        """Return the teacher's outputs for a batch."""
        assert self._teacher is not None
        with torch.no_grad():
            outputs: Tensor = self._teacher(batch.x)
        return outputs.float()


def distillation(outputs: Tensor, targets: Tensor, units: Tensor, temperature: float) -> Tensor:
    """Return ``- sum_k q_k log p_k``, mean over samples.

    q and p are the softmax of targets and outputs over some units, both at this temperature.
    """
    answers = outputs.float().index_select(1, units) / temperature
    scaled = targets.index_select(1, units) / temperature
    return functional.cross_entropy(answers, scaled.softmax(1))
