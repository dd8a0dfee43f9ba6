"""Temporary changes of a model: other parameters, evaluation mode, full precision."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

if TYPE_CHECKING:
    from clframe import Batch, Data, Learner


def outputs_with(learner: Learner, parameters: Mapping[str, Tensor], batch: Batch) -> Tensor:
    """Return the learner's outputs with these parameters of its model.

    Nothing else changes: running statistics of the model's layers stay the same.

    Args:
        learner: The learner with the model.
        parameters: By their names in the model; other parameters are the model's own.
        batch: The samples.
    """
    statistics = {name: value.clone() for name, value in learner.model.named_buffers()}
    replaced = {f"model.{name}": value for name, value in {**statistics, **parameters}.items()}
    outputs: Tensor = functional_call(learner, replaced, (batch.x, batch.task))
    return outputs


def full_precision(learner: Learner) -> contextlib.AbstractContextManager[Any]:
    """Compute in 32 bits, whatever the precision of the step around it."""
    return torch.autocast(learner.engine.device.type, enabled=False)


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put every layer into evaluation mode, then restore each layer's mode."""
    training = [layer for layer in module.modules() if layer.training]
    for layer in training:
        layer.training = False
    try:
        yield
    finally:
        for layer in training:
            layer.training = True


@torch.no_grad()
def outputs_over(learner: Learner, data: Data, masked: bool = True) -> Tensor:
    """Return the learner's outputs for all samples, in evaluation mode.

    Args:
        learner: The learner with the model.
        data: The samples.
        masked: Whether outputs that do not compete are masked; if not, the model must have
            `features` and `head`.
    """
    rows = []
    size = learner.engine.evaluation.eval_batch_size
    with evaluating(learner), learner.engine.autocast():
        for batch in data.to(learner.engine.device).batches(torch.arange(len(data)), size):
            outputs, features = learner.run_model(batch.x, batch.task)
            if not masked:
                outputs = learner.model.head(features)  # type: ignore[operator]
            rows.append(outputs.float())
    return torch.cat(rows)
