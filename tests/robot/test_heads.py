"""Policies with a head for each task, and the Fisher information of Gaussian policies."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import clframe
from clframe.core.learner import Learner
from clframe.core.plugin import Plugin
from clframe.data.dataset import Data
from clframe.errors import PluginError, SettingError
from clframe.hookspecs import hookimpl
from clframe.models.heads import TaskHeads
from clframe.models.policy import policy
from clframe.plugins._fisher import fisher
from clframe.plugins.packnet import PackNet
from clframe.testing import prepare, toy_stream

pytest.importorskip("h5py", reason="demonstrations are HDF5 files")

STREAM = {"name": "point_robot", "n_tasks": 3, "num_demos": 2, "eval_episodes": 2}
HEADED = {"name": "policy", "hidden": [6, 5], "heads": "task"}


def prepared(model: dict[str, Any], **stream: Any) -> tuple[Any, Data]:
    """A learner that is ready to learn, and its second task's data."""
    made = prepare({**STREAM, **stream}, "naive", {**HEADED, **model})
    made.learner.engine.bind(made.learner)
    return made.learner, made.learner.stream.experiences[1].data


def learn(strategy: Any, model: dict[str, Any], **settings: Any) -> Any:
    return clframe.fit(
        {"name": "point_robot", "n_tasks": 3, "num_demos": 40, "eval_episodes": 10},
        strategy,
        {"name": "policy", "hidden": [64, 64], **model},
        run_dir=False,
        progress=False,
        logger=None,
        optimizer={"name": "adam", "lr": 3e-3},
        **{"max_epochs": 20, **settings},
    )


# ------------------------------------------------------------ the network


def test_without_settings_the_network_is_the_one_it_was() -> None:
    torch.manual_seed(3)
    made = policy((7,), 2, hidden=[5, 4])
    torch.manual_seed(3)
    layers = nn.Sequential(
        nn.Flatten(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)
    )
    x = torch.randn(9, 7)
    assert torch.equal(made(x), layers(x))
    assert list(made.state_dict())[-2:] == ["head.weight", "head.bias"]


@pytest.mark.parametrize("task_input", ["one_hot", "language", "none"])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_index_chooses_the_head_whatever_tells_the_task(
    task_input: str, layer_norm: bool
) -> None:
    """Against the layers written out in NumPy, with only the task's own rows of the last one."""
    model = {"activation": "leaky_relu", "layer_norm": layer_norm}
    learner, _ = prepared(model, task_input=task_input)
    weights = {name: p.detach().double().numpy() for name, p in learner.model.named_parameters()}
    values = list(weights.values())
    for index, experience in enumerate(learner.stream.experiences):
        (batch,) = experience.data.batches(torch.arange(4), 4)
        x = batch.x.double().numpy()
        assert x.shape[1] == learner.stream.input_shape[0]
        assert (x[:, -3:] == np.eye(3)[index]).all()
        hidden = x[:, :-3] @ values[0].T + values[1]
        if layer_norm:
            spread = np.sqrt(hidden.var(1, keepdims=True) + 1e-5)
            hidden = (hidden - hidden.mean(1, keepdims=True)) / spread
            hidden = np.tanh(hidden * values[2] + values[3])
        else:
            hidden = np.where(hidden > 0, hidden, 0.2 * hidden)
        hidden = hidden @ values[-4].T + values[-3]
        hidden = np.where(hidden > 0, hidden, 0.2 * hidden)
        rows = slice(2 * index, 2 * index + 2)
        expected = hidden @ values[-2][rows].T + values[-1][rows]
        outputs = learner(batch.x, batch.task)
        np.testing.assert_allclose(outputs.detach().numpy(), expected, atol=1e-5)
        gradient = torch.autograd.grad(outputs.square().sum(), learner.model.head.linear.weight)[0]
        others = [row for row in range(6) if row not in range(6)[rows]]
        assert (gradient[others] == 0).all()
        assert (gradient[rows] != 0).any()


def test_heads_need_tasks_to_choose_them() -> None:
    with pytest.raises(SettingError, match="needs a stream of robot tasks"):
        prepare(toy_stream("task"), "naive", HEADED)
    with pytest.raises(SettingError, match="which none is given"):
        policy((7,), 2, heads="task")
    with pytest.raises(SettingError, match="activation"):
        prepare(STREAM, "naive", {"name": "policy", "activation": "step"})


# ------------------------------------------------------------ methods


@pytest.mark.parametrize("strategy", ["replay", "si", "mas", "agem", "der", "xdg", "cumulative"])
def test_methods_act_on_heads_unchanged(strategy: str) -> None:
    settings = {"activation": "leaky_relu", "layer_norm": True}
    quiet = {"run_dir": False, "progress": False, "logger": None, "max_epochs": 1}
    for head in ("mse", "gmm"):
        result = clframe.fit(STREAM, strategy, {**HEADED, **settings, "head": head}, **quiet)
        assert np.isfinite(result.matrix.values).all()


class HeadsKept(Plugin):
    """Compares the heads with what they were when their tasks were learned."""

    name = "heads_kept"

    def __init__(self) -> None:
        self.first: Tensor | None = None
        self.kept: dict[int, Tensor] = {}

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        if self.first is None:
            self.first = learner.model.head.linear.weight.detach().clone()  # type: ignore[union-attr, operator]

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner) -> None:
        assert self.first is not None
        head: Any = learner.model.head
        assert isinstance(head, TaskHeads)
        seen = [experience.tasks[0].index for experience in learner.stream.experiences]
        done = len(self.kept)
        self.kept[done] = head.linear.weight[list(head.rows_of(done))].detach().clone()
        for task, kept in self.kept.items():
            assert torch.equal(head.linear.weight[list(head.rows_of(task))], kept)
        for task in seen[done + 1 :]:
            rows = list(head.rows_of(task))
            assert torch.equal(head.linear.weight[rows], self.first[rows])


@pytest.mark.parametrize("max_epochs", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_packnet_gives_each_task_its_own_head(max_epochs: int) -> None:
    packnet, check = PackNet(prune=0.6), HeadsKept()
    result = learn([packnet, check], {"heads": "task"}, max_epochs=max_epochs)
    assert sorted(check.kept) == [0, 1, 2]
    assert packnet.owners["(head)"].tolist() == [1, 1, 2, 2, 3, 3]
    own = np.diag(result.matrix.learned)
    assert (result.matrix.learned[-1] == own).all()
    if max_epochs == 20:
        assert own.mean() > 0.8


@pytest.mark.slow
def test_ewc_with_heads_forgets_less_than_plain_learning() -> None:
    model = {"heads": "task", "activation": "leaky_relu"}
    naive = learn("naive", model).matrix.learned
    held = learn({"ewc": {"weight": 100.0, "samples": 500}}, model).matrix.learned
    assert np.diag(held).mean() > 0.7
    assert held[-1].mean() > naive[-1].mean() + 0.2


# ------------------------------------------------------------ the Fisher information


def of_samples(learner: Any, data: Data, gaussian: bool) -> list[dict[str, Tensor]]:
    """Each sample's information: the squared score's mean over the policy's own actions.

    By quadrature with three nodes for each number of the action, which is exact for polynomials of
    the fifth degree; the square of a Gaussian's score is one of the fourth.
    """
    nodes, shares = np.polynomial.hermite_e.hermegauss(3)
    shares = shares / shares.sum()
    parameters = learner.named_trainable()
    found = []
    for batch in data.batches(torch.arange(len(data)), 1):
        outputs = learner(batch.x, batch.task)[0]
        if gaussian:
            mean = outputs[:2].tanh()
            deviation = nn.functional.softplus(outputs[2:4]) + 1e-4
        else:
            # The squared error's mean over two numbers is the likelihood of unit variance.
            mean, deviation = outputs, torch.ones(2)
        total = {name: torch.zeros_like(p) for name, p in parameters.items()}
        for first, second in itertools.product(range(3), repeat=2):
            step = torch.tensor([nodes[first], nodes[second]], dtype=torch.float32)
            action = (mean + deviation * step).detach()
            score = torch.distributions.Normal(mean, deviation).log_prob(action).sum()
            gradients = torch.autograd.grad(
                score,
                list(parameters.values()),
                retain_graph=True,
                materialize_grads=True,
                allow_unused=True,
            )
            for name, gradient in zip(parameters, gradients, strict=True):
                total[name] += float(shares[first] * shares[second]) * gradient.square()
        found.append(total)
    return found


@pytest.mark.parametrize("floor", [0.0, 1e-5, 0.03])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("head", ["mse", "gmm"])
def test_the_fisher_of_a_gaussian_policy_has_its_floor(
    head: str, layer_norm: bool, floor: float
) -> None:
    """Layer norm leads through other code than linear layers alone."""
    model = {"head": head, "modes": 1, "layer_norm": layer_norm, "activation": "tanh"}
    learner, data = prepared(model)
    data = data.subset(torch.arange(12))
    found = fisher(learner, data, "exact", batch_size=5, floor=floor, memory=1)
    separate = of_samples(learner, data, head == "gmm")
    below = 0
    for name, value in found.items():
        least = 0.0 if name.startswith("head.") else floor
        values = torch.stack([sample[name] for sample in separate])
        below += int((values < least).sum())
        torch.testing.assert_close(value, values.clamp(min=least).mean(0), rtol=2e-4, atol=1e-8)
    assert (below > 0) == (floor > 0)
    # Heads of other tasks are not held.
    assert (found["head.linear.bias"] != 0).sum() == (2 if head == "mse" else 4)


def test_the_floor_is_of_single_samples() -> None:
    with pytest.raises(SettingError, match=r"ewc\.floor"):
        prepare(STREAM, {"ewc": {"floor": 1e-5, "fisher": "batch"}})
    with pytest.raises(SettingError, match=r"ewc\.floor"):
        prepare(STREAM, {"ewc": {"floor": -1.0}})


def test_a_mixture_of_several_has_no_exact_fisher() -> None:
    learner, data = prepared({"head": "gmm", "modes": 2})
    with pytest.raises(PluginError, match="fisher=true or fisher=batch"):
        fisher(learner, data, "exact")
