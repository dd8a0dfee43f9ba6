"""Base class of classifiers in a fixed feature space: one pass over the data, no gradient.

Such a learner keeps sums over features, never samples. Because features do not change, its state
after a stream is the same as if all data had come at once: it cannot forget.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from clframe import Capabilities, Plugin, PluginError, hookimpl
from clframe.core.protocols import feature_width, split_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clframe import Budget, Data, Experience, Learner, Stream, Task

Features: TypeAlias = Literal["model", "raw"]


class FeatureSpaceClassifier(Plugin, abc.ABC):
    """Base of classifiers that learn by one pass over features; subclasses define the sums.

    Every process of a distributed run processes all data, so that the sums are bit-identical.

    Args:
        features: ``model`` takes the inputs of the model's head (from a frozen backbone, random or
            pretrained, or a network trained on the first experience), ``raw`` the inputs
            themselves.
        adapt_first: Train the model on the first experience as usual, then fix its features
            (first-session adaptation). Otherwise the model is never trained.
    """

    roles: ClassVar[tuple[str, ...]] = ("prediction", "fixed weights")
    excludes: ClassVar[Mapping[str, str]] = {
        "training data": "it passes once over the data of each experience and takes no others"
    }
    capabilities = Capabilities(needs_class_labels=True, training_steps=False)

    def __init__(self, features: Features, adapt_first: bool) -> None:
        self.features = features
        self.adapt_first = adapt_first
        self.taken = 0
        """Number of samples so far."""
        self._solution: Any = None

    # ------------------------------------------------------------ for subclasses

    @abc.abstractmethod
    def begin(self, width: int, n_outputs: int, seed: int, device: torch.device) -> None:
        """Create the sums, all zeros, for vectors of this width."""

    @abc.abstractmethod
    def add(self, vectors: Tensor, labels: Tensor) -> None:
        """Add a batch of vectors, in their order of arrival."""

    @abc.abstractmethod
    def solve(self) -> Any:
        """Return what prediction needs; computed once after each experience."""

    @abc.abstractmethod
    def score(self, vectors: Tensor, solution: Any) -> Tensor:
        """Return a score for every output unit, highest for the best; any for unknown ones."""

    def embed(self, vectors: Tensor) -> Tensor:
        """Transform feature vectors before they are summed; the identity unless overridden."""
        return vectors

    counts: Tensor
    """Number of samples of each output unit so far."""

    # ------------------------------------------------------------ hooks

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Find the width of the features."""
        if self.features == "model" and split_model(learner.model) is None:
            raise PluginError(
                f"plugin '{self.name}' needs a model with 'features' and 'head', which "
                f"{type(learner.model).__name__} lacks: choose another model, or "
                f"{self.name}.features=raw"
            )
        shape = stream.input_shape
        if self.features == "raw":
            width = int(torch.Size(shape).numel())
        else:
            width = self._width(learner, shape)
        self.begin(width, stream.n_outputs, learner.seed, learner.engine.device)

    @torch.no_grad()
    def _width(self, learner: Learner, shape: tuple[int, ...]) -> int:
        head_width = feature_width(learner.model)
        if head_width is not None:
            return head_width
        learner.eval()
        probe = torch.zeros(1, *shape, device=learner.engine.device)
        width = int(learner.model.features(probe).flatten(1).shape[1])  # type: ignore[operator]
        learner.train()
        return width

    @hookimpl(tryfirst=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool:
        """Add the data in one pass."""
        if self.adapt_first and not learner.seen:
            learner.train_on(data, budget)
        else:
            learner.state.samples += len(data)
        self.take_in(learner, data)
        self._solution = None
        return True

    def take_in(self, learner: Learner, data: Data) -> None:
        """Add an experience's data in one pass."""
        for vectors, labels in self.passed(learner, data):
            self.add(vectors, labels)
            self.taken += len(labels)

    @hookimpl
    def predict(self, learner: Learner, x: Any, task: Task) -> Tensor | None:
        """Return scores of the outputs that compete, or None before any data."""
        if not self.taken:
            return None
        if self._solution is None:
            self._solution = self.solve()
        first = next(iter(x.values())) if isinstance(x, dict) else x
        of_task = torch.full((len(first),), task.index, dtype=torch.long, device=first.device)
        scores = self.score(self._vectors(learner, x, of_task), self._solution).float()
        scores = scores.masked_fill(self.counts == 0, torch.finfo(scores.dtype).min)
        return learner.mask_outputs(scores, of_task)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the sums; derived values are computed again."""
        super().load_state_dict(state)
        self._solution = None

    # ------------------------------------------------------------ features

    @torch.no_grad()
    def passed(self, learner: Learner, data: Data) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield feature vectors and labels of all samples, batch by batch, in evaluation mode."""
        was_training = learner.training
        learner.eval()
        size = learner.engine.evaluation.eval_batch_size
        for batch in data.to(learner.engine.device).batches(torch.arange(len(data)), size):
            yield self._vectors(learner, batch.x, batch.task), batch.y
        learner.train(was_training)

    def _vectors(self, learner: Learner, x: Any, task: Tensor) -> Tensor:
        if self.features == "raw":
            inputs = x.values() if isinstance(x, dict) else (x,)
            return self.embed(torch.cat([array.flatten(1).float() for array in inputs], dim=1))
        features = learner.run_model(x, task)[1]
        assert features is not None  # checked when configured
        return self.embed(features.flatten(1).float())


def class_sums(vectors: Tensor, labels: Tensor, n_outputs: int) -> tuple[Tensor, Tensor]:
    """Return the number of samples of each output unit, and the sum of their vectors."""
    counts = torch.bincount(labels, minlength=n_outputs).to(vectors.dtype)
    sums = vectors.new_zeros(n_outputs, vectors.shape[1]).index_add_(0, labels, vectors)
    return counts, sums


def double_on(device: torch.device) -> torch.dtype:
    """Return double precision if the device supports it."""
    return torch.float32 if device.type == "mps" else torch.float64


class Linear(NamedTuple):
    """A linear classifier: scores are ``x @ weight.T + bias``."""

    weight: Tensor
    bias: Tensor


def discriminants(means: Tensor, covariance: Tensor) -> Linear:
    """Return the linear classifier of Gaussian classes with one covariance and equal priors."""
    weight = torch.cholesky_solve(means.T, torch.linalg.cholesky(covariance)).T
    return Linear(weight.float(), (-0.5 * (means * weight).sum(1)).float())
