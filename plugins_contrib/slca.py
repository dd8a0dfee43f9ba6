"""SLCA: a slow learner, and a classifier aligned on Gaussians of all classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe import Capabilities, Plugin, PluginError, SettingError, hookimpl
from clframe.core.protocols import feature_width, linear_head
from clframe.utils.setting_checks import check_at_least

from ._tuner import Compete, compete_among_own

if TYPE_CHECKING:
    from clframe import Batch, Data, Learner, Stream


def normalized(logits: Tensor, groups: list[list[int]], temperature: float) -> Tensor:
    """Return logits over their norm, divided by a temperature.

    Args:
        logits: Logits of the classes so far.
        groups: Indices of the classes whose norm is computed together; the norms of several groups
            are averaged.
        temperature: Second divisor.
    """
    norms = [logits[:, group].norm(dim=1, keepdim=True) for group in groups]
    norm = torch.stack(norms).mean(0) + 1e-7
    return logits / norm / temperature


class SLCA(Plugin):
    """SLCA: slow training of the features, and alignment of the head on all classes.

    Zhang et al. (2023). Slow learner (section 4.1): the whole network is trained, its features at
    ``slow`` times the learning rate of the head. Classifier alignment (section 4.2, Algorithm 1):
    mean and covariance of each class's features are kept. After an experience, an equal number of
    features of every class so far is drawn from these Gaussians, and the head alone is trained on
    them with the cross-entropy of logits over their norm,

        - log softmax(l / (temperature * |l|))_y                                       (Eq. 4)

    with |l| over all classes so far as in the paper (``norm=all``), or the mean over experiences of
    the norm of each one's classes as in the authors' program (``norm=experience``).

    Args:
        slow: Learning rate of the features over that of the head (paper: 1e-4 to 1e-2).
        epochs: Epochs of the alignment; 0 leaves it out.
        samples: Samples of each class in an epoch of the alignment.
        lr: Learning rate of the alignment (SGD, momentum 0.9, cosine to 0).
        temperature: tau above.
        norm: As above.
        compete: In the class scenario, the classes that compete in the training loss: all
            classes ``seen`` so far, or those of the sample's ``own`` task, as in the authors'
            program.

    Example:
        ``clframe fit strategy=slca model=vit_tiny model.weights=fashion``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.slca import SLCA
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [SLCA(slow=0.1)], model="vit_tiny").strategy
        'slca'
    """

    name = "slca"
    paper = (
        "Zhang et al., SLCA: Slow Learner with Classifier Alignment for Continual Learning on a "
        "Pre-trained Model, 2023"
    )
    scenarios = ("class", "task")
    roles = ("parameters", "tuning", "head", "fixed weights")
    excludes: ClassVar[Mapping[str, str]] = {
        "joint training": "it describes the classes of each experience when that experience ends"
    }
    capabilities = Capabilities(
        needs_class_labels=True,
        distributed=False,
        attachable="it makes an optimizer with its own learning rates",
    )
    state = ("means", "covariances", "known")

    def __init__(
        self,
        slow: float = 0.01,
        epochs: int = 5,
        samples: int = 256,
        lr: float = 0.01,
        temperature: float = 0.1,
        norm: Literal["all", "experience"] = "all",
        compete: Compete = "own",
    ) -> None:
        self.slow, self.epochs, self.samples, self.lr = slow, epochs, samples, lr
        self.temperature, self.norm, self.compete = temperature, norm, compete
        check_at_least(self, self.name, slow=0, epochs=0, samples=1)
        for name, value in (("lr", lr), ("temperature", temperature)):
            if not value > 0:
                raise SettingError(f"slca.{name} must be above 0, got {value!r}")
        self.means: Tensor
        self.covariances: Tensor
        self.known: Tensor

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Give the features their own learning rate."""
        model: Any = learner.model
        if linear_head(model) is None or feature_width(model) is None:
            raise PluginError(
                "plugin 'slca' needs a model with 'features' and a linear 'head', which "
                f"{type(model).__name__} lacks"
            )
        device, n, width = learner.engine.device, stream.n_outputs, model.n_features
        self.means = torch.zeros(n, width, device=device)
        self.covariances = torch.zeros(n, width, width, device=device)
        self.known = torch.zeros(n, dtype=torch.bool, device=device)
        plain = learner.make_optimizer

        def two_rates(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
            every = list(parameters)
            of_head = {id(p) for p in model.head.parameters()}
            slow = [p for p in every if id(p) not in of_head]
            optimizer = plain(every)
            (group,) = optimizer.param_groups
            group["params"] = [p for p in every if id(p) in of_head]
            optimizer.add_param_group({**group, "params": slow, "lr": self.slow * group["lr"]})
            return optimizer

        learner.set_optimizer_factory(two_rates)

    @hookimpl(tryfirst=True)
    def extra_batches(self, learner: Learner, batch: Batch) -> None:
        """Set the loss of the current batch."""
        if self.compete == "own":
            compete_among_own(learner, batch)

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Store the Gaussians of this experience's classes and align the head on all."""
        self._describe(learner, data)
        if self.epochs:
            self._align(learner)

    @torch.no_grad()
    def _describe(self, learner: Learner, data: Data) -> None:
        """Store mean and covariance of the features of each class in the data."""
        was_training = learner.training
        learner.eval()
        size = learner.engine.evaluation.eval_batch_size
        per_batch = [
            learner.run_model(batch.x, batch.task)[1]
            for batch in data.batches(torch.arange(len(data)), size)
        ]
        learner.train(was_training)
        features = torch.cat(
            [batch_features for batch_features in per_batch if batch_features is not None]
        ).float()
        labels = data.labels.to(features.device)
        for label in labels.unique().tolist():
            of_class = features[labels == label]
            self.means[label] = of_class.mean(0)
            centered = of_class - of_class.mean(0)
            self.covariances[label] = centered.T @ centered / max(len(of_class) - 1, 1)
            self.known[label] = True

    def _align(self, learner: Learner) -> None:
        """Train the head on features drawn from the Gaussians."""
        head: Any = learner.model.head
        classes = self.known.nonzero().squeeze(1)
        roots = root(self.covariances[classes])
        groups = self._groups(learner, classes)
        optimizer = torch.optim.SGD(head.parameters(), self.lr, momentum=0.9, weight_decay=5e-4)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.epochs)
        labels = torch.arange(len(classes), device=classes.device).repeat_interleave(self.samples)
        batch = learner.engine.settings.budget.batch_size
        generator = learner.generator
        for _ in range(self.epochs):
            shape = (len(classes), self.samples, roots.shape[1])
            noise = torch.randn(shape, generator=generator, device=generator.device)
            drawn = (self.means[classes][:, None] + noise @ roots.mT).flatten(0, 1)
            order = torch.randperm(len(labels), generator=generator, device=generator.device)
            for rows in order.split(batch):
                logits = head(drawn[rows])[:, classes]
                loss = functional.cross_entropy(
                    normalized(logits, groups, self.temperature), labels[rows]
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            schedule.step()
        optimizer.zero_grad()

    def _groups(self, learner: Learner, classes: Tensor) -> list[list[int]]:
        indices = {unit: index for index, unit in enumerate(classes.tolist())}
        if self.norm == "all":
            return [list(indices.values())]
        groups = [[indices[u] for u in past.outputs if u in indices] for past in learner.seen]
        return [group for group in groups if group]


def root(covariances: Tensor) -> Tensor:
    """Return a matrix R for each covariance with ``R R^T`` equal to it, singular ones too."""
    values, vectors = torch.linalg.eigh(covariances)
    made: Tensor = vectors * values.clamp(min=0).sqrt()[..., None, :]
    return made
