"""Accuracy of several seeds in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from clframe.evaluation.class_accuracy import ClassCounter
from clframe.training.batched.batched_data import Feed
from clframe.training.batched.masks import Masks
from clframe.training.batched.stack import Stack

if TYPE_CHECKING:
    from clframe.core.stream import Task


@torch.inference_mode()
def batched_accuracies(stack: Stack, tasks: Sequence[Task]) -> list[tuple[float, torch.Tensor]]:
    """Return each seed's accuracy on its own task of the same index, and its class counts."""
    engine = stack.learners[0].engine
    settings, device = engine.evaluation, engine.device
    feed = Feed([task.data.to(device) for task in tasks])
    mask = Masks(stack.learners)
    n = len(feed.data[0])
    right = torch.zeros(len(tasks), dtype=torch.long, device=device)
    classes = ClassCounter(stack.learners[0].stream.n_outputs, device, len(tasks))
    orders = torch.arange(n).expand(len(tasks), n)
    for chunk in feed.chunks(orders, settings.eval_batch_size):
        outputs = mask(stack.run(chunk.x)[0], chunk.task)
        hits = outputs.argmax(2) == chunk.y
        right += hits.sum(1)
        classes.add(chunk.y, hits)
    tables = classes.tables(torch.stack([data.labels for data in feed.data]))
    return [(hits / max(n, 1), table) for hits, table in zip(right.tolist(), tables, strict=True)]
