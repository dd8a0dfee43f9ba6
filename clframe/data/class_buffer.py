"""Replay of an experience: buffers whose groups are the stream's classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from clframe.data.buffer import Buffer, Policy
from clframe.data.dataset import Data
from clframe.data.herding import herd
from clframe.errors import PluginError, SettingError

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Stream


def class_of(stream: Stream, labels: Tensor, tasks: Tensor) -> Tensor:
    """Return the class of each sample, as a group of a buffer.

    In the class-incremental scenario a class is an output unit. In the others it is an output
    unit of a task, so that "100 per class" of ten digits is 1,000 samples for any labeling of
    the digits. If labels are not classes (actions), each task is one group.
    """
    if labels.ndim > 1 or labels.is_floating_point():
        return tasks
    return labels if stream.scenario == "class" else tasks * stream.n_outputs + labels


def count_classes(stream: Stream) -> int:
    """Return how many groups :func:`class_of` can give on this stream."""
    if stream.scenario == "class":
        return stream.n_outputs
    return sum(max(len(task.outputs), 1) for task in stream.tasks)


def add_herded(buffer: Buffer, learner: Learner, data: Data) -> None:
    """Add the samples of each class that herding by the learner's features chooses."""
    groups = class_of(learner.stream, data.labels, data.tasks)
    present = groups.unique()
    all_groups = (
        torch.cat([buffer.column("groups").to(groups.device), present]) if len(buffer) else present
    )
    share = buffer.per_group or -(-buffer.size // len(all_groups.unique()))
    chosen, ranks = herd(features_of(learner, data), groups, share)
    buffer.add(data.subset(chosen), learner.generator, groups[chosen], ranks)


def make_buffer(stream: Stream, size: int, per_class: int | None, policy: Policy) -> Buffer:
    """Return a buffer for the classes of a stream: ``size`` in all, or ``per_class`` of each."""
    if policy not in ("reservoir", "class_balanced", "ring", "herding"):
        raise SettingError(
            f"policy must be reservoir, class_balanced, ring or herding, got {policy!r}"
        )
    if per_class is None:
        return Buffer(size, policy)
    return Buffer(per_class * count_classes(stream), policy, per_group=per_class)


def remember(buffer: Buffer, learner: Learner, data: Data) -> None:
    """Add an experience's data by the buffer's policy, with classes as groups."""
    has_groups = buffer.policy != "reservoir" or buffer.per_group is not None
    if has_groups and len(buffer) and "groups" not in buffer.columns:
        # A fork that continues with another policy than its parent's plain reservoir.
        stored = class_of(learner.stream, buffer.column("labels"), buffer.column("tasks"))
        buffer.regroup(stored, learner.generator)
    if buffer.policy == "herding":
        add_herded(buffer, learner, data)
    elif buffer.policy == "reservoir" and buffer.per_group is None:
        buffer.add(data, learner.generator)
    else:
        groups = class_of(learner.stream, data.labels, data.tasks)
        buffer.add(data, learner.generator, groups)


@torch.no_grad()
def features_of(learner: Learner, data: Data) -> Tensor:
    """Return the head's inputs for all samples, scaled to length 1, in evaluation mode."""
    was_training = learner.training
    learner.eval()
    rows = []
    size = learner.engine.evaluation.eval_batch_size
    with learner.engine.autocast():
        for batch in data.to(learner.engine.device).batches(torch.arange(len(data)), size):
            features = learner.run_model(batch.x, batch.task)[1]
            if features is None:
                raise PluginError(
                    "herding and nearest-mean classification need a model with `features` and "
                    "`head`, so that features and outputs are separate"
                )
            rows.append(functional.normalize(features.flatten(1).float(), dim=1))
    learner.train(was_training)
    return torch.cat(rows)
