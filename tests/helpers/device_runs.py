"""The same small lifetime on the CPU and on the virtual card, compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from clframe.build import Built
from clframe.checkpoint.settings import CheckpointSettings
from clframe.core.learner import Learner
from clframe.core.results import Result
from clframe.core.stream import Experience, Stream, Task
from clframe.data.dataset import TensorData
from clframe.run import run
from clframe.runs.folder import RunFolder
from clframe.testing import Kill, Killed, prepare
from tests.helpers.card import on_card
from tests.helpers.virtual_device import virtual_card

Prepare = Callable[[str], Built]
"""Makes a run, always the same, on an accelerator."""


@dataclasses.dataclass
class End:
    """How a lifetime ended."""

    matrix: Any
    state: dict[str, Tensor]
    astray: list[str]
    """What the learner and its plugins keep elsewhere than on the device."""
    waits: dict[str, float]
    """Waits for the card in each step, by place."""


def on_cpu(prepare: Prepare) -> End:
    """Run on the host."""
    built = prepare("cpu")
    result = run(built.learner, built.stream, built.strategy)
    return _end(result, built.learner, {})


def on_virtual_card(prepare: Prepare) -> End:
    """Run on the card in one go; draws are the host's, so that the numbers are the CPU's."""
    with virtual_card(own_generator=False) as card:
        built = prepare("cuda")
        result = run(built.learner, built.stream, built.strategy)
        return _end(result, built.learner, card.per_step())


def killed_on_card(prepare: Prepare, folder: Path, steps: int, own_generator: bool = False) -> End:
    """Run on the card, be killed after so many steps, and resume in a new process's stead."""
    with virtual_card(own_generator) as card:
        for attempt in range(2):
            card.generator.manual_seed(attempt)  # another process would not have its state
            built = prepare("cuda")
            kept = RunFolder(folder)
            kept.saving = CheckpointSettings(every_n_steps=steps - 1)
            learner = built.learner
            if attempt == 0:
                learner.plugins.manager.register(Kill(steps))
                learner.plugins._implemented.add("after_step")
            try:
                result = run(learner, built.stream, built.strategy, kept)
            except Killed:
                continue
            assert attempt == 1, f"the run was over before step {steps}"
            return _end(result, learner, card.per_step())
    raise AssertionError("killed twice")


def _end(result: Result, learner: Learner, waits: dict[str, float]) -> End:
    state = {name: value.detach().cpu() for name, value in learner.state_dict().items()}
    kept = pytree.tree_flatten_with_path(
        [dict(learner.state_dict()), learner.plugins.state_dict()]
    )[0]
    cuda = learner.engine.device.type == "cuda"
    astray = [
        pytree.keystr(path)
        for path, leaf in kept
        if cuda and isinstance(leaf, Tensor) and leaf.dim() > 0 and not on_card(leaf)
    ]
    return End(result.matrix.values, state, astray, waits)


def assert_same(card: End, cpu: End) -> None:
    """The same matrix and the same bits in every parameter."""
    assert (card.matrix == cpu.matrix).all(), f"{card.matrix} on the card, {cpu.matrix} on the CPU"
    assert card.state.keys() == cpu.state.keys()
    for name, value in cpu.state.items():
        assert torch.equal(card.state[name], value), f"'{name}' is another on the card"


def maker(
    stream: Any, model: Any, strategy: Any, learner: Any = "default", **settings: Any
) -> Prepare:
    """Prepares a short run on an accelerator."""

    def make(accelerator: str) -> Built:
        return prepare(
            stream,
            strategy,
            model,
            optimizer={"name": "adam", "lr": 0.01},
            **{
                "max_epochs": 1,
                "batch_size": 8,
                "limit_train_batches": 3,
                "accelerator": accelerator,
                **settings,
            },
        )

    return make


def same_on_both(make: Prepare, allowed: Sequence[str] = ()) -> None:
    """A run has the same bits on the card, all it keeps is there, and steps do not wait."""
    card = on_virtual_card(make)
    assert_same(card, on_cpu(make))
    assert not card.astray
    assert not set(card.waits) - set(allowed)


def small_images(n_experiences: int = 2, side: int = 16, samples: int = 12) -> Stream:
    """Two classes of some random images (3 channels, uint8) in each experience."""
    generator = torch.Generator().manual_seed(5)

    def images(number: int) -> TensorData:
        y = torch.arange(2 * number, 2 * number + 2).repeat(samples)
        x = torch.randint(256, (2 * samples, 3, side, side), generator=generator, dtype=torch.uint8)
        return TensorData(x, y, number)

    parts = [images(number) for number in range(n_experiences)]
    tasks = [
        Task(i, f"task{i}", (2 * i, 2 * i + 1), lambda i=i: parts[i])  # type: ignore[misc]
        for i in range(n_experiences)
    ]
    experiences = [
        Experience(i, f"exp{i}", (tasks[i],), lambda i=i: parts[i])  # type: ignore[misc]
        for i in range(n_experiences)
    ]
    return Stream("images", "class", experiences, tasks, (3, side, side), 2 * n_experiences)
