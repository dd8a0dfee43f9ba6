"""The implicit step of a quadratic penalty, against plain loops of floating-point numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from clframe import Learner, Plugin, PluginError, hookimpl
from clframe.data.dataset import Data
from clframe.plugins._fisher import fisher
from clframe.plugins._proximal import check_optimizer, proximal_step
from clframe.plugins.ewc import EWC
from clframe.plugins.mas import MAS
from clframe.testing import check_plugin, prepare_toy, toy_run, toy_stream


class EveryTerm(Plugin):
    """EWC with the implicit step, nothing folded, Adam's second moment kept by itself."""

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.terms: list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]] = []
        self.second: dict[str, torch.Tensor] = {}
        self.steps = 0

    @hookimpl
    @torch.no_grad()
    def after_step(self, learner: Learner) -> None:
        """Minimise 1/(2 eta) (theta - t)^2 + sum_k weight/2 F_k (theta - a_k)^2 over theta."""
        self.steps += 1
        for name, p in learner.named_trainable().items():
            assert p.grad is not None
            g = p.grad.double()
            self.second[name] = 0.999 * self.second.get(name, torch.zeros_like(g)) + 0.001 * g * g
            eta = 0.01 / ((self.second[name] / (1 - 0.999**self.steps)).sqrt() + 1e-8)
            above, below = p.double() / eta, 1 / eta
            for importance, anchor in self.terms:
                above = above + self.weight * importance[name] * anchor[name]
                below = below + self.weight * importance[name]
            p.copy_(above / below)

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        anchor = {name: p.detach().double() for name, p in learner.named_trainable().items()}
        importance = {name: f.double() for name, f in fisher(learner, data).items()}
        self.terms.append((importance, anchor))


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("weight", [100.0, 1e6])
def test_training_equals_that_with_every_term_by_itself(scenario: Any, weight: float) -> None:
    stream = toy_stream(scenario, samples=20)
    _, reference = toy_run([EveryTerm(weight)], stream)
    _, learner = toy_run([EWC(weight, step="proximal")], stream)
    _, naive = toy_run([], stream)
    theirs = reference.named_trainable()
    for name, p in learner.named_trainable().items():
        assert torch.allclose(p, theirs[name], atol=2e-4), name
    assert any((p - theirs[name]).abs().max() > 1e-2 for name, p in naive.named_trainable().items())


def optimizer_of(kind: str, p: nn.Parameter) -> torch.optim.Optimizer:
    """One of those whose step sizes are known."""
    if kind == "sgd":
        return torch.optim.SGD([p], lr=0.1)
    if kind == "momentum":
        return torch.optim.SGD([p], lr=0.1, momentum=0.9)
    return torch.optim.Adam([p], lr=0.1)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("strength", [0.5, 10.0, 1e6])
def test_it_never_passes_the_anchor_and_rests_where_the_gradients_cancel(
    kind: str, strength: float
) -> None:
    # Loss 2 theta, penalty strength/2 (theta - 1)^2: together least at 1 - 2 / strength.
    p = nn.Parameter(torch.tensor([1.5], dtype=torch.float64))
    optimizer = optimizer_of(kind, p)
    curvature, anchor = torch.full_like(p, strength), torch.ones_like(p)
    for _ in range(4000):
        optimizer.zero_grad()
        (2 * p).sum().backward()
        optimizer.step()
        reached = p.item()
        proximal_step(optimizer, [p], [curvature.detach()], [anchor.detach()])
        assert abs(p.item() - 1) <= abs(reached - 1)
        assert (p.item() - 1) * (reached - 1) >= 0
    assert p.item() == pytest.approx(1 - 2 / strength, rel=1e-3)


def test_the_gradients_step_overshoots_where_the_implicit_one_does_not() -> None:
    """Without any task loss: the distance to the anchor under a curvature of 1e6."""
    distances = {}
    for step in ("gradient", "proximal"):
        p = nn.Parameter(torch.tensor([1.0 + 1e-6], dtype=torch.float64))
        optimizer = torch.optim.Adam([p], lr=1e-3)
        furthest = 0.0
        for _ in range(20):
            optimizer.zero_grad()
            loss = 1e6 / 2 * (p - 1) ** 2 if step == "gradient" else 0.0 * p
            loss.sum().backward()
            optimizer.step()
            if step == "proximal":
                proximal_step(optimizer, [p], [torch.full_like(p, 1e6)], [torch.ones_like(p)])
            furthest = max(furthest, abs(p.item() - 1))
        distances[step] = furthest
    assert distances["gradient"] > 5e-4  # a whole learning rate away, from a millionth
    assert distances["proximal"] < 1e-6


def test_one_step_by_hand() -> None:
    p = nn.Parameter(torch.tensor([0.3]))
    optimizer = torch.optim.Adam([p], lr=0.01, eps=1e-8)
    p.grad = torch.tensor([4.0])
    optimizer.step()
    went_to = 0.3 - 0.01 * 4.0 / (4.0 + 1e-8)  # Adam's first step
    eta = 0.01 / (math.sqrt(4.0**2) + 1e-8)
    proximal_step(optimizer, [p], [torch.tensor([200.0])], [torch.tensor([1.0])])
    least = min(
        (went_to + i * 1e-6 for i in range(800_000)),
        key=lambda t: (t - went_to) ** 2 / (2 * eta) + 100.0 * (t - 1.0) ** 2,
    )
    assert p.item() == pytest.approx(least, abs=2e-6)


def test_what_the_optimizer_does_not_move_stays() -> None:
    frozen, unmoved = nn.Parameter(torch.tensor([2.0])), nn.Parameter(torch.tensor([3.0]))
    optimizer = torch.optim.Adam([unmoved])
    one = [torch.ones(1), torch.ones(1)]
    proximal_step(optimizer, [frozen, unmoved], one, one)
    assert (frozen.item(), unmoved.item()) == (2.0, 3.0)


def test_other_optimizers_are_refused() -> None:
    p = nn.Parameter(torch.zeros(1))
    for optimizer in (torch.optim.Adagrad([p]), torch.optim.Adam([p], amsgrad=True)):
        with pytest.raises(PluginError, match=r"ewc\.step=proximal needs the optimizer's step"):
            check_optimizer(optimizer, "ewc")


@pytest.mark.parametrize("plugin", [EWC(1e4, step="proximal"), MAS(10.0, step="proximal")])
@pytest.mark.parametrize("scenario", ["task", "class"])
def test_contract(plugin: Plugin, scenario: Any) -> None:
    check_plugin(plugin, toy_stream(scenario))


def test_the_loss_is_then_without_the_penalty() -> None:
    plugin = EWC(1e4, step="proximal")
    learner = prepare_toy([plugin], toy_stream("task")).learner
    plugin.quadratic.add({"head.weight": torch.ones(6, 16)}, {"head.weight": torch.zeros(6, 16)})
    assert plugin.penalty(learner) is None
    assert not plugin.capabilities.batched_seeds
    assert EWC().capabilities.batched_seeds
