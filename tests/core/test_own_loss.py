"""A classifier with a loss of its own: only the outputs that compete take part in it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import clframe
from clframe import Batch, Experience, Learner, Stream, Task, TensorData
from clframe.core.engine import Engine
from clframe.core.stream import Scenario
from clframe.testing import toy_stream

SMOOTHING = 0.2


class Smooth(Learner):
    """Label smoothing, as a user would write it."""

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        return functional.cross_entropy(outputs, batch.y, label_smoothing=SMOOTHING)


class Plain(Learner):
    """The cross-entropy, but as a loss of its own."""

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        return functional.cross_entropy(outputs, batch.y)


class Numbers(Learner):
    """No classifier: outputs are numbers."""

    def run_model(self, x: Any, task: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.model(x), None


class HandMade(Numbers):
    """A classifier all the same."""

    classifies = True


def uneven() -> Stream:
    """Tasks with two, three and two classes."""
    sizes, start, tasks, experiences = (2, 3, 2), 0, [], []
    generator = torch.Generator().manual_seed(1)
    for index, size in enumerate(sizes):
        units = tuple(range(start, start + size))
        start += size
        y = torch.tensor(units).repeat(20)
        x = torch.randn(len(y), 8, generator=generator)
        data = TensorData(x, y, index, transform=lambda x, task: x)
        tasks.append(Task(index, f"task{index}", units, lambda data=data: data))  # type: ignore[misc]
        experiences.append(
            Experience(index, f"exp{index}", (tasks[-1],), lambda data=data: data)  # type: ignore[misc]
        )
    return Stream("uneven", "task", experiences, tasks, (8,), sum(sizes))


def made(stream: Stream, kind: type[Learner]) -> Learner:
    from clframe.core.trainer import TrainerSettings
    from clframe.training.engine import Engine as RealEngine

    torch.manual_seed(0)
    engine: Engine = RealEngine(TrainerSettings(accelerator="cpu"))
    return kind(torch.nn.Linear(8, stream.n_outputs), stream, [], engine)


def by_hand(row: np.ndarray, label: int, units: tuple[int, ...]) -> float:
    """Smoothed cross-entropy among some outputs, in double precision."""
    scores = row[list(units)].astype(np.float64)
    logs = scores - np.log(np.exp(scores - scores.max()).sum()) - scores.max()
    targets = np.full(len(units), SMOOTHING / len(units))
    targets[units.index(label)] += 1 - SMOOTHING
    return float(-(targets * logs).sum())


@pytest.mark.parametrize("stream", [toy_stream("class"), toy_stream("task"), uneven()])
def test_smoothing_is_over_the_outputs_that_compete(stream: Stream) -> None:
    learner = made(stream, Smooth)
    learner.begin(stream.experiences[0])
    learner.begin(stream.experiences[1])
    parts = [next(iter(e.data.batches(torch.arange(0, 40, 3), 99))) for e in stream.experiences[:2]]
    batch = Batch(*(torch.cat([getattr(p, name) for p in parts]) for name in ("x", "y", "task")))
    outputs, _ = learner.run_model(batch.x, batch.task)
    seen = tuple(unit for e in stream.experiences[:2] for unit in e.outputs)
    raw = learner.model(batch.x).detach().numpy()
    expected = [
        by_hand(row, int(y), stream.tasks[int(t)].outputs if stream.scenario == "task" else seen)
        for row, y, t in zip(raw, batch.y, batch.task, strict=True)
    ]
    loss = learner.part_loss(outputs, batch)
    assert loss.item() == pytest.approx(np.mean(expected), rel=1e-5)
    loss.backward()
    weight = learner.model.weight.grad
    assert isinstance(weight, Tensor)
    closed = sorted(set(range(stream.n_outputs)) - set(seen))
    assert bool(weight.isfinite().all())
    assert closed
    assert not bool(weight[closed].any())


STRATEGIES = ("naive", "lwf", ["ewc", "replay"], "derpp")
CASES = [(scenario, name) for scenario in ("class", "task", "domain") for name in STRATEGIES]


@pytest.mark.parametrize(
    ("scenario", "strategy"), [*CASES, ("class", "er_ace"), ("class", "icarl")]
)
def test_strategies_work_with_label_smoothing(scenario: Scenario, strategy: Any) -> None:
    stream = dataclasses.replace(toy_stream(scenario), learner=Smooth)
    result = clframe.fit(stream, strategy, max_epochs=2, run_dir=False, progress=False)
    assert result.metrics["gem"]["acc"] > 1 / 6


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_a_cross_entropy_of_ones_own_learns_what_the_built_in_one_does(scenario: Scenario) -> None:
    settings: dict[str, Any] = {"max_epochs": 2, "run_dir": False, "progress": False}
    stream = toy_stream(scenario)
    built_in = clframe.fit(stream, "naive", **settings)
    own = clframe.fit(dataclasses.replace(stream, learner=Plain), "naive", **settings)
    assert np.array_equal(own.matrix.values, built_in.matrix.values)


def test_a_learner_says_whether_it_classifies() -> None:
    assert Smooth.classifies
    assert HandMade.classifies
    assert not Numbers.classifies
    settings: dict[str, Any] = {"max_steps": 1, "run_dir": False, "progress": False}
    stream = dataclasses.replace(toy_stream("domain"), learner=Numbers)
    with pytest.raises(clframe.PluginError, match="set classifies = True in that class"):
        clframe.fit(stream, "lwf", **settings)
    clframe.fit(dataclasses.replace(stream, learner=HandMade), "lwf", **settings)
