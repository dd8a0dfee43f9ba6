"""HAT: hard attention to the task, with learned gates that protect past tasks' weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from clframe import Capabilities, Plugin, SettingError, hookimpl
from clframe.utils.setting_checks import check_at_least

from ._layers import Hidden, hidden_layers

if TYPE_CHECKING:
    from clframe import Budget, Data, Experience, Learner, Step, Stream

_MOST_IN_COSH = 50.0
_MOST_EMBEDDING = 6.0
"""Bounds of the authors' program: of the argument of cosh, and of the embeddings."""


class _Held(NamedTuple):
    """A parameter with the factor of its gradient, and its value where that is 0."""

    parameter: Tensor
    factor: Tensor
    shut: Tensor
    frozen: Tensor


class HAT(Plugin):
    """HAT: a nearly binary gate on each unit for each task, protecting what past gates use.

    With e the embedding of task t for layer l, the units' outputs h become a h with
    a = sigmoid(s e) (sec. 2.2 of the paper). Over an epoch of B batches s goes from 1/s_max up,
    s = 1/s_max + (s_max - 1/s_max) (b - 1) / (B - 1); prediction uses s_max. While s is small
    the gates learn; when it is large they are almost binary (sec. 2.4). Then

    * the gradient of the weight from unit j to unit i is multiplied by
      1 - min(a_i, a_j of the layer before), a being the largest gates of all past tasks (sec. 2.3);
    * the gradient of e, which vanishes for large s, is multiplied by
      s_max (cosh(s e) + 1) / (s (cosh(e) + 1)) (sec. 2.5);
    * c sum(a (1 - a_past)) / sum(1 - a_past) is added to the loss, over all layers, so that new
      tasks reuse taken units and leave the others (sec. 2.6).

    As in the authors' program s e is bounded by 50 in the cosh and e by 6, e starts standard
    normal, and each task starts with a fresh optimizer. Weights held by a gate of exactly 1 stay
    bit-identical under any optimizer and weight decay. If tasks share outputs, the head's weights
    from taken units stay, too. In convolutions, whole channels are gated.

    Args:
        c: Weight of the attention regularizer.
        s_max: Largest slope of the gates.
    """

    name = "hat"
    paper = "Serra et al., Overcoming Catastrophic Forgetting with Hard Attention to the Task, 2018"
    scenarios = ("task",)
    roles = ("parameters", "task weights", "units")
    # Policies are not tested, so labels must be classes.
    capabilities = Capabilities(needs_class_labels=True, task_gated=True, needs_boundaries=True)
    state = ("taken", "batch", "batches", "done")

    def __init__(self, c: float = 0.75, s_max: float = 400.0) -> None:
        self.c = c
        self.s_max = s_max
        check_at_least(self, self.name, c=0)
        if not s_max > 1:
            raise SettingError(f"hat.s_max must be above 1, got {s_max!r}")
        self.taken: list[Tensor] = []
        """For each layer the largest gates of all past tasks."""
        # Index of the next batch in the epoch, batches per epoch, and the experience's steps so
        # far.
        self.batch = 0
        self.batches = 1
        self.done = 0
        self._layers: list[Hidden] = []
        self._embeddings: nn.ParameterList
        self._held: list[_Held] = []
        self._rows: Tensor
        self._plan: tuple[int, Budget] | None = None

    # ------------------------------------------------------------ set-up

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Create the embeddings and attach the gates to the activations."""
        self._layers = hidden_layers(learner, self.name, "gates single units")
        device = learner.engine.device
        generator = torch.Generator().manual_seed(learner.seed * 1_000_003 + 7)
        self._embeddings = nn.ParameterList(
            torch.randn(len(stream.tasks), hidden.width, generator=generator)
            for hidden in self._layers
        )
        learner.add_module("hat_embeddings", self._embeddings)
        self.taken = [torch.zeros(hidden.width, device=device) for hidden in self._layers]
        for number, hidden in enumerate(self._layers):
            hidden.activation.register_forward_hook(_gate(self, number, learner))

    @property
    def slope(self) -> float:
        """Slope s of the next batch."""
        share = min(self.batch / max(self.batches - 1, 1), 1.0)
        return 1 / self.s_max + (self.s_max - 1 / self.s_max) * share

    def gates(self, layer: int, tasks: Tensor, slope: float) -> Tensor:
        """Return the gates of a layer for each of these tasks; open without a task (-1)."""
        gates = torch.sigmoid(slope * self._embeddings[layer][tasks.clamp(min=0)])
        return gates.masked_fill((tasks < 0)[:, None], 1.0)

    # ------------------------------------------------------------ learning

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Compute what past tasks hold; start a fresh optimizer with its own momentum."""
        self.batch, self.done = 0, 0
        tasks = [task.index for task in experience.tasks]
        self._rows = torch.tensor(tasks, device=learner.engine.device)
        if learner.seen:
            learner.engine.renew_optimizer(learner)
        factors: list[tuple[Tensor, Tensor]] = []
        for embedding in self._embeddings:
            own = torch.zeros_like(embedding).index_fill_(0, self._rows, 1.0)
            factors.append((embedding, own))
        if learner.seen:
            factors += self._factors_of_weights(learner, experience)
        self._held = [_Held(p, f, f == 0, p.detach().clone()) for p, f in factors]

    def _factors_of_weights(
        self, learner: Learner, experience: Experience
    ) -> list[tuple[Tensor, Tensor]]:
        """Return the factors of the gradients of all weights."""
        factors = []
        before: Tensor | None = None
        for hidden, taken in zip(self._layers, self.taken, strict=True):
            factors.append((hidden.layer.weight, _left(hidden.layer.weight, taken, before)))
            if hidden.layer.bias is not None:
                factors.append((hidden.layer.bias, 1 - taken))
            before = taken
        assert before is not None
        head = self._layers[-1].following
        past = {unit for other in learner.seen for unit in other.outputs}
        old = torch.zeros(head.weight.shape[0], device=before.device)
        old[sorted(past)] = 1.0
        current = torch.zeros_like(old)
        current[list(experience.outputs)] = 1.0
        # A row that only past tasks use stays; a row that current tasks share learns its weights
        # from units that no past task has.
        factors.append(
            (head.weight, _left(head.weight, old, torch.where(current[:, None] > 0, before, 1.0)))
        )
        if head.bias is not None:
            factors.append((head.bias, 1 - old))
        return factors

    @hookimpl(tryfirst=True)
    def fit_experience(self, data: Data, budget: Budget) -> None:
        """Note the length of an epoch, and leave training to others."""
        self._plan = (len(data), budget)

    @hookimpl
    def before_epoch(self) -> None:
        """Start with soft gates."""
        self.batch = 0
        if self._plan is None:
            return
        n, budget = self._plan
        whole = n // budget.batch_size if budget.drop_last else -(-n // budget.batch_size)
        left = None if budget.steps is None else budget.steps - self.done
        limits = [most for most in (budget.batches_per_epoch, left) if most is not None]
        self.batches = max(min([whole, *limits]), 1)

    @hookimpl
    def penalty(self) -> Tensor | None:
        """Return the attention regularizer."""
        if not self.c:
            return None
        free = [1 - taken for taken in self.taken]
        used = torch.stack(
            [
                (self.gates(layer, self._rows, self.slope) * room).sum(1)
                for layer, room in enumerate(free)
            ]
        ).sum(0)
        total = torch.stack([room.sum() for room in free]).sum()
        return self.c * used.mean() / total.clamp(min=torch.finfo(total.dtype).tiny)

    @hookimpl(trylast=True)
    @torch.no_grad()
    def after_backward(self) -> None:
        """Compensate the embeddings' gradients, and drop gradients that would change past tasks."""
        s = self.slope
        for embedding in self._embeddings:
            if embedding.grad is not None:
                steep = (s * embedding).clamp(-_MOST_IN_COSH, _MOST_IN_COSH).cosh() + 1
                embedding.grad.mul_(steep / (embedding.cosh() + 1)).mul_(self.s_max / s)
        for held in self._held:
            if held.parameter.grad is not None:
                held.parameter.grad.mul_(held.factor)

    @hookimpl(tryfirst=True)
    @torch.no_grad()
    def after_step(self, step: Step) -> None:
        """Bound the embeddings, and restore weights that weight decay or momentum moved."""
        for embedding in self._embeddings:
            embedding.clamp_(-_MOST_EMBEDDING, _MOST_EMBEDDING)
        for held in self._held:
            torch.where(held.shut, held.frozen, held.parameter, out=held.parameter.data)
        self.batch += 1
        self.done += 1

    @hookimpl(tryfirst=True)
    @torch.no_grad()
    def after_experience(self) -> None:
        """Mark the units that the experience's gates use as taken."""
        self.taken = [
            torch.maximum(taken, self.gates(layer, self._rows, self.s_max).amax(0))
            for layer, taken in enumerate(self.taken)
        ]
        self._held, self._plan = [], None


def _left(weight: Tensor, after: Tensor, before: Tensor | None) -> Tensor:
    """Return 1 - min(gate of a weight's output unit, gate of its input unit).

    Args:
        weight: Weight of a linear layer or a convolution.
        after: Gates of the output units.
        before: Gates of the input units, common or a row for each output; None for inputs.
    """
    if before is None:
        before = torch.ones(1, device=after.device)
    before = before.expand(len(after), before.shape[-1])
    factor = 1 - torch.minimum(after[:, None], before)
    # A flattened channel has several places.
    places = weight.numel() // (len(after) * factor.shape[1])
    return factor[:, :, None].expand(-1, -1, places).reshape(weight.shape)


def _gate(plugin: HAT, layer: int, learner: Learner) -> Callable[..., Any]:
    """Return a hook that gates a layer's output: a plain function, which model copies keep."""

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
        task = learner.current_task
        if task is None:
            return None
        slope = plugin.slope if module.training else plugin.s_max
        gates = plugin.gates(layer, task, slope).to(output.dtype)
        return output * gates.view(*gates.shape, *[1] * (output.dim() - 2))

    return hook
