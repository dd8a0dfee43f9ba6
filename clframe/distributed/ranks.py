"""Several processes train one run: each does a share of the model's work, all hold the same state.

Every rank executes the same program on the same global batches, with the same random numbers. Only
the costly work is divided: of each part of a step a rank puts its share through the model, and the
outputs are gathered. After that, every rank computes losses, penalties, buffers and records from
the whole batch, so a plugin need not know about ranks, a mean is the mean over the global batch,
and ranks cannot differ.

Why the gradient is exact: all ranks compute the same loss L from the gathered outputs. The backward
pass of the gathering returns to a rank the gradient of its own rows times the number of ranks R,
since R
copies of L depend on them. The mean over ranks of the parameters' gradients is then
``1/R sum_r R dL/d(rows of r) d(rows of r)/d(theta)`` for what passes through the gathering, and
for what reaches parameters directly (EWC's penalty, a head applied to gathered features)
``1/R sum_r dL/d(theta)``: both are dL/d(theta). What a plugin computes on all ranks alike is right
by itself; sharing it is a matter of speed only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from clframe.core.step import Step
from clframe.data.dataset import Batch, Data, cat_inputs, map_inputs
from clframe.errors import PluginError

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.plugin import Plugin

T = TypeVar("T")

_LOOKED_AT = 2**21
"""Entries of a tensor, at most, that are compared between ranks."""


def check_plugins(plugins: Sequence[Plugin], size: int) -> None:
    """Refuse plugins that declare that they cannot work with several processes."""
    for plugin in plugins:
        if not plugin.capabilities.distributed and size > 1:
            raise PluginError(
                f"plugin '{plugin.name}' cannot work with {size} processes: "
                "set trainer.devices=1 trainer.num_nodes=1"
            )


class Ranks:
    """The processes of one run, seen from one of them.

    Args:
        rank: The number of this process.
        size: The number of processes.
        device: Device of this process.
    """

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        self.rank = rank
        self.size = size
        self.device = device
        self.valid_mask: Tensor | None = None
        """For this rank's rows in the model: 1 for each that counts, 0 for a repeated one."""
        self.global_rows = 0
        """Number of rows in the model that count, over all ranks."""
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            self._generators.append(torch.cuda.default_generators[device.index or 0])

    def __deepcopy__(self, memo: dict[int, Any]) -> Ranks:
        return self  # Copies of a model belong to the same processes.

    # ------------------------------------------------------------ between processes

    def sum(self, tensors: Mapping[str, Tensor]) -> None:
        """Add up, in place, the tensors of all ranks by name, in one exchange."""
        self._reduce(list(tensors.values()), 1.0)

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its mean over ranks."""
        self._reduce([p.grad for p in parameters if p.grad is not None], 1.0 / self.size)

    def _reduce(self, tensors: list[Tensor], factor: float) -> None:
        for kind in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = [tensor for tensor in tensors if tensor.dtype == kind]
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            dist.all_reduce(flat)
            if factor != 1.0:
                flat.mul_(factor)
            pieces = flat.split([tensor.numel() for tensor in same])
            for tensor, piece in zip(same, pieces, strict=True):
                tensor.copy_(piece.view_as(tensor))

    def gather(self, local: Tensor) -> Tensor:
        """Return the rows of all ranks, in the order of ranks; all must have the same number."""
        gathered: Tensor = _Gather.apply(local, self.rank, self.size)
        return gathered

    def broadcast(self, value: T) -> T:
        """Return rank zero's value; its tensors move to this rank's device."""
        objects: list[Any] = [pytree.tree_map_only(Tensor, Tensor.cpu, value)]
        dist.broadcast_object_list(objects, src=0)
        chosen: T = pytree.tree_map_only(Tensor, lambda t: t.to(self.device), objects[0])
        return chosen

    # ------------------------------------------------------------ shares

    def share(self, order: Tensor) -> Tensor:
        """Return this rank's share of an order; each position is in exactly one share."""
        return order.tensor_split(self.size)[self.rank]

    def rows(self, n: int) -> Tensor:
        """Return the rows of a batch of n that this rank puts through the model.

        Every rank has the same number. If n does not divide evenly, the last row is repeated, and
        the outputs of the repetition are dropped when gathered.
        """
        each = -(-n // self.size)
        start = self.rank * each
        return torch.arange(start, start + each, device=self.device).clamp(max=n - 1)

    def batches(self, data: Data, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Yield the global batches; if data is read from disk, each rank reads only its share."""
        if data.on_all_ranks:
            yield from data.batches(order, batch_size)
            return
        order = order.cpu()
        chunks = order.split(batch_size)
        local = torch.cat([chunk[self.rows(len(chunk)).cpu()] for chunk in chunks])
        parts = data.batches(local, -(-batch_size // self.size))
        for positions, part in zip(chunks, parts, strict=True):
            where = positions.to(data.labels.device)
            label = data.labels[where].to(part.y.device)
            task = data.tasks[where].to(part.task.device)
            yield SharedBatch(self, part.x, label, task, data, positions)

    # ------------------------------------------------------------ the model

    def run_parts(self, learner: Learner, parts: list[Batch]) -> Step:
        """Put this rank's share of all parts through the model and gather the outputs."""
        rows = [self.rows(len(part)) for part in parts]
        inputs = [_local_inputs(part, own_rows) for part, own_rows in zip(parts, rows, strict=True)]
        tasks = [part.task[own_rows] for part, own_rows in zip(parts, rows, strict=True)]
        with self._per_rank_rng(), self._masking_repeats(parts):
            outputs, features = learner.run_model(cat_inputs(inputs), torch.cat(tasks))
        learner.set_task(torch.cat([part.task for part in parts]))
        sizes = [len(part) for part in parts]
        whole = self._gather_parts(outputs, sizes)
        return SharedStep(parts, whole, lambda: self._gather_parts(features, sizes))

    def _gather_parts(self, local: Any, sizes: list[int]) -> list[Any]:
        """Return the results of all ranks for each part, in the order of the part's samples."""
        if local is None:
            return [None] * len(sizes)
        leaves, structure = pytree.tree_flatten(local)
        each = [-(-n // self.size) for n in sizes]
        split: list[list[Tensor]] = []
        for leaf in leaves:
            if not isinstance(leaf, Tensor) or len(leaf) != sum(each):
                raise PluginError(
                    "with several processes a model must return tensors with one row per sample, "
                    f"alone or in tuples, lists and dicts; got {type(leaf).__name__}"
                )
            table = self.gather(leaf).unflatten(0, (self.size, sum(each)))
            pieces = table.split(each, dim=1)
            split.append([p.flatten(0, 1)[:n] for p, n in zip(pieces, sizes, strict=True)])
        return [
            pytree.tree_unflatten([leaf[number] for leaf in split], structure)
            for number in range(len(sizes))
        ]

    @contextlib.contextmanager
    def _masking_repeats(self, parts: list[Batch]) -> Iterator[None]:
        """Mark the rows in the model that count, for layers that combine rows."""
        masks = []
        for part in parts:
            each = -(-len(part) // self.size)
            start = self.rank * each
            masks.append(torch.arange(start, start + each, device=self.device) < len(part))
        self.valid_mask = torch.cat(masks)
        self.global_rows = sum(len(part) for part in parts)
        try:
            yield
        finally:
            self.valid_mask, self.global_rows = None, 0

    @contextlib.contextmanager
    def _per_rank_rng(self) -> Iterator[None]:
        """Let dropout draw other numbers on each rank, and leave all generators in sync.

        If nothing is drawn, the generators stay unchanged.
        """
        shared = [generator.get_state() for generator in self._generators]
        key = _draw_key()
        for generator in self._generators:
            generator.manual_seed(key + self.rank)
        before = [generator.get_state() for generator in self._generators]
        try:
            yield
        finally:
            pairs = zip(self._generators, before, strict=True)
            used = any(not torch.equal(g.get_state(), state) for g, state in pairs)
            for generator, state in zip(self._generators, shared, strict=True):
                generator.set_state(state)
            if used:
                _draw_key()

    # ------------------------------------------------------------ agreement

    def check_in_sync(self, learner: Learner) -> None:
        """Check that weights and plugin states are the same on all ranks.

        A plugin that draws from its own generator, or reads the clock, would otherwise corrupt a
        run silently.

        Raises:
            PluginError: Names the first difference.
        """
        mine = dict(_fingerprints(learner))
        everyone: list[dict[str, tuple[float, ...]]] = [{} for _ in range(self.size)]
        dist.all_gather_object(everyone, mine)
        for rank, theirs in enumerate(everyone[1:], start=1):
            # Recorders exist only on rank zero, so only shared entries are compared.
            for name in (name for name in everyone[0] if name in theirs):
                if not _near(everyone[0][name], theirs[name]):
                    raise PluginError(
                        f"{name} is not the same on ranks 0 and {rank}: with several processes "
                        "all must draw from learner.generator or torch's own generator, and use "
                        "nothing else that differs between processes"
                    )


class SharedBatch(Batch):
    """A batch of which this rank has read only its rows; the others are fetched on use.

    Args:
        ranks: The ranks that share it.
        local_x: The inputs of this rank's rows.
        y: All labels.
        task: All tasks.
        data: Data of the samples.
        positions: All positions in the data.
    """

    __slots__ = ("_all", "local_x", "ranks")

    def __init__(
        self, ranks: Ranks, local_x: Any, y: Tensor, task: Tensor, data: Data, positions: Tensor
    ) -> None:
        self.ranks = ranks
        self.local_x = local_x
        self._all: Any = None
        super().__init__(None, y, task, data=data, positions=positions)

    @property
    def x(self) -> Any:
        """The inputs of all samples; reading them is an exchange, so all ranks must do it."""
        if self._all is None:
            n = len(self)
            self._all = map_inputs(lambda t: self.ranks.gather(t)[:n], self.local_x)
        return self._all

    @x.setter
    def x(self, value: Any) -> None:
        self._all = value


class SharedStep(Step):
    """A step whose features are gathered when a plugin first uses them."""

    __slots__ = ("_features", "_gather")

    def __init__(
        self, parts: list[Batch], outputs: list[Any], gather: Callable[[], list[Any]]
    ) -> None:
        self._gather = gather
        self._features: list[Any] = []
        super().__init__(parts, outputs, [])

    @property
    def features(self) -> list[Any]:
        """The inputs of the head for each part; reading them is an exchange."""
        if not self._features:
            self._features = self._gather()
        return self._features

    @features.setter
    def features(self, value: list[Any]) -> None:
        self._features = value


class _Gather(torch.autograd.Function):
    """Gather all ranks' rows; backwards, return the gradient of its own rows times the ranks."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, rank: int, size: int) -> Tensor:
        ctx.place, ctx.size = (rank * len(local), (rank + 1) * len(local)), size
        gathered = local.new_empty((size * len(local), *local.shape[1:]))
        dist.all_gather_into_tensor(gathered, local.contiguous())
        return gathered

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        start, end = ctx.place
        return gradient[start:end] * ctx.size, None, None


def _local_inputs(part: Batch, rows: Tensor) -> Any:
    """Return the inputs of a part that this rank puts through the model."""
    if isinstance(part, SharedBatch):
        return part.local_x
    return map_inputs(lambda t: t.index_select(0, rows.to(t.device)), part.x)


def _draw_key() -> int:
    return int(torch.randint(2**62, ()))


def _fingerprints(learner: Learner) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield a few numbers for every tensor and number of the run's state, by name."""
    yield from _numbers("the model's state", learner.state_dict())
    for plugin in learner.plugins.ordered:
        yield from _numbers(f"the state of plugin '{plugin.name}'", plugin.state_dict())
    yield from _numbers("the generator", [learner.generator.get_state(), torch.get_rng_state()])


def _numbers(who: str, state: Any) -> Iterator[tuple[str, tuple[float, ...]]]:
    for path, value in pytree.tree_flatten_with_path(state)[0]:
        name = f"{who} ({pytree.keystr(path)})"
        if isinstance(value, Tensor):
            flat = value.detach().flatten()
            # Of a large buffer, every n-th entry is enough to see a difference.
            wide = flat[:: 1 + len(flat) // _LOOKED_AT].double()
            weighted = wide * torch.arange(1, len(wide) + 1, device=wide.device).remainder(251)
            yield name, (float(len(flat)), float(wide.abs().sum()), float(weighted.abs().sum()))
        elif isinstance(value, bool | int | float):
            yield name, (float(value),)


def _near(values: tuple[float, ...], others: tuple[float, ...]) -> bool:
    """Return whether values are equal except for the nondeterminism of sums on GPUs."""
    first, second = torch.tensor(values).double(), torch.tensor(others).double()
    return len(values) == len(others) and torch.allclose(
        first, second, rtol=1e-5, atol=1e-9, equal_nan=True
    )
