"""Accuracy of several seeds in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from clframe.core.class_accuracy import count_all
from clframe.training.batched.data import Feed
from clframe.training.batched.masks import Masks
from clframe.training.batched.stack import Stack

if TYPE_CHECKING:
    from clframe.core.stream import Task


@torch.inference_mode()
def batched_accuracies(stack: Stack, tasks: Sequence[Task]) -> list[tuple[float, torch.Tensor]]:
    """The accuracy of each seed on its task of the same number, and the counts of its classes."""
    settings, device = stack.learners[0].engine.settings, stack.learners[0].engine.device
    feed = Feed([task.data.to(device) for task in tasks])
    mask = Masks(stack.learners)
    n = len(feed.data[0])
    right = torch.zeros(len(tasks), dtype=torch.long, device=device)
    classes = [count_all(learner) for learner in stack.learners]
    orders = torch.arange(n).expand(len(tasks), n)
    for chunk in feed.chunks(orders, settings.eval_batch_size):
        outputs = mask(stack.run(chunk.x)[0], chunk.task)
        hits = outputs.argmax(2) == chunk.y
        right += hits.sum(1)
        for counter, labels, own in zip(classes, chunk.y, hits, strict=True):
            counter.add(labels, own)
    tables = [one.table(data.labels) for one, data in zip(classes, feed.data, strict=True)]
    return [(hits / max(n, 1), table) for hits, table in zip(right.tolist(), tables, strict=True)]
