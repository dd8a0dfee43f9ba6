"""iCaRL: exemplars chosen by herding, binary losses, nearest mean of exemplars."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe import Capabilities, Plugin, PluginError, SettingError, hookimpl
from clframe.core.protocols import split_model
from clframe.data.buffer import Buffer, Policy
from clframe.data.class_buffer import make_buffer, remember
from clframe.utils.setting_checks import check_at_least

from ._nearest_mean import NearestMean

if TYPE_CHECKING:
    from clframe import Batch, Data, Experience, Learner, Stream, Task


class ICaRL(Plugin):
    """iCaRL: herded exemplars of old classes, and prediction by the nearest class mean.

    Trains on the new data joined with all exemplars. The loss (Algorithm 3 of the paper) is a
    binary cross-entropy per output: against the true label for new classes, against the sigmoid
    output of the network before this experience for old ones; summed over outputs, mean over
    samples. A sample gets the class whose exemplars' mean feature is nearest (Algorithm 1),
    with features scaled to length 1. An experience has no exemplars while it is learned, so
    evaluations during that time use the network's own outputs.

    Exemplars are herded (Algorithm 4): chosen one by one so that their mean feature stays nearest
    to the class's. Features and the class's mean are scaled to length 1, the mean of the chosen is
    not. The paper scales that, too. Its weight decay and learning rate schedule are settings of the
    optimizer here.

    The table of van de Ven et al., "Three types of incremental learning" (2022; split MNIST, 100
    exemplars of a class, 92.49), was made with a program that differs in two points: its
    temperature is 2, and its exemplars are random. It does herd, but by features in a shuffled
    order, and then takes the samples at those positions of the unshuffled data.
    ``selection=random temperature=2`` reproduces it.

    Args:
        size: Number of exemplars, shared evenly by the classes; not used with ``per_class``.
        per_class: Exemplars of each class.
        temperature: Divides the former outputs before their sigmoid becomes the target (the paper
            has 1; van de Ven et al., 2022, use 2).
        selection: Exemplars by ``herding``, as in the paper, or at ``random``, as in the
            2022 table.
    """

    name = "icarl"
    paper = "Rebuffi et al., iCaRL: Incremental Classifier and Representation Learning, 2017"
    scenarios = ("class", "task")
    roles = ("training data", "task loss", "prediction")
    capabilities = Capabilities(needs_class_labels=True, needs_boundaries=True, multi_pass=True)
    state = ("buffer",)

    def __init__(
        self,
        size: int = 2000,
        per_class: int | None = None,
        temperature: float = 1.0,
        selection: Literal["herding", "random"] = "herding",
    ) -> None:
        if not temperature > 0:
            raise SettingError(f"icarl.temperature must be above 0, got {temperature!r}")
        self.size = size
        self.per_class = per_class
        self.temperature = temperature
        self.selection = selection
        check_at_least(self, self.name, size=1, per_class=1)
        self.buffer: Buffer
        # Made again before each experience, so not part of the state.
        self._teacher: nn.Module | None = None
        self._old: Tensor
        self._means = NearestMean()

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Create the buffer; raise an error for a model without features."""
        if split_model(learner.model) is None:
            raise PluginError(
                "plugin 'icarl' needs a model with 'features' and 'head' for its nearest-mean "
                f"classifier, which {type(learner.model).__name__} lacks"
            )
        policy: Policy = "herding" if self.selection == "herding" else "class_balanced"
        self.buffer = make_buffer(stream, self.size, self.per_class, policy)

    # ------------------------------------------------------------ learning

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Copy the network, for the targets of the old classes."""
        self._teacher = None
        if learner.seen:
            self._teacher = copy.deepcopy(learner.model).eval().requires_grad_(False)
            old = {unit for past in learner.seen for unit in past.outputs}
            units = sorted(old - set(experience.outputs))
            self._old = torch.zeros(
                learner.stream.n_outputs, dtype=torch.bool, device=learner.engine.device
            )
            self._old[units] = True

    @hookimpl
    def extra_data(self, learner: Learner, experience: Experience) -> Data | None:
        """Return all exemplars."""
        if not len(self.buffer):
            return None
        return self.buffer.data(learner).to(experience.data.labels.device)

    @hookimpl
    def extra_batches(self, batch: Batch) -> None:
        """Set iCaRL's loss for the current batch; add no samples."""
        batch.loss = self.loss

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the binary cross-entropy: true labels (new), former outputs (old classes)."""
        targets = functional.one_hot(batch.y, outputs.shape[1]).to(outputs.dtype)
        if self._teacher is not None:
            with torch.no_grad():
                former = self._teacher(batch.x).div(self.temperature).sigmoid().to(outputs.dtype)
            targets = torch.where(self._old, former, targets)
        # A masked output holds the lowest float; with target 0 its loss is exactly 0.
        masked = outputs.detach() <= torch.finfo(outputs.dtype).min
        targets = targets.masked_fill(masked, 0.0)
        each = functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none")
        return each.sum(1).mean()

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Choose exemplars; the new classes take space from the old ones."""
        self._teacher = None
        remember(self.buffer, learner, data)

    # ------------------------------------------------------------ prediction

    @hookimpl
    def predict(self, learner: Learner, x: Any, task: Task) -> Tensor | None:
        """Return the similarity to the mean of each class, or None while there are no means."""
        learning = learner.experience is not None and learner.experience not in learner.seen
        if learning or not len(self.buffer):
            return None
        return self._means.scores(learner, self.buffer, x, task)
