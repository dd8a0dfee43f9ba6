"""Fisher information of a learner on a dataset, by six estimates that papers mix up.

The diagonal of the Fisher information is ``E_x E_{y ~ p(y|x)} [(d log p(y|x) / d theta)^2]``. The
estimates differ in how they treat the inner expectation, and a penalty's weight found with one
does not carry over to another.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.data.dataset import Batch, map_inputs
from clframe.errors import PluginError
from clframe.plugins._per_sample import (
    NotPlainError,
    Variant,
    choose_samples,
    empty_sums,
    evaluation_mode,
    linear_layers,
    mean_over_samples,
    name_in,
    watched,
)

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.data.dataset import Data

Estimate: TypeAlias = Literal["exact", "sample", "predicted", "true", "true_weighted", "batch"]

_ROWS = 512
"""Samples per forward pass if mini-batches are smaller."""


def fisher(
    learner: Learner,
    data: Data,
    estimate: Estimate = "exact",
    samples: int | None = None,
    batch_size: int = 128,
    memory: int = 128,
    floor: float = 0.0,
) -> dict[str, Tensor]:
    """Return the diagonal of the Fisher information at the current parameters, by parameter name.

    Only the outputs that compete for a sample take part. The model is in evaluation mode.

    For actions, ``exact`` is that of the Gaussian whose likelihood is learned. With means ``mu``
    and deviations ``sigma`` (a mixture of one mode) it is, as in Continual World::

        sum_k ((d mu_k)^2 + 2 (d sigma_k)^2) / sigma_k^2

    and if the squared error of ``n`` outputs is learned (``learner.squared_error``), whose
    deviation is ``sqrt(n / 2)`` for every input, ``2/n sum_k (d f_k)^2``. If actions are
    choices (``model.categorical``), these are the classes, even if labels are a policy's logits.

    Args:
        learner: The model, active outputs and loss.
        data: Data to take the mean over.
        estimate: ``exact``: ``sum_c p_c (d log p_c)^2`` over the active classes. ``sample``: one
            label drawn from ``p``. ``predicted``: the most probable label. ``true``: the data's own
            label (the empirical Fisher). ``true_weighted``: the same times that label's
            probability, so one term of ``exact``, in which misclassified samples count
            little. ``batch``: the squared gradient of a mini-batch's mean loss, mean over
            mini-batches; smaller than ``true`` by up to the batch size. ``sample``,
            ``predicted`` and ``true_weighted`` are not defined for actions.
        samples: How many samples, drawn at random; None for all.
        batch_size: Mini-batch size for ``batch``; for the others it changes only the speed.
        memory: Megabytes that gradients of single samples may take at a time (more is not faster).
        floor: The least information that a sample has about a parameter: the result is
            ``mean_x max(F(x), floor)``, as in Continual World's code, where it is 1e-5. Parameters
            of heads of single tasks have no floor. Not for ``batch``.
    """
    if estimate in ("true", "batch") and _own_outputs(learner, data.labels):
        raise PluginError(
            f"fisher={estimate} uses the gradient of the labels' loss, which is 0 in reinforcement "
            "learning, where labels are the policy's own outputs: choose fisher=exact"
        )
    order = choose_samples(learner, data, samples, shuffle=estimate == "batch")
    with evaluation_mode(learner):
        if estimate == "batch":
            return _of_batches(learner, data, order, batch_size)

        def log_likelihood(outputs: Any, batch: Batch) -> Tensor:
            return -functional.cross_entropy(outputs, batch.y, reduction="sum")

        def task_loss(outputs: Any, batch: Batch) -> Tensor:
            return learner.label_loss(outputs, batch) * len(batch)

        def variants(outputs: Any, batch: Batch) -> Iterator[Variant]:
            return _labels(learner, estimate, outputs, batch)

        def gaussian(outputs: Any, batch: Batch) -> Tensor:
            numbers = torch.cat(_gaussian(learner, outputs) or (), 1)
            return numbers.gather(1, batch.y[:, None]).sum()

        if estimate == "true":
            score = task_loss
        elif _has_classes(learner, data.labels):
            score = log_likelihood
        else:
            score = _output if learner.squared_error else gaussian
        return mean_over_samples(
            learner,
            data,
            order,
            score,
            variants,
            torch.square,
            batch_size,
            memory,
            shared=estimate != "sample",  # all ranks must draw the same labels
            floor=floor,
        )


def _labels(learner: Learner, estimate: Estimate, outputs: Any, batch: Batch) -> Iterator[Variant]:
    """Yield the labels whose log-probability is differentiated, with the weight of each."""
    if estimate == "true":
        yield batch.y, None
        return
    actions = not _has_classes(learner, batch.y)
    if actions and estimate == "exact" and learner.squared_error:
        for number in range(outputs.shape[1]):
            yield torch.full_like(batch.task, number), None
        return
    if actions and estimate == "exact" and (made := _gaussian(learner, outputs)) is not None:
        information = made[1].square().reciprocal()
        for number, weight in enumerate(torch.cat([information, 2 * information], 1).unbind(1)):
            yield torch.full_like(batch.task, number), weight
        return
    unknown = estimate == "true_weighted" and batch.y.is_floating_point()
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or actions or unknown:
        raise PluginError(
            f"fisher={estimate} needs class labels and a model with one logit per class: "
            "choose fisher=true or fisher=batch"
        )
    if estimate == "predicted":
        yield outputs.argmax(1), None
        return
    p = outputs.softmax(1)
    if estimate == "true_weighted":
        yield batch.y, p.gather(1, batch.y[:, None]).squeeze(1)
        return
    if estimate == "sample":
        yield torch.multinomial(p, 1, generator=learner.generator).squeeze(1), None
        return
    active = (outputs > torch.finfo(outputs.dtype).min).any(0).nonzero().flatten()
    for label in active.tolist():
        yield torch.full_like(batch.task, label), p[:, label]


def _has_classes(learner: Learner, labels: Tensor) -> bool:
    """Return whether outputs are class logits, by the labels or by the model."""
    return not labels.is_floating_point() or learner.policy.categorical


def _own_outputs(learner: Learner, labels: Tensor) -> bool:
    """Return whether labels are the policy's own outputs, stored for behavioral cloning."""
    return labels.is_floating_point() and learner.policy.clones_outputs


def _rows_of(batch: Batch, rows: slice) -> Batch:
    x = map_inputs(lambda tensor: tensor[rows], batch.x)
    return Batch(x, batch.y[rows], batch.task[rows])


def _gaussian(learner: Learner, outputs: Any) -> tuple[Tensor, Tensor] | None:
    """Return means and deviations if outputs are a single Gaussian over actions, else None."""
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        return None
    return learner.policy.single_gaussian(outputs)


def _output(outputs: Tensor, batch: Batch) -> Tensor:
    """Return the labeled outputs, scaled so that a squared gradient is a term of the Fisher.

    The mean over n numbers of ``(f - y)^2`` is the negative log-likelihood of a Gaussian of
    variance ``n / 2``, whose Fisher information about its mean is ``2 / n``.
    """
    chosen = outputs.gather(1, batch.y[:, None])
    return chosen.sum() * math.sqrt(2 / outputs.shape[1])


def _of_batches(learner: Learner, data: Data, order: Tensor, batch_size: int) -> dict[str, Tensor]:
    """Return the mean over mini-batches of the squared gradient of the mean loss."""
    parameters = learner.named_trainable()
    count = -(-len(order) // batch_size)
    # Share whole batches, because the gradient of each batch is squared.
    own = learner.engine.share(torch.arange(count))
    order = order[own[0] * batch_size : (own[-1] + 1) * batch_size] if len(own) else order[:0]
    layers = linear_layers(learner.model, parameters)
    total: dict[str, Tensor] | None = None
    if layers is not None:
        with contextlib.suppress(NotPlainError):
            total = _squares_in_linear_layers(learner, layers, data, order, batch_size)
    if total is None:
        total = {name: torch.zeros_like(p) for name, p in parameters.items()}
        for batch in data.batches(order, batch_size):
            outputs, _ = learner.run_model(batch.x, batch.task)
            loss = learner.label_loss(outputs, batch)
            gradients = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
            torch._foreach_addcmul_(list(total.values()), gradients, gradients)
    total = {name: total[name] for name in parameters}  # the same order on every rank
    learner.engine.sum(total)
    return {name: value / max(count, 1) for name, value in total.items()}


def _squares_in_linear_layers(
    learner: Learner, layers: dict[str, nn.Linear], data: Data, order: Tensor, batch_size: int
) -> dict[str, Tensor]:
    """Return the sum over mini-batches, several of which go through the model in one pass.

    Only the gradients of the weights are computed for each mini-batch: the gradient that reaches a
    layer, times the layer's input.
    """
    total = empty_sums(layers)
    work = {name: torch.empty_like(value) for name, value in total.items()}
    portion = batch_size * max(1, _ROWS // batch_size)
    with watched(layers) as seen:
        for batch in data.batches(order, portion):
            seen.clear()
            outputs, _ = learner.run_model(batch.x, batch.task)
            if len(seen) != len(layers) or not isinstance(outputs, Tensor):
                raise NotPlainError
            losses = [
                learner.label_loss(outputs[rows], _rows_of(batch, rows))
                for rows in _slices(len(batch), batch_size)
            ]
            back = torch.autograd.grad(
                torch.stack(losses).sum(), [output for _, output in seen.values()]
            )
            for (name, (inputs, _)), deltas in zip(seen.items(), back, strict=True):
                weight, bias = name_in(name, "weight"), name_in(name, "bias")
                for rows in _slices(len(batch), batch_size):
                    gradient = torch.mm(deltas[rows].T, inputs[rows], out=work[weight])
                    total[weight].addcmul_(gradient, gradient)
                    if bias in total:
                        total[bias].add_(deltas[rows].sum(0).square())
    return total


def _slices(n: int, size: int) -> Iterator[slice]:
    """Yield the rows of each mini-batch."""
    return (slice(start, start + size) for start in range(0, n, size))
