"""La-MAML: meta-learned learning rates that fall where old and new samples disagree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from clframe import Batch, Capabilities, Plugin, SettingError, hookimpl
from clframe.data.buffer import Buffer
from clframe.utils.setting_checks import check_at_least

if TYPE_CHECKING:
    from clframe import Learner, Step


class LaMAML(Plugin):
    """La-MAML: a learning rate for each parameter, learned by looking ahead over the batch.

    Algorithm 1 of the paper. The batch is cut into parts; from theta_0 = theta, part after part,

        theta_j+1 = theta_j - max(0, alpha) grad L(theta_j; part j),

    and the meta-loss is the mean over j of L(theta_j; the whole batch and stored samples),
    as in the authors' program. Its gradients in alpha and theta make the step:

        alpha <- alpha - alpha_lr grad_alpha;   theta <- theta - max(0, alpha) grad_theta.

    So the optimizer of the run is not used, unless ``outer=optimizer``, which is the paper's
    Sync-La-MAML, or C-MAML with ``alpha_lr=0``. The meta-loss replaces the current batch's loss.
    Terms that other plugins add count in grad_theta. The buffer is a reservoir that samples enter
    in an experience's first epoch. The program's "glances" at a batch are epochs here.

    Args:
        size: Number of samples in the buffer.
        batch_size: Stored samples in the meta-loss; None for the size of the batch.
        parts: Maximum number of inner steps (the paper: single samples of batches of 10 on MNIST:
            10; 5 on CIFAR).
        alpha: Initial learning rate of each parameter.
        alpha_lr: Learning rate of the learning rates (the paper's eta).
        second_order: Differentiate through the inner gradients (the paper: on CIFAR).
        clip: Maximum norm of grad_theta and of grad_alpha; None for no bound.
        outer: The step in theta, by the learned rates (``rates``) or the run's ``optimizer``.
    """

    name = "lamaml"
    paper = "Gupta, Yadav & Paull, La-MAML: Look-ahead Meta Learning for Continual Learning, 2020"
    roles = ("task loss", "replayed samples")
    excludes: ClassVar[Mapping[str, str]] = {
        "task weights": "its step is not the optimizer's, and may move them",
        "tuning": "its loss and its rates would replace those of the tuning method",
    }
    capabilities = Capabilities(attachable="it replaces your step with its own inner steps")
    state = ("buffer",)

    def __init__(
        self,
        size: int = 200,
        batch_size: int | None = 10,
        parts: int = 5,
        alpha: float = 0.15,
        alpha_lr: float = 0.3,
        second_order: bool = False,
        clip: float | None = 2.0,
        outer: Literal["rates", "optimizer"] = "rates",
    ) -> None:
        self.size = size
        self.batch_size = batch_size
        self.parts = parts
        self.alpha = alpha
        self.alpha_lr = alpha_lr
        self.second_order = second_order
        self.clip = clip
        self.outer = outer
        check_at_least(self, self.name, size=1, batch_size=1, parts=1, alpha=0, alpha_lr=0)
        if clip is not None and not clip > 0:
            raise SettingError(f"lamaml.clip must be above 0 or null, got {clip!r}")
        self.buffer: Buffer
        self._rates: dict[str, nn.Parameter] = {}
        self._moved: list[tuple[nn.Parameter, Tensor]] = []

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Create the buffer and the learning rates."""
        self.buffer = Buffer(self.size, "reservoir", transformed=True)
        trained = learner.named_trainable()
        rates = nn.ParameterList(torch.full_like(p, self.alpha) for p in trained.values())
        # Part of the learner, so that they are moved, saved and averaged like its parameters.
        learner.add_module("lamaml_rates", rates)
        self._rates = dict(zip(trained, rates, strict=True))

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> None:
        """Set the meta-loss of the current batch; add no samples."""
        batch.loss = lambda outputs, part: self.meta_loss(learner, part)

    def meta_loss(self, learner: Learner, batch: Batch) -> Tensor:
        """Return the loss after the inner steps, mean over the steps."""
        whole = batch
        if len(self.buffer):
            drawn = self.buffer.sample(learner, self.batch_size or len(batch))
            whole = Batch(
                _joined(batch.x, drawn.x),
                torch.cat([batch.y, drawn.y]),
                torch.cat([batch.task, drawn.task]),
            )
        trained = learner.named_trainable()
        fast: dict[str, Tensor] = {name: trained[name] for name in self._rates if name in trained}
        losses = []
        everything = torch.arange(len(batch), device=batch.task.device)
        for rows in everything.chunk(min(self.parts, len(batch))):
            part = Batch(_rows(batch.x, rows), batch.y[rows], batch.task[rows])
            inner = _loss(learner, fast, part)
            gradients = torch.autograd.grad(
                inner, list(fast.values()), create_graph=self.second_order, allow_unused=True
            )
            fast = {
                name: value if g is None else value - self._rates[name].relu() * g
                for (name, value), g in zip(fast.items(), gradients, strict=True)
            }
            losses.append(_loss(learner, fast, whole))
        return torch.stack(losses).mean()

    @hookimpl(trylast=True)
    @torch.no_grad()
    def after_backward(self, learner: Learner) -> None:
        """Take the step in the learning rates, then the one in the parameters."""
        trained = learner.named_trainable()
        pairs = [(trained[name], rate) for name, rate in self._rates.items() if name in trained]
        if self.clip is not None:
            clip_norm([p.grad for p, _ in pairs if p.grad is not None], self.clip)
            clip_norm([rate.grad for _, rate in pairs if rate.grad is not None], self.clip)
        self._moved = []
        for parameter, rate in pairs:
            if rate.grad is not None:
                rate.sub_(rate.grad, alpha=self.alpha_lr)
            if parameter.grad is not None and self.outer == "rates":
                self._moved.append((parameter, parameter - rate.relu() * parameter.grad))
        for rate in self._rates.values():
            rate.grad = None  # not for the run's optimizer

    @hookimpl(tryfirst=True)
    @torch.no_grad()
    def after_step(self, learner: Learner, step: Step) -> None:
        """Move the parameters by the learned rates; store the step's samples."""
        for parameter, value in self._moved:
            parameter.copy_(value)
        self._moved = []
        if learner.epoch == 0:
            batch = step.batch
            self.buffer.add_batch(batch.x, batch.y, batch.task, learner.generator)


def clip_norm(gradients: list[Tensor], bound: float) -> None:
    """Bound the norm of all gradients together, in place, without a sync."""
    if gradients:
        norm = torch.stack(torch._foreach_norm(gradients)).norm()
        torch._foreach_mul_(gradients, (bound / (norm + 1e-6)).clamp(max=1.0))


def _loss(learner: Learner, parameters: dict[str, Tensor], batch: Batch) -> Tensor:
    """Return the task loss of a batch with these parameters instead of the model's."""
    named = {f"model.{name}": value for name, value in parameters.items()}
    outputs = functional_call(learner, named, (batch.x, batch.task))
    return learner.label_loss(outputs, batch)


def _joined(first: Any, other: Any) -> Any:
    """Join the inputs of two batches: tensors, or tensors by name."""
    if isinstance(first, dict):
        return {name: torch.cat([value, other[name]]) for name, value in first.items()}
    return torch.cat([first, other])


def _rows(x: Any, rows: Tensor) -> Any:
    """Return rows of a batch's inputs."""
    return {name: value[rows] for name, value in x.items()} if isinstance(x, dict) else x[rows]
