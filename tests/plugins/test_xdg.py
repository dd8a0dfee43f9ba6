from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import clframe
from clframe import PluginError, SettingError
from clframe.plugins.generative_replay import GenerativeReplay
from clframe.plugins.xdg import XdG
from clframe.testing import check_plugin, prepare_toy, toy_run, toy_stream


def gated(plugin: XdG, **trainer: Any) -> Any:
    prepared = prepare_toy([plugin], toy_stream("task"), **trainer)
    prepared.learner.plugins.hook.configure(learner=prepared.learner, stream=prepared.stream)
    return prepared.learner.eval()


def test_it_keeps_the_contract() -> None:
    check_plugin(XdG(gating=0.5))


def test_the_asked_share_is_gated_and_differs_between_tasks() -> None:
    plugin = XdG(gating=0.75)
    gated(plugin)
    gates = plugin.gates["features.2", 16]
    assert gates.sum(1).tolist() == [4, 4, 4, 16]  # the last row is for samples of no task
    assert not torch.equal(gates[0], gates[1])


def test_gates_depend_on_the_seed_and_on_nothing_else() -> None:
    one, same, other = XdG(0.5), XdG(0.5), XdG(0.5, gate_seed=1)
    for plugin in (one, same, other):
        torch.rand(3)
        gated(plugin)
    key = ("features.2", 16)
    assert torch.equal(one.gates[key], same.gates[key])
    assert not torch.equal(one.gates[key], other.gates[key])


def test_each_sample_is_gated_by_its_own_task() -> None:
    plugin = XdG(gating=0.5)
    learner = gated(plugin)
    x, tasks = torch.randn(6, 8), torch.tensor([0, 1, 2, 0, -1, 1])
    _, features = learner.run_model(x, tasks)
    linear = learner.model.features[1]
    hidden = torch.relu(x @ linear.weight.T + linear.bias)
    for i, task in enumerate(tasks.tolist()):
        torch.testing.assert_close(features[i], hidden[i] * plugin.gates["features.2", 16][task])


def test_channels_of_convolutions_are_gated() -> None:
    from clframe.models.cnn import cnn

    plugin, model = XdG(gating=0.5), cnn((1, 4, 4), 6, channels=(8,), features=4)
    prepared = prepare_toy([], toy_stream("task"))
    learner = prepared.learner
    learner.model = model
    stream = toy_stream("task")
    object.__setattr__(stream, "input_shape", (1, 4, 4))
    plugin.configure(learner, stream)
    learner.current_task = torch.tensor([1, 2])
    out = model.features[:2](torch.randn(2, 1, 4, 4))  # type: ignore[index]
    gates = plugin.gates["features.1", 8]
    assert gates[1].sum() == 4
    assert (out[0, gates[1] == 0] == 0).all()
    assert (out[1, gates[2] == 0] == 0).all()
    assert (out[0, gates[1] == 1] != 0).any()


def test_weights_behind_gated_units_do_not_learn() -> None:
    plugin = XdG(gating=0.5)
    stream = toy_stream("task", 1)
    prepared = prepare_toy([plugin], stream)
    start = prepared.learner.model.features[1].weight.detach().clone()  # type: ignore[index, union-attr]
    clframe.run.run(prepared.learner, stream, "toy")
    moved = (prepared.learner.model.features[1].weight != start).any(1)  # type: ignore[index, union-attr]
    gated = plugin.gates["features.2", 16][0] == 0
    assert not moved[gated].any()
    assert moved[~gated].any()


def test_replay_asks_the_previous_model_under_the_same_gates() -> None:
    result, _ = toy_run([XdG(0.5), GenerativeReplay(hidden=(16,), latent=4)], toy_stream("task"))
    assert result.matrix.values[-1].mean() > 0.7


def test_less_is_forgotten() -> None:
    def final(strategy: Any) -> float:
        result = clframe.fit(
            clframe.stream("split_mnist", scenario="task"),
            strategy,
            {"name": "mlp", "hidden": [200, 200]},
            optimizer={"name": "sgd", "lr": 0.3},
            max_steps=40,
            run_dir=False,
            progress=False,
            logger=None,
        )
        return float(result.matrix.values[-1].mean())

    assert final({"xdg": {"gating": 0.8}}) > final("naive")


def test_mistakes_are_refused() -> None:
    with pytest.raises(SettingError, match=r"xdg\.gating must be at least 0 and below 1, got 1"):
        XdG(gating=1.0)
    with pytest.raises(PluginError, match="found no activation module to gate in Sequential"):
        clframe.fit(
            toy_stream("task"), XdG(), nn.Sequential(nn.Linear(8, 6)), run_dir=False, logger=None
        )
