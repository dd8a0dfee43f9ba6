"""Gradients of single samples, measured and averaged over a dataset.

The result is the mean over samples of ``sum_k weight_k * measure(d score_k / d theta)``, where the
measure (square, absolute value) of a product is the product of the measures. A floor bounds each
sample's sum from below. Three methods give the same numbers:

* If all parameters are in plain linear layers, a sample's gradient is the outer product of the
  layer's input and the gradient of its output. Its measure is an outer product too, the sum over
  samples is one matrix product, and nothing of the size of the model is stored per sample. (With a
  floor, the outer products are computed in chunks of bounded size.)
* Other models go through ``torch.func.vmap``, in chunks of bounded size.
* Layers that ``vmap`` does not support (recurrent layers) are done sample by sample.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from clframe.data.dataset import Batch, map_inputs
from clframe.models.heads import TaskHeads

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.data.dataset import Data

Score: TypeAlias = "Callable[[Any, Batch], Tensor]"
"""Returns the sum of the scores over the batch's samples, from outputs and batch."""

Variant: TypeAlias = "tuple[Tensor, Tensor | None]"
"""Labels for the score, and a weight for each sample (None for 1)."""

Variants: TypeAlias = "Callable[[Any, Batch], Iterator[Variant]]"
"""Yields the variants ``k`` from outputs (without gradient) and batch."""

Measure: TypeAlias = "Callable[[Tensor], Tensor]"


class NotPlainError(Exception):
    """A linear layer is used in a way that the shortcut does not cover."""


@contextlib.contextmanager
def evaluation_mode(learner: Learner) -> Iterator[None]:
    """Run the model in evaluation mode, so that samples do not affect each other."""
    training = learner.training
    learner.eval()
    try:
        yield
    finally:
        learner.train(training)
        learner.set_task(None)


def choose_samples(
    learner: Learner, data: Data, samples: int | None, shuffle: bool = False
) -> Tensor:
    """Return positions in the data: all of them, or a random subset if there are more.

    Args:
        learner: The learner; its generator draws the subset.
        data: Data to choose from.
        samples: How many; None for all.
        shuffle: Return a random order even if all are used.
    """
    if not shuffle and (samples is None or samples >= len(data)):
        return torch.arange(len(data))
    device = learner.generator.device
    return torch.randperm(len(data), generator=learner.generator, device=device)[:samples]


def mean_over_samples(
    learner: Learner,
    data: Data,
    order: Tensor,
    score: Score,
    variants: Variants,
    measure: Measure,
    batch_size: int,
    memory: int,
    shared: bool = True,
    floor: float = 0.0,
) -> dict[str, Tensor]:
    """Return the mean described above, by parameter name.

    Args:
        learner: The learner; its model's trainable parameters are measured.
        data: Data to take samples from.
        order: The positions to use.
        score: What is differentiated.
        variants: Labels and weights to compute it with.
        measure: ``torch.square`` or ``torch.abs``.
        batch_size: Samples at a time.
        memory: Megabytes that gradients of single samples may take at a time.
        shared: Split the samples between processes; not possible if labels are drawn.
        floor: Lower bound of a sample's value for a parameter, heads of single tasks excepted; 0
            for no bound.
    """
    count = len(order)
    order = learner.engine.share(order) if shared else order
    parameters = learner.named_trainable()
    layers = linear_layers(learner.model, parameters)
    floors = floors_of(learner.model, floor) if floor else {}
    # A gradient, its measure and one intermediate of the same size; with a floor, the sum.
    size = (4 if floors else 3) * sum(p.numel() * p.element_size() for p in parameters.values())
    portion = min(batch_size, max(1, memory * 2**20 // max(size, 1)))
    total: dict[str, Tensor] | None = None
    if layers is not None:
        with contextlib.suppress(NotPlainError):
            batches = data.batches(order, batch_size)
            total = _sum_in_linear_layers(
                learner, layers, batches, score, variants, measure, floors, portion
            )
    if total is None:
        batches = data.batches(order, portion)
        total = _sum_by_vmap(learner, parameters, batches, score, variants, measure, floors)
    total = {name: total[name] for name in parameters}  # the same order on every rank
    if shared:
        learner.engine.sum(total)
    return {name: value / max(count, 1) for name, value in total.items()}


def floors_of(model: nn.Module, floor: float) -> dict[str, float]:
    """Return the floor of each parameter by name; heads of single tasks have none.

    A parameter without a gradient belongs to another task and must not be held before that is
    learned.
    """
    heads = {
        p
        for module in model.modules()
        if isinstance(module, TaskHeads)
        for p in module.parameters()
    }
    return {name: floor for name, p in model.named_parameters() if p not in heads}


# ------------------------------------------------------------ linear layers


def linear_layers(
    model: nn.Module, parameters: dict[str, nn.Parameter]
) -> dict[str, nn.Linear] | None:
    """Return the linear layers by name if they hold all trainable parameters, else None."""
    layers: dict[str, nn.Linear] = {}
    covered: list[str] = []
    for name, module in model.named_modules(remove_duplicate=False):
        names = [
            name_in(name, key)
            for key, parameter in module.named_parameters(recurse=False, remove_duplicate=False)
            if parameter.requires_grad
        ]
        # A subclass may compute something else, so only the class itself counts.
        if names and type(module) is not nn.Linear:
            return None
        if names:
            layers[name] = module
            covered += names
    # A parameter that two layers share has one name in `parameters` but two here.
    return layers if sorted(covered) == sorted(parameters) else None


def name_in(module: str, key: str) -> str:
    """Return a parameter's name in the model; the model itself has an empty name."""
    return f"{module}.{key}" if module else key


@contextlib.contextmanager
def watched(layers: dict[str, nn.Linear]) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """Collect the input and output of each layer in the last forward pass.

    Clear the dict before each pass. A layer that is used twice in a pass, or on other inputs than
    rows of vectors, raises ``NotPlainError``.
    """
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if name in seen or output.ndim != 2:
                raise NotPlainError
            seen[name] = (inputs[0].detach(), output)

        return hook

    with contextlib.ExitStack() as stack:
        for name, layer in layers.items():
            # Prepend, so that it sees the layer's own output before other hooks change it.
            stack.enter_context(layer.register_forward_hook(keep(name), prepend=True))
        yield seen


def empty_sums(layers: dict[str, nn.Linear]) -> dict[str, Tensor]:
    """Return zeros for each parameter of the layers, by parameter name."""
    return {
        name_in(layer, key): torch.zeros_like(p)
        for layer, module in layers.items()
        for key, p in module.named_parameters()
    }


def _sum_in_linear_layers(
    learner: Learner,
    layers: dict[str, nn.Linear],
    batches: Iterator[Batch],
    score: Score,
    variants: Variants,
    measure: Measure,
    floors: dict[str, float],
    portion: int,
) -> dict[str, Tensor]:
    total = empty_sums(layers)
    with watched(layers) as seen:
        for batch in batches:
            seen.clear()
            outputs, _ = learner.run_model(batch.x, batch.task)
            if len(seen) != len(layers):
                raise NotPlainError
            back: dict[str, Tensor] = {}
            for labels, weights in variants(_detached(outputs), batch):
                value = score(outputs, Batch(batch.x, labels, batch.task))
                deltas = torch.autograd.grad(
                    value, [output for _, output in seen.values()], retain_graph=True
                )
                for name, delta in zip(seen, deltas, strict=True):
                    term = measure(delta)
                    term = term if weights is None else term * weights[:, None]
                    back[name] = back[name] + term if name in back else term
            for name, term in back.items():
                weight, bias = name_in(name, "weight"), name_in(name, "bias")
                inputs = measure(seen[name][0])
                if weight in floors:
                    for rows in zip(term.split(portion), inputs.split(portion), strict=True):
                        of_samples = torch.einsum("no,ni->noi", *rows)
                        total[weight].add_(of_samples.clamp_(min=floors[weight]).sum(0))
                else:
                    total[weight].addmm_(term.T, inputs)
                if bias in total:
                    term = term.clamp(min=floors[bias]) if bias in floors else term
                    total[bias].add_(term.sum(0))
    return total


def _detached(outputs: Any) -> Any:
    return outputs.detach() if isinstance(outputs, Tensor) else outputs


# ------------------------------------------------------------ any model


class _Scored(nn.Module):
    """Model and score in one module, because a score may use parameters of the model.

    Args:
        learner: The learner with the model.
        score: Score of its outputs.
    """

    def __init__(self, learner: Learner, score: Score) -> None:
        super().__init__()
        self.learner, self.score = learner, score

    def forward(self, batch: Batch) -> Tensor:
        """Return the score of a batch."""
        return self.score(self.learner(batch.x, batch.task), batch)


def _sum_by_vmap(
    learner: Learner,
    parameters: dict[str, nn.Parameter],
    batches: Iterator[Batch],
    score: Score,
    variants: Variants,
    measure: Measure,
    floors: dict[str, float],
) -> dict[str, Tensor]:
    plain = {f"learner.model.{name}": p.detach() for name, p in parameters.items()}
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    scored = _Scored(learner, score)

    def of_one(theta: dict[str, Tensor], x: Any, label: Tensor, task: Tensor) -> Tensor:
        sample = Batch(map_inputs(lambda t: t[None], x), label[None], task[None])
        value: Tensor = functional_call(scored, theta, (sample,))
        return value

    # A loss may draw noise (model.head=flow), different for each sample.
    of_all = vmap(grad(of_one), in_dims=(None, 0, 0, 0), randomness="different")
    for batch in batches:
        with torch.no_grad():
            outputs, _ = learner.run_model(batch.x, batch.task)
        of_samples: dict[str, Tensor] = {}
        for labels, weights in variants(outputs, batch):
            try:
                with warnings.catch_warnings():
                    # vmap runs layers without a batching rule in a loop, which is correct.
                    warnings.filterwarnings("ignore", "There is a performance drop")
                    gradients = of_all(plain, batch.x, labels, batch.task)
            except RuntimeError:
                gradients = _one_by_one(of_one, plain, batch, labels)
            for name, value in total.items():
                measured = measure(gradients[f"learner.model.{name}"])
                if name in floors:
                    if weights is not None:
                        measured = measured * weights.view(-1, *[1] * (measured.ndim - 1))
                    so_far = of_samples.get(name)
                    of_samples[name] = measured if so_far is None else so_far.add_(measured)
                elif weights is None:
                    value.add_(measured.sum(0))
                else:
                    value.add_(torch.tensordot(weights, measured, 1))
        for name, summed in of_samples.items():
            total[name].add_(summed.clamp(min=floors[name]).sum(0))
    return total


def _one_by_one(
    of_one: Callable[..., Tensor], plain: dict[str, Tensor], batch: Batch, labels: Tensor
) -> dict[str, Tensor]:
    """Return the same gradients without ``vmap``."""
    theta = {name: value.clone().requires_grad_() for name, value in plain.items()}
    rows = []
    for i in range(len(batch)):
        x = map_inputs(lambda t, i=i: t[i], batch.x)  # type: ignore[misc]
        value = of_one(theta, x, labels[i], batch.task[i])
        rows.append(torch.autograd.grad(value, list(theta.values()), materialize_grads=True))
    stacked = [torch.stack(column) for column in zip(*rows, strict=True)]
    return dict(zip(theta, stacked, strict=True))
