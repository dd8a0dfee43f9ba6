from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from clframe_contrib.pnn import PNN  # type: ignore[import-not-found]
from torch import Tensor, nn

from clframe import Learner, Plugin, PluginError, Step, hookimpl
from clframe.core.stream import Experience
from clframe.plugins import FeedbackReplay
from clframe.run import run
from clframe.testing import (
    check_plugin,
    interrupted_run,
    prepare,
    prepare_toy,
    run_built,
    toy_run,
    toy_stream,
)
from tests.helpers.toy_images import toy_images


@pytest.mark.parametrize("adapter", ["mlp", "linear"])
def test_it_keeps_the_contract(adapter: Any) -> None:
    check_plugin(PNN(adapter), toy_stream("task"))


def learned(adapter: Any = "mlp", model: Any = None, **how: Any) -> Learner:
    built = prepare(
        toy_stream("task"),
        [PNN(adapter)],
        model or {"name": "mlp", "hidden": [7, 5]},
        optimizer={"name": "adam", "lr": 0.01},
        trainer={"max_epochs": 2, "batch_size": 16, **how},
    )
    run_built(built)
    return built.learner


@pytest.mark.parametrize("adapter", ["mlp", "linear"])
def test_the_third_column_by_hand(adapter: Any) -> None:
    learner = learned(adapter)
    p = {n: v.detach().double() for n, v in learner.model.named_parameters()}
    task = learner.stream.tasks[2]
    x = task.data.gather(torch.arange(20))
    h: list[list[Tensor]] = []
    for k in range(3):
        own = f"features.columns.{k}."
        first = torch.relu(x.double() @ p[own + "layers.0.weight"].T + p[own + "layers.0.bias"])
        sums = first @ p[own + "layers.1.weight"].T + p[own + "layers.1.bias"]
        u = p.get(own + "lateral.0.weight")
        if k and adapter == "linear":
            assert u is not None
            for j in range(k):
                sums = sums + h[j][0] @ u[:, 7 * j : 7 * j + 7].T
        elif k:
            assert u is not None
            scaled = [p[own + "scales.0"][j] * h[j][0] for j in range(k)]
            v, b = p[own + "project.0.weight"], p[own + "project.0.bias"]
            sums = sums + torch.relu(torch.cat(scaled, 1) @ v.T + b) @ u.T
        h.append([first, torch.relu(sums)])
    expected = p["head.bias"][[4, 5]]
    for k in range(3):
        expected = expected + h[k][1] @ p["head.weight"][[4, 5], 5 * k : 5 * k + 5].T
    learner.eval()
    with torch.no_grad():
        got = learner.predict(x, task)[:, [4, 5]]
        early = learner.predict(x, learner.stream.tasks[0])[:, [0, 1]]
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-5)
    # The first task is answered by the first column alone.
    alone = h[0][1] @ p["head.weight"][[0, 1], :5].T + p["head.bias"][[0, 1]]
    torch.testing.assert_close(early.double(), alone, rtol=1e-4, atol=1e-5)


class Keep(Plugin):
    """The first column, its rows of the head, and what they give, after each experience."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Tensor]] = []
        self.logits: list[Tensor] = []

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner) -> None:
        state = learner.model.state_dict()
        column = {n: v.clone() for n, v in state.items() if n.startswith("features.columns.0.")}
        rows = list(learner.stream.tasks[0].outputs)
        column["head"] = state["head.weight"][rows].clone()
        column["bias"] = state["head.bias"][rows].clone()
        self.kept.append(column)
        task = learner.stream.tasks[0]
        learner.eval()
        with torch.no_grad():
            data = task.data
            x = data.transform(data.gather(torch.arange(30)), data.tasks[:30])
            self.logits.append(learner.predict(x, task)[:, rows])
        learner.train()


@pytest.mark.parametrize(
    "model",
    [
        {"name": "mlp", "hidden": [30], "dropout": 0.2},
        {"name": "cnn", "channels": [4], "features": 16},
    ],
)
def test_past_columns_stay_bit_for_bit(model: dict[str, Any]) -> None:
    watch = Keep()
    built = prepare(
        toy_images("task"),
        [PNN(), watch],
        model,
        optimizer={"name": "adam", "lr": 0.01, "weight_decay": 0.01},
        trainer={"max_epochs": 4, "batch_size": 16},
    )
    values = run_built(built).matrix.values
    for later in watch.kept[1:]:
        assert all(torch.equal(value, later[name]) for name, value in watch.kept[0].items())
    assert all(torch.equal(watch.logits[0], later) for later in watch.logits[1:])
    for k in range(3):
        assert values[-1][k] == values[k + 1][k] > 0.9


def test_only_the_newest_column_is_trained() -> None:
    seen: list[list[int]] = []

    class Look(Plugin):
        @hookimpl(trylast=True)
        def after_backward(self, learner: Learner) -> None:
            columns: Any = learner.model.features.columns  # type: ignore[union-attr]
            trained = [p.grad is not None for column in columns for p in column.parameters()]
            number = [n for n, column in enumerate(columns) for _ in column.parameters()]
            seen.append(sorted({n for n, yes in zip(number, trained, strict=True) if yes}))

    toy_run([PNN(), Look()], toy_stream("task"), max_epochs=1)
    assert seen == [[0]] * 5 + [[1]] * 5 + [[2]] * 5


@pytest.mark.parametrize("first", [0, 1], ids=["pnn first", "feedback first"])
def test_feedback_replay_trains_its_decoder_beside_columns_that_stay(first: int) -> None:
    def plugins() -> list[Plugin]:
        both: list[Plugin] = [PNN(), FeedbackReplay(hidden=(8,), latent=4)]
        return both if first == 0 else both[::-1]

    watch = Keep()
    losses: list[float] = []

    class Look(Plugin):
        @hookimpl
        def after_step(self, learner: Learner, step: Step) -> None:
            feedback: Any = learner.feedback
            assert all(p.grad is not None for p in feedback.parameters())
            if len(step.parts) > 1:  # the replayed part, with the targets of past tasks
                assert set(step.parts[1].task.tolist()) <= set(range(len(learner.seen)))
            losses.append(float(step.loss.detach()))  # type: ignore[union-attr]

    result, _ = toy_run([*plugins(), watch, Look()], toy_stream("task"), max_epochs=5)
    assert all(torch.equal(watch.logits[0], later) for later in watch.logits[1:])
    for later in watch.kept[1:]:
        assert all(torch.equal(value, later[name]) for name, value in watch.kept[0].items())
    values = result.matrix.values
    for k in range(3):
        assert values[-1][k] == values[k + 1][k] > 0.9
    assert torch.isfinite(torch.tensor(losses)).all()
    parts = interrupted_run(plugins(), toy_stream("task"), max_epochs=2)
    whole, _ = toy_run(plugins(), toy_stream("task"), max_epochs=2)
    assert (parts.matrix.values == whole.matrix.values).all()


def test_tasks_with_shared_outputs_do_not_disturb_each_other() -> None:
    plain = toy_stream("domain")
    watch = Keep()
    stream = dataclasses.replace(plain, scenario="task")
    built = prepare_toy([PNN(), watch], stream, max_epochs=5)
    values = run(built.learner, built.stream, "toy").matrix.values
    assert all(torch.equal(watch.logits[0], later) for later in watch.logits[1:])
    for k in range(3):
        assert values[-1][k] == values[k + 1][k] > 0.9


def test_a_task_that_comes_back_finds_its_column() -> None:
    plain = toy_stream("task")
    first = plain.experiences[0]
    back = Experience(3, "back", first.tasks, lambda: first.data)
    stream = dataclasses.replace(plain, experiences=[*plain.experiences, back])
    result, learner = toy_run([PNN()], stream)
    assert len(learner.model.features.columns) == 3  # type: ignore[union-attr,arg-type]
    assert (result.matrix.values[-1] == result.matrix.values[-2]).all()


def test_another_network_is_refused() -> None:
    built = prepare_toy([PNN()], toy_stream("task"))
    built.learner.model = nn.Linear(8, 6)
    with pytest.raises(PluginError, match="'pnn' connects hidden layers of several networks, so"):
        run(built.learner, built.stream, "toy")
