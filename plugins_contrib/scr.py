"""SCR: supervised contrastive replay, classified by the nearest class mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, cat, nn
from torch.nn import functional

from clframe import Batch, Capabilities, Plugin, SettingError, hookimpl
from clframe.data.buffer import Buffer
from clframe.utils.setting_checks import check_at_least

from ._contrastive import contrastive_loss, make_views, view_of
from ._heads import linear_head
from ._nearest_mean import NearestMean
from ._recall import no_loss, recall

if TYPE_CHECKING:
    from clframe import Learner, Step, Stream, Task


class SCR(Plugin):
    """SCR: supervised contrastive replay, with prediction by the nearest class mean.

    Algorithm 1 of the paper. Each step takes the current batch and ``batch_size`` samples of the
    buffer, and an augmented view of all of them. With z the projection of a sample's features,
    scaled to length 1, the loss is only the supervised contrastive one (eq. 3;
    :func:`contrastive_loss`): the model's head is not trained. The projection has one hidden layer,
    as wide as the features, and is not used in prediction: a sample gets the class whose stored
    samples' mean feature is nearest (eqs. 1 and 2; features and means scaled to length 1, as in
    the authors' program). The buffer is a reservoir that is filled at every step.

    Inputs other than images have no other view; then a sample's positives are the others of its
    class. The paper's augmentation is random resized crop, flip, color jitter and gray; the default
    here is crop, flip and jitter, for images with values from 0 to 1. For digits set
    ``augment=[crop]``, because a mirrored digit is not a digit.

    Args:
        size: Number of samples in the buffer.
        batch_size: Stored samples per step.
        temperature: Temperature of the contrastive loss.
        projection: Length of the compared vectors.
        augment: Augmentation of a view, as in ``trainer.augment``; null is crop, flip and jitter
            for images and nothing for other inputs.
    """

    name = "scr"
    paper = (
        "Mai et al., Supervised Contrastive Replay: Revisiting the Nearest Class Mean Classifier "
        "in Online Class-Incremental Continual Learning, 2021"
    )
    scenarios = ("class", "task")
    roles = ("task loss", "untrained head", "prediction", "replayed samples")
    capabilities = Capabilities(needs_class_labels=True)
    state = ("buffer",)

    def __init__(
        self,
        size: int = 1000,
        batch_size: int = 100,
        temperature: float = 0.07,
        projection: int = 128,
        augment: list[Any] | None = None,
    ) -> None:
        if not temperature > 0:
            raise SettingError(f"scr.temperature must be above 0, got {temperature!r}")
        self.size = size
        self.batch_size = batch_size
        self.temperature = temperature
        self.projection = projection
        self.augment = augment
        check_at_least(self, self.name, size=1, batch_size=1, projection=1)
        self.buffer: Buffer
        self._means = NearestMean()
        self._parts: list[Batch] = []

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Create the buffer, and attach the projection to the learner, to be trained with it."""
        self._views = make_views(self.augment, stream, self.name)
        width = linear_head(learner, self.name).in_features
        projection = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, self.projection)
        )
        learner.add_module("scr_projection", projection)
        self.buffer = Buffer(self.size, "reservoir", transformed=True)
        self._means = NearestMean()

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> list[Batch]:
        """Return stored samples, and a view of each sample."""
        batch.loss = no_loss
        extra: list[Batch] = []
        if len(self.buffer):
            positions = self.buffer.draw(self.batch_size, learner.generator)
            extra.append(recall(self.buffer, learner, positions))
        if self._views:
            extra += [
                Batch(view_of(part.x, self._views), part.y, part.task, 0.0, no_loss)
                for part in [batch, *extra]
            ]
        self._parts = [batch, *extra]
        return extra

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Tensor:
        """Return the contrastive loss of all samples and views."""
        features = cat([step.features[step.parts.index(part)] for part in self._parts]).flatten(1)
        projected = learner.scr_projection(features)  # type: ignore[operator]
        z = functional.normalize(projected.float(), dim=1)
        return contrastive_loss(z, cat([part.y for part in self._parts]), self.temperature)

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        """Offer the step's own samples to the reservoir."""
        batch = step.batch
        self.buffer.add_batch(batch.x, batch.y, batch.task, learner.generator)

    @hookimpl
    def predict(self, learner: Learner, x: Any, task: Task) -> Tensor | None:
        """Return the similarity to the mean of each class, or None while the buffer is empty."""
        if not len(self.buffer):
            return None
        return self._means.scores(learner, self.buffer, x, task)
