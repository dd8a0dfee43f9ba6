"""BiC: a correction of the bias towards new classes, learned on held-out samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from clframe import SettingError, hookimpl
from clframe.data.buffer import Buffer, lowest_of_groups
from clframe.data.class_buffer import remember
from clframe.utils.setting_checks import check_at_least

from ._exemplars import ExemplarPlugin, Selection
from ._functional import outputs_over

if TYPE_CHECKING:
    from clframe import Batch, Budget, Data, Experience, Learner, Step, Stream, Task, Term


class BiC(ExemplarPlugin):
    """BiC: exemplars and distillation, followed by a correction of the new classes' logits.

    With n old and m new classes, two stages in each experience from the second on. Stage 1 (eqs.
    1 to 3 of the paper) trains the network on new data and exemplars with

        L = a L_d + (1 - a) L_c,   a = n / (n + m),

    where L_c is the cross-entropy over all classes and L_d that of the old classes' softmax at
    temperature T with that of the former network, whose logits are corrected by its own stage 2.
    Stage 2 keeps the network fixed and learns alpha and beta of

        q_k = o_k (old classes),   q_k = alpha o_k + beta (new classes)             (eq. 4)

    by the cross-entropy of q (eq. 5) on samples that stage 1 has not seen: a part of the buffer
    that is never trained on, and the same number of samples of each new class. The network is fixed
    then, so its outputs are computed once and all steps of stage 2 are on these two numbers.
    Predictions use q. Former corrections need not be kept: stage 1 distils them into the network.

    Args:
        size: Number of exemplars, shared evenly by the classes.
        validation: Fraction of them that is kept for stage 2.
        temperature: T above.
        bias_steps: Steps of stage 2, with Adam on the whole validation set.
        bias_lr: Learning rate of stage 2.
        selection: Exemplars by ``herding``, or at ``random``; validation samples are random.
    """

    name = "bic"
    paper = "Wu et al., Large Scale Incremental Learning, 2019"
    roles = (*ExemplarPlugin.roles, "head", "prediction")
    state = ("buffer", "validation_buffer", "scale", "shift")

    def __init__(
        self,
        size: int = 2000,
        validation: float = 0.1,
        temperature: float = 2.0,
        bias_steps: int = 500,
        bias_lr: float = 0.01,
        selection: Selection = "herding",
    ) -> None:
        if not temperature > 0:
            raise SettingError(f"bic.temperature must be above 0, got {temperature!r}")
        if not 0 < validation < 1 or not 1 <= round(size * validation) < size:
            raise SettingError(
                "bic.validation must be a fraction between 0 and 1 that leaves samples of "
                f"bic.size={size} on both sides, got {validation!r}"
            )
        self.validation = validation
        super().__init__(size, None, selection)
        self.n_validation = round(size * validation)
        self.kept_for_training = size - self.n_validation
        self.temperature = temperature
        self.bias_steps = bias_steps
        self.bias_lr = bias_lr
        check_at_least(self, self.name, bias_steps=1, bias_lr=0)
        self.validation_buffer: Buffer
        self.scale: Tensor
        self.shift: Tensor
        # Made again in each experience.
        self._former: tuple[Tensor, Tensor]
        self._held = torch.empty(0, dtype=torch.long)

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Create both parts of the buffer; nothing is corrected yet."""
        super().configure(learner, stream)
        self.validation_buffer = Buffer(self.n_validation, "class_balanced")
        self.scale = torch.ones(stream.n_outputs, device=learner.engine.device)
        self.shift = torch.zeros(stream.n_outputs, device=learner.engine.device)

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Keep the former network with its correction; the one to be trained has none."""
        super().before_experience(learner, experience)
        self._former = (self.scale, self.shift)
        self.scale, self.shift = torch.ones_like(self.scale), torch.zeros_like(self.shift)

    def taught(self, batch: Batch) -> Tensor:
        """Return the teacher's corrected outputs."""
        scale, shift = self._former
        return super().taught(batch) * scale + shift

    # ------------------------------------------------------------ two stages

    @hookimpl(tryfirst=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool:
        """Train on all but the held-out samples, then learn the correction on these."""
        own = experience.data  # the data's first samples
        self._held = self.hold_out(learner, own)
        learner.train_on(data.subset(others(self._held, len(data))), budget)
        if self._teacher is not None and len(self._held):
            held = own.subset(self._held).to(learner.engine.device)
            outputs, labels = [outputs_over(learner, held)], [held.labels]
            if len(self.validation_buffer):
                remembered = self.validation_buffer.data(learner)
                outputs.append(outputs_over(learner, remembered))
                labels.append(remembered.labels)
            self.correct(torch.cat(outputs), torch.cat(labels))
        return True

    def hold_out(self, learner: Learner, data: Data) -> Tensor:
        """Return positions of validation samples: per new class as many as old ones will have."""
        counts = data.labels.bincount()
        classes = len(self._old) + len(self._new)
        # At most half of a class, and one of each if the buffer is smaller than that.
        most = int(counts[counts > 0].min()) // 2
        each = min(max(self.n_validation // classes, 1), most)
        generator = learner.generator
        draw = torch.rand(len(data), device=generator.device, generator=generator)
        if not each:
            return torch.empty(0, dtype=torch.long, device=data.labels.device)
        return lowest_of_groups(data.labels, draw.to(data.labels.device), len(data), each)

    def correct(self, outputs: Tensor, labels: Tensor) -> None:
        """Stage 2: learn alpha and beta on the outputs of the trained network."""
        new = torch.zeros_like(self.scale)
        new[self._new] = 1.0
        with torch.enable_grad():
            alpha = torch.ones((), device=outputs.device, requires_grad=True)
            beta = torch.zeros((), device=outputs.device, requires_grad=True)
            optimizer = torch.optim.Adam([alpha, beta], lr=self.bias_lr)
            for _ in range(self.bias_steps):
                optimizer.zero_grad()
                corrected = outputs * (1 + (alpha - 1) * new) + beta * new
                functional.cross_entropy(corrected, labels).backward()
                optimizer.step()
        self.scale = 1 + (alpha.detach() - 1) * new
        self.shift = beta.detach() * new

    @hookimpl
    def penalty(self, step: Step) -> Term | None:
        """Return stage 1's distillation."""
        return self.distilled(step, self.temperature)

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Store held-out samples for validation, and exemplars of the others."""
        rest = data.subset(others(self._held, len(data)))
        super().after_experience(learner, rest)
        if len(self._held):
            remember(self.validation_buffer, learner, data.subset(self._held))

    @hookimpl
    def predict(self, learner: Learner, x: Any, task: Task) -> Tensor:
        """Return the corrected outputs."""
        return learner.predict(x, task).float() * self.scale + self.shift


def others(positions: Tensor, n: int) -> Tensor:
    """Return the positions below n that are not among these, in order."""
    left = torch.ones(n, dtype=torch.bool, device=positions.device)
    left[positions] = False
    return left.nonzero().squeeze(1)
