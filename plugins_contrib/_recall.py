"""Batches of a step that go through the model but whose loss is added as a penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from clframe.data.buffer import Buffer

if TYPE_CHECKING:
    from clframe import Batch, Learner, Step


def no_loss(outputs: Tensor, batch: Batch) -> Tensor:
    """Return no loss, for a batch that does not take part in the weighted mean."""
    return outputs.new_zeros(())


def recall(buffer: Buffer, learner: Learner, positions: Tensor) -> Batch:
    """Return stored samples for the step's one forward pass, without a loss of their own.

    The papers of this package *add* terms to the loss of the current batch, while core's extra
    batches share a weighted mean. The plugin therefore adds the term itself, in ``penalty``.
    """
    return buffer.batch(learner, positions, weight=0.0, loss=no_loss)


def outputs_of(step: Step, part: Batch) -> Any:
    """Return the model's outputs for a batch of the step."""
    return step.outputs[step.parts.index(part)]
