"""Replay buffer: fixed-size tensors of samples on the training device.

One rule with four scores decides what is kept. Every sample belongs to a group (its class) and has
a score. The samples of lowest score are kept in each group, and the groups share the space evenly:

* ``class_balanced``: a random score, so a uniform sample of each class is kept;
* ``ring``: the newest have the lowest score;
* ``herding``: the position in iCaRL's greedy order of the samples that best keep the class mean;
* ``reservoir``: no groups; Vitter's algorithm R keeps a uniform sample of everything seen, and can
  also add the samples of single steps (:meth:`Buffer.add_batch`).

A method with its own rule chooses the rows itself (:meth:`Buffer.place`).
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from clframe.data.dataset import (
    Batch,
    BatchLoss,
    Data,
    TensorData,
    Transform,
    keep_inputs,
    map_inputs,
)
from clframe.errors import DataError, PluginError
from clframe.utils.setting_checks import at_least

Policy = Literal["reservoir", "class_balanced", "ring", "herding"]
_ROWS_AT_ONCE = 2**16
"""A larger buffer grows as it is filled."""


class Recaller(Protocol):
    """A learner, as far as a buffer needs it: its generator and its stream."""

    generator: torch.Generator
    stream: Any


class Buffer:
    """Buffer of up to ``size`` samples with label, task and group; memory is allocated when filled.

    With a size of more than 65,536, memory grows as samples arrive, because such a size often means
    all samples. The filled rows are always the first ``len(buffer)``. A checkpoint restores the
    state exactly; the transform of the inputs is code, so it is taken from the stream again.

    Args:
        size: Maximum number of samples.
        policy: Which samples to keep; see the module.
        per_group: Maximum number of samples per group; None for an even share of ``size``.
        transformed: Whether the inputs are stored as the model takes them, after the transform.
    """

    def __init__(
        self,
        size: int,
        policy: Policy = "reservoir",
        per_group: int | None = None,
        transformed: bool = False,
    ) -> None:
        at_least(size, 1, "size")
        at_least(per_group, 1, "per_group")
        self.size = size
        self.policy = policy
        self.per_group = per_group
        self.seen = 0
        self.inputs: Any = None
        self.columns: dict[str, Tensor] = {}
        self._count = 0
        self.transformed = transformed
        self._transform: Transform | None = keep_inputs if transformed else None

    def __len__(self) -> int:
        return self._count

    def column(self, name: str) -> Tensor:
        """Return the filled rows of ``labels``, ``tasks``, ``groups``, ``scores`` or another."""
        return self.columns[name][: self._count]

    # ------------------------------------------------------------ adding

    def regroup(self, groups: Tensor, generator: torch.Generator) -> None:
        """Assign groups to the samples of a reservoir, so that a policy with groups can continue.

        Args:
            groups: The group of each stored sample.
            generator: Generator of the scores.
        """
        home = self.columns["tasks"].device
        groups = groups.to(home)
        scores = self._scores(self._count, generator).to(home, torch.float64)
        kept = lowest_of_groups(groups, scores, self.size, self.per_group)
        columns = {name: self.column(name)[kept] for name in self.columns}
        columns |= {"groups": groups[kept], "scores": scores[kept]}
        inputs = map_inputs(lambda t: t[: self._count][kept.to(t.device)], self.inputs)
        self.inputs, self._count = None, len(kept)
        self._write(torch.arange(len(kept), device=home), inputs, columns)

    def add(
        self,
        data: Data,
        generator: torch.Generator,
        groups: Tensor | None = None,
        scores: Tensor | None = None,
        **more: Tensor,
    ) -> None:
        """Add data, once per experience; only the inputs that are kept are read.

        Args:
            data: All candidate samples.
            generator: Generator for random choices.
            groups: The group of each sample; not needed for a plain reservoir.
            scores: Lower is kept first; needed only for ``herding``.
            **more: Further columns to keep, one row per candidate (logits, ...).
        """
        if len(data) == 0:
            return
        if self._transform is None:
            self._transform = data.transform
        n, home = len(data), data.labels.device
        if groups is None:
            if self.policy != "reservoir" or self.per_group is not None:
                raise PluginError(
                    f"policy '{self.policy}' with groups needs the group of each sample"
                )
            slots = self._reservoir_slots(n, generator)
            taken = (slots < self.size).nonzero().squeeze(1)
            self._count = min(self.size, self.seen + n)
            self.seen += n
            if len(taken) == 0:
                return
            chosen, slots, extra = taken.to(home), slots[taken], {}
        else:
            if scores is None:
                scores = self._scores(n, generator)
            groups, scores = groups.to(home), scores.to(home, torch.float64)
            stored = self._count
            old_groups = self.column("groups").to(home) if stored else groups[:0]
            old_scores = self.column("scores").to(home) if stored else scores[:0]
            kept = self._kept(old_groups, old_scores, groups, scores)
            self.seen += n
            chosen = kept[kept >= stored] - stored
            if len(chosen) == 0:
                return
            free = torch.ones(len(kept), dtype=torch.bool, device=home)
            free[kept[kept < stored]] = False
            # At least as many come in as go out, so filling from the front leaves no holes.
            slots = free.nonzero().squeeze(1)[: len(chosen)]
            self._count = len(kept)
            extra = {"groups": groups[chosen], "scores": scores[chosen]}
        extra |= {name: value[chosen.to(value.device)] for name, value in more.items()}
        self._write(
            slots,
            data.gather(chosen),
            {"labels": data.labels[chosen], "tasks": data.tasks[chosen], **extra},
        )

    def _kept(
        self, old_groups: Tensor, old_scores: Tensor, groups: Tensor, scores: Tensor
    ) -> Tensor:
        """Return the positions to keep of the stored samples, followed by those of the new ones."""
        stored = len(old_groups)
        if self.per_group is not None and not torch.isin(groups.unique(), old_groups).any():
            # New groups that fit next to the old ones: no need to sort the stored samples.
            new = lowest_of_groups(groups, scores, len(groups), self.per_group)
            if stored + len(new) <= self.size:
                return torch.cat([torch.arange(stored, device=new.device), new + stored])
        everything = torch.cat([old_groups, groups]), torch.cat([old_scores, scores])
        return lowest_of_groups(*everything, self.size, self.per_group)

    def add_batch(
        self, inputs: Any, labels: Tensor, tasks: Tensor, generator: torch.Generator, **more: Tensor
    ) -> None:
        """Add the samples of one step to the reservoir, without waiting for the device.

        Args:
            inputs: As stored, or as the model takes them if the buffer is ``transformed``.
            labels: One label per sample.
            tasks: One task index per sample.
            generator: Generator of the draws.
            **more: Further columns to keep, one row per sample (logits, ...).
        """
        if self.policy != "reservoir" or self.per_group is not None:
            raise PluginError("only a plain reservoir can add the samples of a step")
        slots = self._reservoir_slots(len(tasks), generator)
        self._count = min(self.size, self.seen + len(tasks))
        self.seen += len(tasks)
        self._write(slots, inputs, {"labels": labels, "tasks": tasks, **more})

    def place(
        self,
        slots: Tensor,
        count: int,
        inputs: Any,
        labels: Tensor,
        tasks: Tensor,
        **more: Tensor,
    ) -> None:
        """Write samples to rows chosen by the caller, without waiting for the device.

        For a method with its own rule of what is kept. Empty rows are filled in order. No two
        samples may go to one row, except the spare row, which takes any number and exists once the
        buffer is full.

        Args:
            slots: The row of each sample; ``size``, the spare row, for one that is not kept.
            count: Number of filled rows afterwards.
            inputs: As stored, or as the model takes them if the buffer is ``transformed``.
            labels: One label per sample.
            tasks: One task index per sample.
            **more: Further columns to keep, one row per sample.
        """
        if not self._count <= count <= self.size:
            raise PluginError(
                f"a buffer of {self.size} samples that holds {self._count} cannot then hold {count}"
            )
        self._count = count
        self.seen += len(tasks)
        self._write(slots, inputs, {"labels": labels, "tasks": tasks, **more})

    def _reservoir_slots(self, n: int, generator: torch.Generator) -> Tensor:
        """Return the row of each of the next n samples; ``size`` (a spare row) for those not kept.

        Algorithm R (Vitter, "Random sampling with a reservoir", 1985) for all n at once: the k-th
        sample ever seen goes to a random one of k rows, if that row exists. Of several samples for
        one row the last stays, as it would one by one.
        """
        device = generator.device
        order = torch.arange(n, device=device)
        rank = order + self.seen
        draw = torch.rand(n, dtype=torch.float64, device=device, generator=generator)
        slots = torch.where(rank < self.size, rank, (draw * (rank + 1)).long().clamp(max=self.size))
        last = torch.full((min(self.size, self.seen + n) + 1,), -1, device=device)
        last.scatter_reduce_(0, slots, order, "amax")
        return torch.where(last[slots] == order, slots, self.size)

    def _scores(self, n: int, generator: torch.Generator) -> Tensor:
        if self.policy == "herding":
            raise PluginError("policy 'herding' needs the samples' ranks in the order as scores")
        if self.policy == "ring":
            return -torch.arange(self.seen, self.seen + n, dtype=torch.float64)
        return torch.rand(n, dtype=torch.float64, device=generator.device, generator=generator)

    def _write(self, slots: Tensor, inputs: Any, columns: dict[str, Tensor]) -> None:
        if self.inputs is None:
            where = _first(inputs).device
            self.inputs = map_inputs(lambda t: t[:0], inputs)
            self.columns = {name: value[:0].to(where) for name, value in columns.items()}
        self._check(inputs)
        self._make_room()
        slots = slots.to(_first(inputs).device)
        if isinstance(inputs, dict):
            for name, value in inputs.items():
                self.inputs[name].index_copy_(0, slots, value)
        else:
            self.inputs.index_copy_(0, slots, inputs)
        for name, value in columns.items():
            self.columns[name].index_copy_(0, slots, value.to(slots.device))

    def _make_room(self) -> None:
        """Allocate a row for each sample that is kept.

        A full buffer has a spare row for samples that are not kept, so that no step has to ask the
        device how many samples were kept. Before it is full, all are kept.
        """
        rows = len(self.columns["tasks"])
        if rows > self._count:
            return
        capacity = min(self.size, max(_ROWS_AT_ONCE, 2 * self._count)) + 1

        def grown(t: Tensor) -> Tensor:
            larger = t.new_empty((capacity, *t.shape[1:]))
            larger[:rows] = t
            return larger

        self.inputs = map_inputs(grown, self.inputs)
        self.columns = {name: grown(value) for name, value in self.columns.items()}

    def _check(self, inputs: Any) -> None:
        kinds = []
        for x in (self.inputs, inputs):
            tensors = x if isinstance(x, dict) else {"": x}
            kinds.append({name: (t.dtype, tuple(t.shape[1:])) for name, t in tensors.items()})
        if kinds[0] != kinds[1]:
            raise DataError(
                f"the replay buffer holds inputs like {kinds[0]}, but the experience has "
                f"{kinds[1]}: all experiences of a stream must store their inputs alike"
            )

    # ------------------------------------------------------------ recalling

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """Return n positions, drawn uniformly and independently (with replacement)."""
        return torch.randint(self._count, (n,), device=generator.device, generator=generator)

    def batch(
        self,
        learner: Recaller,
        positions: Tensor,
        weight: float = 1.0,
        loss: BatchLoss | None = None,
    ) -> Batch:
        """Return the samples at these positions, transformed like the training data."""
        raw = map_inputs(lambda t: t.index_select(0, positions), self.inputs)
        task = self.columns["tasks"][positions]
        x = self.transform(learner)(raw, task)
        return Batch(x, self.columns["labels"][positions], task, weight, loss)

    def sample(
        self, learner: Recaller, n: int, weight: float = 1.0, loss: BatchLoss | None = None
    ) -> Batch:
        """Return a batch of n random samples."""
        return self.batch(learner, self.draw(n, learner.generator), weight, loss)

    def data(self, learner: Recaller) -> TensorData:
        """Return all samples as training data; the inputs are shared, not copied."""
        return TensorData(
            map_inputs(lambda t: t[: self._count], self.inputs),
            self.column("labels"),
            self.column("tasks"),
            transform=self.transform(learner),
        )

    def transform(self, learner: Recaller) -> Transform:
        """Return the transform of stored inputs into the model's."""
        if self._transform is None:
            self._transform = learner.stream.experiences[0].data.transform
        return self._transform

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return the filled rows and the counters."""

        # Copy, because saving a view would save the whole tensor.
        def filled(t: Tensor) -> Tensor:
            return t[: self._count].clone()

        return {
            "seen": self.seen,
            "size": self.size,
            "transformed": self.transformed,
            "inputs": None if self.inputs is None else map_inputs(filled, self.inputs),
            "columns": {name: filled(value) for name, value in self.columns.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of :meth:`state_dict`."""
        kept = 0 if state["inputs"] is None else len(_first(state["inputs"]))
        size = state.get("size", self.size)
        # A full reservoir that grew would have rows that were never filled.
        if kept > self.size or (kept == size < self.size and "groups" not in state["columns"]):
            raise PluginError(
                f"the saved buffer of size {size} holds {kept} samples and cannot continue with "
                f"size {self.size}"
            )
        if kept and state.get("transformed", self.transformed) != self.transformed:
            raise PluginError(
                "the saved buffer stores inputs in another form (as stored, or as the model takes "
                "them), so it cannot continue with this replay.fill"
            )
        if kept and not {"labels", "tasks"} <= set(state["columns"]):
            raise PluginError("the saved buffer has no labels or tasks")
        if kept and self.policy == "herding" and "groups" not in state["columns"]:
            raise PluginError(
                "the saved buffer is a reservoir without an order of its samples, so it cannot "
                "continue with policy=herding"
            )
        self.seen, self._count = state["seen"], 0
        self.inputs, self.columns = None, {}
        if state["inputs"] is not None:
            self._count = len(_first(state["inputs"]))
            rows = torch.arange(self._count, device=_first(state["inputs"]).device)
            self._write(rows, state["inputs"], state["columns"])


def lowest_of_groups(
    groups: Tensor, scores: Tensor, size: int, per_group: int | None = None
) -> Tensor:
    """Return the positions of the samples to keep: those of lowest score, groups even.

    The first sample of every group is taken, then every second one, until ``size`` is reached. A
    small group thus leaves its space to the others.

    >>> groups = torch.tensor([0, 0, 0, 1, 1])
    >>> lowest_of_groups(groups, torch.tensor([0.3, 0.1, 0.2, 0.5, 0.4]), size=3).tolist()
    [1, 2, 4]
    """
    order = scores.argsort(stable=True)
    order = order[groups[order].argsort(stable=True)]
    _, counts = groups[order].unique_consecutive(return_counts=True)
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)
    rank = torch.arange(len(groups), device=groups.device) - starts
    if per_group is not None:
        order, rank = order[rank < per_group], rank[rank < per_group]
    return order[rank.argsort(stable=True)[:size]].sort().values


def _first(x: Any) -> Tensor:
    first: Tensor = next(iter(x.values())) if isinstance(x, dict) else x
    return first
