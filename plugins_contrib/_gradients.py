"""Gradients of replayed samples, for methods that constrain the step by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from clframe import Batch, Learner


def learned_now(learner: Learner) -> list[nn.Parameter]:
    """Return the model's parameters that have a gradient in the current step."""
    return [p for p in learner.named_trainable().values() if p.grad is not None]


def gradients(learner: Learner, batch: Batch, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Return the gradient of the batch's loss, zero for parameters without a part in it."""
    with learner.engine.autocast():
        outputs, _ = learner.run_model(batch.x, batch.task)
        loss = learner.part_loss(outputs, batch)
    values = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [
        torch.zeros_like(parameter) if gradient is None else gradient
        for parameter, gradient in zip(parameters, values, strict=True)
    ]
