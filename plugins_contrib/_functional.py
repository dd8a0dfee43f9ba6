"""The model with other parameters, and in evaluation mode, for a moment."""

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
    """What the learner would give with these parameters of its model.

    Nothing else changes: running statistics of the model's layers stay as they are.

    Args:
        learner: With the model.
        parameters: By their names in the model; those that are not named are the model's own.
        batch: The samples.
    """
    statistics = {name: value.clone() for name, value in learner.model.named_buffers()}
    replaced = {f"model.{name}": value for name, value in {**statistics, **parameters}.items()}
    outputs: Tensor = functional_call(learner, replaced, (batch.x, batch.task))
    return outputs


def full_precision(learner: Learner) -> contextlib.AbstractContextManager[Any]:
    """Computes in 32 bits, whatever the precision of the step around it."""
    return torch.autocast(learner.engine.device.type, enabled=False)


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Puts every layer into evaluation mode, and each back into its own."""
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
    """The learner's outputs for all samples, in evaluation mode.

    Args:
        learner: With the model.
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
