"""The contracts of streams, models and metrics."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clframe.core.hook_results import ANSWERS, describe
from clframe.core.protocols import split_model
from clframe.core.stream import Experience, Stream, Task
from clframe.testing.result import require
from clframe.testing.toy import toy_run, toy_stream
from clframe.utils import setting_checks

SHAPES = ((8,), (1, 28, 28), (3, 32, 32), (3, 64, 64))
"""Input shapes that a model is tried with, until it accepts one."""
OUTPUTS = 6


def check_stream(stream: Stream) -> None:
    """Check that a stream follows the contract.

    Every experience and task must provide data whose inputs have the promised shape, whose labels
    are outputs of its task, and which is the same when read again.

    >>> check_stream(toy_stream())
    """
    kinds: tuple[tuple[str, Sequence[Experience | Task]], ...] = (
        ("experience", stream.experiences),
        ("task", stream.tasks),
    )
    for kind, items in kinds:
        for item in items:
            if isinstance(item, Task) and item.load is None:
                continue
            data = item.data
            where = f"{kind} '{item.name}' of stream '{stream.name}'"
            assert len(data) > 0, f"{where} has no samples"
            outputs = set(item.outputs)
            if data.labels.is_floating_point():
                assert data.labels.shape[-1] == len(outputs), (
                    f"{where} has actions of {list(data.labels.shape[1:])} numbers for "
                    f"{len(outputs)} outputs"
                )
            else:
                assert set(data.labels.tolist()) <= outputs, (
                    f"{where} has labels that are not among its outputs {sorted(outputs)}"
                )
            indices = {task.index for task in stream.tasks}
            assert set(data.tasks.tolist()) <= indices, f"{where} names unknown tasks"
            first = next(iter(data.batches(torch.arange(min(4, len(data))), 4)))
            again = next(iter(item.data.batches(torch.arange(min(4, len(data))), 4)))
            if isinstance(first.x, torch.Tensor):
                shape = tuple(first.x.shape[1:])
                assert shape == stream.input_shape, (
                    f"{where} gives inputs of shape {shape}, the stream says {stream.input_shape}"
                )
                assert torch.equal(first.x, again.x), f"{where} gives other inputs the second time"
    units = {unit for task in stream.tasks for unit in task.outputs}
    assert max(units) < stream.n_outputs, (
        f"stream '{stream.name}' has labels up to {max(units)} but only {stream.n_outputs} outputs"
    )


def check_model(
    factory: Callable[..., nn.Module], input_shape: tuple[int, ...] | None = None
) -> None:
    """Check that a model follows the contract.

    In evaluation mode it must return a finite logit for every output and sample, independent of the
    other samples in the batch. Every trainable parameter must get a gradient. The same seed must
    give the same weights, and saved weights the same outputs.

    >>> from clframe.models.mlp import mlp
    >>> check_model(mlp)

    Args:
        factory: Makes the model, as it is registered: it gets ``input_shape``, ``n_outputs`` and
            ``stream`` if it has these arguments, and has defaults for its other arguments.
        input_shape: Shape of one sample; None tries a few.

    Raises:
        AssertionError: Names the problem.
    """
    name = getattr(factory, "__name__", str(factory))
    shapes = SHAPES if input_shape is None else (input_shape,)
    reasons = []
    for shape in shapes:
        try:
            model, x = _made(factory, shape), _inputs(shape)
            with torch.no_grad():
                model.eval()(x)
            break
        except Exception as error:
            reasons.append(f"{list(shape)}: {error}")
    else:
        raise AssertionError(
            f"model '{name}' accepts inputs of none of these shapes ({'; '.join(reasons)}): "
            "set input_shape="
        )
    _check_outputs(model, x, name)
    _check_gradients(model, x, name)
    again = _made(factory, shape)
    same = all(
        torch.equal(value, again.state_dict()[key])
        for key, value in _made(factory, shape).state_dict().items()
    )
    require(same, f"model '{name}' has other weights the second time: draw from torch's generator")
    again.load_state_dict(copy.deepcopy(model.state_dict()))
    with torch.no_grad():
        equal = torch.equal(again.eval()(x), model.eval()(x))
    require(
        equal,
        f"model '{name}' gives other outputs with the same saved weights: store values that change "
        "as parameters or buffers",
    )


def _made(factory: Callable[..., nn.Module], shape: tuple[int, ...]) -> nn.Module:
    arguments = {
        "input_shape": shape,
        "n_outputs": OUTPUTS,
        "stream": toy_stream(n_experiences=OUTPUTS // 2),
        "data_dir": None,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return factory(**{k: v for k, v in arguments.items() if setting_checks.accepts(factory, k)})


def _inputs(shape: tuple[int, ...]) -> Tensor:
    return torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))


def _check_outputs(model: nn.Module, x: Tensor, name: str) -> None:
    with torch.no_grad():
        outputs = model.eval()(x)
        require(
            isinstance(outputs, Tensor) and tuple(outputs.shape) == (len(x), OUTPUTS),
            f"model '{name}' gives {describe(outputs)} for {len(x)} samples and {OUTPUTS} outputs: "
            f"return a tensor of shape [{len(x)}, {OUTPUTS}]",
        )
        require(bool(torch.isfinite(outputs).all()), f"model '{name}' gives outputs not finite")
        alone = model(x[:1])
        require(
            torch.allclose(alone, outputs[:1], rtol=1e-3, atol=1e-4),
            f"model '{name}' mixes samples of a batch when it is not training: "
            "normalize with statistics from training, as batch normalization does",
        )
        split = split_model(model)
        if split is not None:
            require(
                torch.allclose(split.head(split.features(x)), outputs, rtol=1e-3, atol=1e-4),
                f"model '{name}' has features and head, but head(features(x)) is not its output, "
                "so plugins would act on another network: use both in forward",
            )


def _check_gradients(model: nn.Module, x: Tensor, name: str) -> None:
    model.train()(x).square().sum().backward()
    for key, parameter in model.named_parameters():
        require(
            not parameter.requires_grad or parameter.grad is not None,
            f"model '{name}': no gradient reaches '{key}': use it in forward, or set its "
            "requires_grad to False",
        )
        require(
            parameter.grad is None or bool(torch.isfinite(parameter.grad).all()),
            f"model '{name}': the gradient of '{key}' is not finite",
        )


def check_metric(function: Callable[..., Any]) -> None:
    """Check that a metric follows the contract.

    For the results of runs with one and with three experiences, it must return numbers by name (or
    None if it is undefined), and the same numbers each time.

    >>> check_metric(lambda result: {"last": float(result.matrix.values[-1, -1])})

    Args:
        function: The function as it is registered; it gets a :class:`clframe.Result`.

    Raises:
        AssertionError: Names the problem.
    """
    name = getattr(function, "__name__", None) or getattr(function, "name", "?")
    for experiences in (1, 3):
        result, _ = toy_run([], toy_stream(n_experiences=experiences, samples=16), max_epochs=1)
        answer = function(result)
        where = f"metric '{name}' of a run with {experiences} experience{'s' * (experiences > 1)}"
        require(
            answer is None
            or (isinstance(answer, Mapping) and ANSWERS["metrics"].fits({name: answer})),
            f"{where} gives {describe(answer)}: return a dict from name to number, a list of "
            "numbers or None",
        )
        for key, value in (answer or {}).items():
            numbers = value if isinstance(value, list | tuple) else [value]
            require(
                all(np.isfinite(n) for n in numbers if isinstance(n, int | float)),
                f"{where} gives {value!r} for '{key}': return None where it is undefined",
            )
        require(function(result) == answer, f"{where} gives another answer the second time")
