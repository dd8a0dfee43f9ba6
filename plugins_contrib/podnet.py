"""PODNet: distillation of pooled outputs of all stages, and several proxies for each class."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe import Budget, Capabilities, Plugin, PluginError, hookimpl
from clframe.data.buffer import Buffer
from clframe.data.class_buffer import features_of, make_buffer, remember
from clframe.utils.setting_checks import at_most, check_at_least

from ._heads import linear_head

if TYPE_CHECKING:
    from clframe import Batch, Data, Experience, Learner, Step, Stream

Form = Literal["code", "paper"]


class PODNet(Plugin):
    """PODNet: herded exemplars, and distillation of pooled feature maps.

    *Loss of the labels.* The head becomes the local similarity classifier: with K proxies w_ck of
    length 1 for each class and the feature f of length 1, a class's similarity is
    y_c = sum_k softmax_k(w_ck f) w_ck f, and the loss is the paper's form of NCA,
    max(0, -log(exp(eta (y_label - margin)) / sum over other classes of exp(eta y_c))), with eta
    learned. Proxies of new classes start at the K-means centers of their features.

    *Distillation.* With h the maps of a stage, before and after this experience, POD-spatial
    compares their sums over the width and over the height, mean over stages, and POD-flat the
    features. They are added with the weights ``spatial`` and ``flat``, times
    sqrt(classes so far / new classes). ``form=code`` has the authors' program: maps are squared,
    pooled sums scaled to length 1, and the distance is a norm; for the features it is 1 - cosine.
    ``form=paper`` has squared distances of the plain sums. A stage is the last map of each
    resolution in the order of the network. A network without maps (an MLP) has only POD-flat.

    *Balance.* After each experience but the first, the head alone is trained on the exemplars, an
    equal number for each class, with a lower learning rate and a fresh optimizer.

    The features are the model's own, whereas the program takes those before the last ReLU.

    Args:
        per_class: Exemplars of each class, chosen by herding.
        size: Number of exemplars; used when ``per_class`` is null.
        proxies: Proxies of each class (K).
        margin: Margin of the loss.
        scale: Initial value of eta.
        spatial: Weight of POD-spatial.
        flat: Weight of POD-flat.
        finetune_epochs: Epochs of the head's own training; 0 for none.
        finetune_lr: Its learning rate as a fraction of the run's (the paper: 0.005 of 0.1).
        form: Distances as in the authors' ``code`` or as in the ``paper``.
    """

    name = "podnet"
    paper = (
        "Douillard et al., PODNet: Pooled Outputs Distillation for Small-Tasks Incremental "
        "Learning, 2020"
    )
    scenarios = ("class", "task")
    roles = ("training data", "task loss", "head", "new head")
    excludes: ClassVar[Mapping[str, str]] = {
        "task weights": "it trains the head once more on samples of all tasks"
    }
    # It trains the head again on a balanced buffer, which also has samples of the experience.
    capabilities = Capabilities(needs_class_labels=True, needs_boundaries=True, multi_pass=True)
    state = ("buffer",)

    def __init__(
        self,
        per_class: int | None = 20,
        size: int = 2000,
        proxies: int = 10,
        margin: float = 0.6,
        scale: float = 1.0,
        spatial: float = 3.0,
        flat: float = 1.0,
        finetune_epochs: int = 20,
        finetune_lr: float = 0.05,
        form: Form = "code",
    ) -> None:
        self.per_class = per_class
        self.size = size
        self.proxies = proxies
        self.margin = margin
        self.scale = scale
        self.spatial = spatial
        self.flat = flat
        self.finetune_epochs = finetune_epochs
        self.finetune_lr = finetune_lr
        self.form: Form = form
        check_at_least(self, self.name, per_class=1, size=1, proxies=1, margin=0, spatial=0)
        check_at_least(self, self.name, flat=0, finetune_epochs=0, finetune_lr=0, scale=0)
        at_most(proxies, 1000, "podnet.proxies")
        self.buffer: Buffer
        # Made again before each experience, so not part of the state.
        self._teacher: nn.Module | None = None
        self._factor = 1.0
        self._tuning = False
        self._stages: list[str] = []
        self._maps: dict[str, Tensor] | None = None

    # ------------------------------------------------------------ set-up

    @hookimpl(tryfirst=True)
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Create the buffer, replace the head and find the stages, before others copy the model."""
        model, head = learner.model, linear_head(learner, self.name)
        self.buffer = make_buffer(stream, self.size, self.per_class, "herding")
        generator = torch.Generator().manual_seed(learner.seed * 1_000_003 + 13)
        learner.set_head(
            LocalSimilarity(
                head.in_features, head.out_features, self.proxies, self.scale, generator
            )
        )
        self._stages = []
        if self.spatial and len(stream.input_shape) == 3:
            self._stages = stages(model, stream.input_shape)
        if self._stages and learner.engine.ranks is not None:
            raise PluginError(
                "plugin 'podnet' sees only the maps of its own process: set podnet.spatial=0 or "
                "trainer.devices=1 trainer.num_nodes=1"
            )
        modules = dict(model.named_modules())
        for name in self._stages:
            modules[name].register_forward_hook(self._note(name))

    def _note(self, name: str) -> Callable[..., None]:
        """Return a hook that keeps a stage's map of the next pass after a request."""

        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            if self._maps is not None:
                self._maps.setdefault(name, output)

        return hook

    # ------------------------------------------------------------ learning

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Copy the network, and initialize the proxies of the new classes."""
        self._teacher, self._maps = None, None
        if not learner.seen:
            return
        self._teacher = copy.deepcopy(learner.model).eval().requires_grad_(False)
        old = {unit for past in learner.seen for unit in past.outputs}
        new = set(experience.outputs) - old
        self._factor = math.sqrt(len(old | new) / max(len(new), 1))
        data = experience.data.to(learner.engine.device)
        features = features_of(learner, data)
        head: LocalSimilarity = learner.model.head  # type: ignore[assignment]
        for unit in sorted(new):
            rows = features[(data.labels == unit).to(features.device)]
            if len(rows):
                head.imprint(unit, centers(rows, self.proxies, learner.generator), sorted(old))

    @hookimpl
    def extra_data(self, learner: Learner, experience: Experience) -> Data | None:
        """Return all exemplars."""
        if not len(self.buffer):
            return None
        return self.buffer.data(learner).to(experience.data.labels.device)

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> None:
        """Set PODNet's loss for the current batch, and keep the maps of the next pass."""
        eta: Tensor = learner.model.head.scale  # type: ignore[union-attr,assignment]
        batch.loss = lambda outputs, part: nca_loss(outputs, part.y, eta, self.margin)
        self._maps = {} if self._teacher is not None and not self._tuning else None

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Tensor | None:
        """Return the distillation of maps and features."""
        ours = self._maps
        if self._teacher is None or ours is None:
            return None
        n = len(step.batch)
        theirs: dict[str, Tensor] = {}
        self._maps = theirs
        with torch.no_grad():
            features = self._teacher.features(step.batch.x)  # type: ignore[operator]
        self._maps = None
        loss = self.flat * pod_flat(features, step.features[0], self.form)
        if self._stages:
            pairs = [(theirs[name], ours[name][:n]) for name in self._stages]
            terms = [pod_spatial(old, new, self.form) for old, new in pairs]
            loss = loss + self.spatial * torch.stack(terms).mean()
        return self._factor * loss

    @hookimpl
    def before_epoch(self, learner: Learner) -> None:
        """Keep the running statistics of frozen features."""
        if self._tuning:
            learner.model.features.eval()  # type: ignore[union-attr]

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Choose exemplars, then train the head on them alone."""
        self._maps = None
        remember(self.buffer, learner, data)
        if self._teacher is not None and self.finetune_epochs:
            self._finetune(learner)
        self._teacher = None

    def _finetune(self, learner: Learner) -> None:
        """Train the head on the exemplars, features frozen."""
        head = {id(p) for p in learner.model.head.parameters()}  # type: ignore[union-attr]
        frozen = [p for p in learner.parameters() if p.requires_grad and id(p) not in head]
        for p in frozen:
            p.requires_grad_(False)
        learner.engine.renew_optimizer(learner)
        assert learner.optimizer is not None
        for group in learner.optimizer.param_groups:
            group["lr"] *= self.finetune_lr
        self._tuning = True
        budget = Budget(
            epochs=self.finetune_epochs, batch_size=learner.engine.settings.budget.batch_size
        )
        learner.train_on(self.buffer.data(learner), budget)
        self._tuning = False
        for p in frozen:
            p.requires_grad_(True)
        # Later code must find an optimizer of all parameters.
        learner.engine.renew_optimizer(learner)


class LocalSimilarity(nn.Module):
    """The local similarity classifier: several proxies for each class, compared by cosine.

    Args:
        n_features: Length of a feature.
        n_outputs: Number of classes.
        proxies: Proxies of each class.
        scale: Initial value of the factor of all similarities.
        generator: Generator of the initial proxies.
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        proxies: int,
        scale: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = n_features, n_outputs
        first = torch.randn(n_outputs, proxies, n_features, generator=generator)
        self.weight = nn.Parameter(first / math.sqrt(n_features))
        self.scale = nn.Parameter(torch.tensor(float(scale)))

    def forward(self, features: Tensor) -> Tensor:
        """Return each class's similarity, times the scale."""
        unit = functional.normalize(features.flatten(1), dim=1)
        proxies = functional.normalize(self.weight, dim=2).flatten(0, 1)
        cosine: Tensor = functional.linear(unit, proxies).unflatten(1, self.weight.shape[:2])
        return self.scale * (cosine.softmax(2) * cosine).sum(2)

    @torch.no_grad()
    def imprint(self, unit: int, directions: Tensor, known_units: list[int]) -> None:
        """Initialize the proxies of a class, with the mean length of those of known classes."""
        length = self.weight[known_units].norm(dim=2).mean()
        self.weight[unit] = functional.normalize(directions, dim=1) * length


def nca_loss(outputs: Tensor, labels: Tensor, scale: Tensor, margin: float) -> Tensor:
    """Return the label's similarity against those of all other classes, mean over samples.

    Args:
        outputs: Similarities times the scale; the lowest float for classes that do not compete.
        labels: One label per sample.
        scale: The factor in the outputs.
        margin: Margin that is subtracted from the label's similarity.
    """
    outputs = outputs.float()
    own = outputs.gather(1, labels[:, None]).squeeze(1) - scale * margin
    lowest = torch.finfo(outputs.dtype).min
    others = outputs.scatter(1, labels[:, None], lowest).logsumexp(1)
    return (others - own).clamp(min=0).mean()


def pod_spatial(old: Tensor, new: Tensor, form: Form) -> Tensor:
    """Return the distance of two stages' maps, pooled over the width and over the height."""
    if form == "code":
        old, new = old.square(), new.square()
    pooled = [
        torch.cat([maps.sum(3).flatten(1), maps.sum(2).flatten(1)], 1).float()
        for maps in (old, new)
    ]
    if form == "paper":
        return (pooled[0] - pooled[1]).square().sum(1).mean()
    before, after = (functional.normalize(pooled_sum, dim=1) for pooled_sum in pooled)
    return _norm(before - after).mean()


def pod_flat(old: Tensor, new: Tensor, form: Form) -> Tensor:
    """Return the distance of two networks' features."""
    old, new = old.flatten(1).float(), new.flatten(1).float()
    if form == "paper":
        return (old - new).square().sum(1).mean()
    return (1 - functional.cosine_similarity(old, new, dim=1)).mean()


def _norm(rows: Tensor) -> Tensor:
    """Return the length of each row, with gradient 0 where it is 0, as at an experience's start."""
    square = rows.square().sum(1)
    still = square == 0
    return square.masked_fill(still, 1.0).sqrt().masked_fill(still, 0.0)


def stages(model: nn.Module, input_shape: tuple[int, ...]) -> list[str]:
    """Return the modules with the last map of each resolution, by passing zeros through."""
    last_of_shape: dict[tuple[int, ...], str] = {}

    def note(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.dim() == 4 and output.shape[2:].numel() > 1:
                last_of_shape[tuple(output.shape[2:])] = name

        return hook

    leaves = [(n, m) for n, m in model.named_modules() if not any(True for _ in m.children())]
    handles = [module.register_forward_hook(note(name)) for name, module in leaves]
    was_training = model.training
    try:
        with torch.no_grad():
            model.eval()(torch.zeros(1, *input_shape))
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    return list(last_of_shape.values())


def centers(rows: Tensor, k: int, generator: torch.Generator, rounds: int = 10) -> Tensor:
    """Return k centers by K-means (Lloyd), from random rows; repeat rows if there are fewer."""
    order = torch.randperm(len(rows), generator=generator, device=generator.device)
    chosen = order.to(rows.device)[torch.arange(k, device=rows.device) % len(rows)]
    means = rows[chosen].clone()
    for _ in range(rounds):
        nearest = functional.one_hot(torch.cdist(rows, means).argmin(1), k).to(rows.dtype)
        counts = nearest.sum(0)[:, None]
        means = torch.where(counts > 0, nearest.T @ rows / counts.clamp(min=1), means)
    return means
