"""Progressive neural networks: a new column for each task, connected to all earlier ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from clframe import Capabilities, Plugin, hookimpl

from ._layers import Hidden, Weighted, draw_like, hidden_layers

if TYPE_CHECKING:
    from clframe import Experience, Learner, Stream

Adapter = Literal["mlp", "linear"]


class PNN(Plugin):
    """Progressive networks: a column of layers for each experience, connected to past columns.

    In column k, with layer i's own weights W, h_0 the inputs and f the activation (eq. 1 of the
    paper, and eq. 2 with adapters)::

        linear  h_i = f(W h_i-1 + sum over j < k of U_j h_i-1 of column j)
        mlp     h_i = f(W h_i-1 + U f(V [alpha_j h_i-1 of column j, for all j < k]))

    V maps the past columns' units to the width of one (in convolutions by 1 x 1), U has the shape
    of W, and the scales alpha_j start small. The output layer is linear in the last hidden layers
    of all columns up to k. Past columns are not trained: their outputs and parameters stay
    bit-identical. The first column is the original model; weights of later ones are drawn
    from the first's.

    The work of a step grows with the number of columns, and parameters with its square, because a
    column's forward pass needs those of all earlier ones. Their backward pass is not needed. All
    columns of the stream are made at the start, so that checkpoints have equal shapes. A task that
    comes back is not trained again: its column is fixed, because later ones build on it.

    Args:
        adapter: How past columns are connected: ``mlp`` or ``linear``, as above.
    """

    name = "pnn"
    paper = "Rusu et al., Progressive Neural Networks, 2016"
    scenarios = ("task",)
    roles = ("parameters", "task weights", "units")
    # Policies are not tested, so labels must be classes.
    capabilities = Capabilities(needs_class_labels=True, task_gated=True, needs_boundaries=True)
    state = ("active", "column_of")

    def __init__(self, adapter: Adapter = "mlp") -> None:
        self.adapter: Adapter = adapter
        self.active = 1
        """Number of columns in use, including the one that is being trained."""
        self.column_of: Tensor
        """The column of each task; the newest for tasks without one and for no task (-1)."""
        self._columns: Columns
        self._held: list[tuple[Tensor, Tensor, Tensor]] = []

    # ------------------------------------------------------------ set-up

    @hookimpl(tryfirst=True)
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Replace the features by columns, before others copy the model; widen the head."""
        hidden = hidden_layers(learner, self.name, "connects hidden layers of several networks")
        tasks: set[int] = set()
        count = 0
        # Count the whole stream: a run may be limited to its first part.
        for experience in learner.stream:
            count += any(task.index not in tasks for task in experience.tasks)
            tasks |= {task.index for task in experience.tasks}
        device = learner.engine.device
        self.active = 1
        self.column_of = torch.full((len(stream.tasks) + 1,), count, device=device)
        generator = torch.Generator().manual_seed(learner.seed * 1_000_003 + 11)

        def now() -> tuple[int, Tensor, Tensor | None]:
            return self.active, self.column_of, learner.current_task

        model: Any = learner.model  # hidden_layers has checked its features and linear head
        self._columns = Columns(model.features, hidden, count, self.adapter, now, generator)
        model.n_features = self._columns.width * count
        learner.set_head(_wide_head(model.head, count, generator), self._columns)

    # ------------------------------------------------------------ learning

    def _is_known(self, learner: Learner, experience: Experience) -> bool:
        past = {task.index for other in learner.seen for task in other.tasks}
        return all(task.index in past for task in experience.tasks)

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Start the next column, and hold the rows of the head that past tasks use."""
        self._held = []
        if self._is_known(learner, experience):
            return
        past = {task.index for other in learner.seen for task in other.tasks}
        if learner.seen:
            self.active += 1
            learner.engine.renew_optimizer(learner)
        new = [task.index for task in experience.tasks if task.index not in past]
        self.column_of[new] = self.active - 1
        head: nn.Linear = learner.model.head  # type: ignore[assignment]
        old = torch.zeros(head.out_features, dtype=torch.bool, device=head.weight.device)
        old[sorted({unit for other in learner.seen for unit in other.outputs})] = True
        mine = torch.zeros_like(old)
        mine[list(experience.outputs)] = True
        width = self._columns.width
        block = torch.arange(head.in_features, device=old.device) // width
        # In a row that past tasks share, the newest column's weights are free: for those tasks
        # that column's outputs are 0.
        open_weights = mine[:, None] & (~old[:, None] | (block == self.active - 1)[None])
        for parameter, free in ((head.weight, open_weights), (head.bias, mine & ~old)):
            if parameter is not None:
                self._held.append((parameter, free, parameter.detach().clone()))

    @hookimpl(tryfirst=True)
    def fit_experience(self, learner: Learner, experience: Experience) -> bool | None:
        """Skip an experience whose tasks all have their column."""
        return True if self._is_known(learner, experience) else None

    @hookimpl
    def before_epoch(self) -> None:
        """Put past columns into evaluation mode, without dropout, as when they were measured."""
        for column in self._columns.columns[: self.active - 1]:
            column.eval()

    @hookimpl(trylast=True)
    def after_backward(self) -> None:
        """Drop the gradients of held parameters, whichever loss they come from."""
        for number, column in enumerate(self._columns.columns):
            if number != self.active - 1:
                for parameter in column.parameters():
                    # Optimizers skip a parameter without gradient: no decay, no momentum.
                    parameter.grad = None
        for held, free, _ in self._held:
            if held.grad is not None:
                held.grad.mul_(free)

    @hookimpl(tryfirst=True)
    @torch.no_grad()
    def after_step(self) -> None:
        """Restore parameters that weight decay or momentum moved."""
        for parameter, free, frozen in self._held:
            torch.where(free, parameter, frozen, out=parameter.data)


class Columns(nn.Module):
    """Features of a progressive network: the last hidden layers of its columns side by side.

    For a sample whose task has column k, the blocks of columns after k are 0.

    Args:
        body: The first column: a plain sequence of layers.
        hidden: Its hidden layers.
        count: Number of columns.
        adapter: How a column is connected to past ones.
        now: Returns the columns in use, the column of each task, and the samples' tasks.
        generator: Generator of the weights.
    """

    def __init__(
        self,
        body: nn.Sequential,
        hidden: Sequence[Hidden],
        count: int,
        adapter: Adapter,
        now: Callable[[], tuple[int, Tensor, Tensor | None]],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        first = list(body).index(hidden[0].layer)
        self.inputs = nn.Sequential(*list(body)[:first])
        self.columns = nn.ModuleList(
            _Column(hidden, number, adapter, generator) for number in range(count)
        )
        self.width = hidden[-1].width
        self._now = now  # a function, so that copies of the model call it, too

    def forward(self, x: Tensor) -> Tensor:
        """Return all columns' features of each sample."""
        active, column_of, task = self._now()
        x = self.inputs(x)
        past: list[list[Tensor]] = []
        blocks: list[Tensor] = []
        learning = torch.is_grad_enabled()
        for number, column in enumerate(self.columns):
            if number >= active:
                blocks.append(torch.zeros_like(blocks[0]))
                continue
            with torch.set_grad_enabled(learning and number == active - 1):
                outputs = column(x, past)
            past.append(outputs[:-1])
            block = outputs[-1]
            if task is not None and number:
                block = block * (column_of[task] >= number).to(block.dtype)[:, None]
            blocks.append(block)
        return torch.cat(blocks, 1)


class _Column(nn.Module):
    """A single column: its own layers, and adapters for each hidden layer of past columns."""

    def __init__(
        self, hidden: Sequence[Hidden], number: int, adapter: Adapter, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self.project = nn.ModuleList()
        self.lateral = nn.ModuleList()
        self.scales = nn.ParameterList()
        self.between = nn.ModuleList(nn.Sequential(*h.between) for h in copy.deepcopy(hidden))
        self._activations = [h.activation for h in hidden]
        for index, hidden_layer in enumerate(hidden):
            layer = hidden_layer.layer if number == 0 else _drawn(hidden_layer.layer, 1, generator)
            self.layers.append(layer)
            if number == 0 or index == 0:
                continue
            before = hidden[index - 1].layer
            if adapter == "linear":
                self.lateral.append(_drawn(hidden_layer.layer, number, generator, bias=False))
            else:
                self.project.append(_projection(before, number, generator))
                self.lateral.append(_drawn(hidden_layer.layer, 1, generator, bias=False))
                self.scales.append(0.1 * torch.rand(number, generator=generator))

    def forward(self, x: Tensor, past: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """Return the outputs of each hidden layer, and the last of them as the head's input."""
        outputs: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            if index:
                x = self.between[index - 1](outputs[-1])
            sums = layer(x)
            if index and past:
                sums = sums + self._from_past(index, [column[index - 1] for column in past])
            outputs.append(self._activations[index](sums))
        return [*outputs, self.between[-1](outputs[-1])]

    def _from_past(self, index: int, past_outputs: list[Tensor]) -> Tensor:
        """Return the past columns' contribution to the sums of a layer."""
        between, lateral = self.between[index - 1], self.lateral[index - 1]
        if not len(self.project):
            taken = torch.cat([between(h) for h in past_outputs], 1)
        else:
            scales = self.scales[index - 1]
            joined = torch.cat([scales[j] * h for j, h in enumerate(past_outputs)], 1)
            taken = between(self._activations[index - 1](self.project[index - 1](joined)))
        added: Tensor = lateral(taken)
        return added


def _drawn(layer: Weighted, times: int, generator: torch.Generator, bias: bool = True) -> Weighted:
    """Return a layer like this one for n times its inputs, with weights drawn from its own."""
    other = copy.deepcopy(layer)
    shape = list(layer.weight.shape)
    shape[1] *= times
    other.weight = nn.Parameter(draw_like(layer.weight.detach(), tuple(shape), generator))
    if isinstance(other, nn.Linear):
        other.in_features = shape[1]
    else:
        other.in_channels = shape[1]
    if not bias or layer.bias is None:
        other.bias = None
    else:
        drawn = draw_like(layer.bias.detach(), tuple(layer.bias.shape), generator)
        other.bias = nn.Parameter(drawn)
    return other


def _projection(before: Weighted, times: int, generator: torch.Generator) -> nn.Module:
    """Return V, which maps the units of several such layers to those of one."""
    width = before.weight.shape[0]
    projection: nn.Linear | nn.Conv2d
    if isinstance(before, nn.Linear):
        projection = nn.Linear(times * width, width)
    else:
        projection = nn.Conv2d(times * width, width, 1)
    bound = 1 / math.sqrt(times * width)
    for parameter in projection.parameters():
        values = 2 * torch.rand(parameter.shape, generator=generator) - 1
        parameter.data.copy_(bound * values)
    return projection


def _wide_head(head: nn.Linear, count: int, generator: torch.Generator) -> nn.Linear:
    """Return the head for the features of all columns; the first column's weights stay."""
    wide = _drawn(head, count, generator)
    assert isinstance(wide, nn.Linear)
    with torch.no_grad():
        wide.weight[:, : head.in_features] = head.weight
        if head.bias is not None:
            wide.bias.copy_(head.bias)
    return wide
