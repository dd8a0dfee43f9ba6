"""Accuracy of several seeds in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from clframe.training.batched.data import Feed
from clframe.training.batched.masks import Masks
from clframe.training.batched.stack import Stack

if TYPE_CHECKING:
    from clframe.core.stream import Task


@torch.inference_mode()
def batched_accuracies(stack: Stack, tasks: Sequence[Task]) -> list[float]:
    """The accuracy of each seed on its task of the same number."""
    settings, device = stack.learners[0].engine.settings, stack.learners[0].engine.device
    feed = Feed([task.data.to(device) for task in tasks])
    mask = Masks(stack.learners)
    n = len(feed.data[0])
    right = torch.zeros(len(tasks), dtype=torch.long, device=device)
    orders = torch.arange(n).expand(len(tasks), n)
    for chunk in feed.chunks(orders, settings.eval_batch_size):
        outputs = mask(stack.run(chunk.x)[0], chunk.task)
        right += (outputs.argmax(2) == chunk.y).sum(1)
    return [hits / max(n, 1) for hits in right.tolist()]
