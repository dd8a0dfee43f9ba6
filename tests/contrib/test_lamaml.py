from __future__ import annotations

from typing import Any

import pytest
import torch
from clframe_contrib.lamaml import LaMAML  # type: ignore[import-not-found]
from torch import Tensor
from torch.nn import functional

from clframe import Batch, Learner, Plugin, SettingError, Step, hookimpl
from clframe.testing import check_plugin, prepare, run_built, toy_stream


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_it_keeps_the_contract(scenario: Any) -> None:
    check_plugin(LaMAML(size=20, parts=3, outer="optimizer"), toy_stream(scenario))


def test_it_keeps_the_contract_with_its_own_step() -> None:
    check_plugin(LaMAML(size=20, batch_size=None, parts=2, second_order=True), toy_stream("domain"))


NAMES = ("features.1.weight", "features.1.bias", "head.weight", "head.bias")


def forward(parameters: list[Tensor], x: Tensor) -> Tensor:
    w, b, out, c = parameters
    return torch.relu(x @ w.T + b) @ out.T + c


class ByHand(Plugin):
    """The meta-gradient, the new rates and the new parameters, written out in double precision."""

    def __init__(self, plugin: LaMAML) -> None:
        self.plugin = plugin
        self.drawn: list[Batch] = []
        self.compared = 0

    @hookimpl(trylast=True)
    def before_experience(self, learner: Learner) -> None:
        # What the plugin draws from the memory is seen, not drawn again.
        buffer, plain = self.plugin.buffer, type(self.plugin.buffer).sample

        def sample(*arguments: Any) -> Batch:
            self.drawn.append(plain(buffer, *arguments))
            return self.drawn[-1]

        buffer.sample = sample  # type: ignore[method-assign]

    @hookimpl
    def extra_batches(self, learner: Learner) -> None:
        self.drawn.clear()

    def rates(self, learner: Learner) -> list[Tensor]:
        return [p for n, p in learner.named_parameters() if n.startswith("lamaml_rates")]

    @hookimpl(tryfirst=True)
    def after_backward(self, learner: Learner, step: Step) -> None:
        named = dict(learner.model.named_parameters())
        theta = [named[n].detach().double().requires_grad_() for n in NAMES]
        alpha = [a.detach().double().requires_grad_() for a in self.rates(learner)]
        x, y = step.batch.x.double(), step.batch.y
        bx, by = x, y
        if self.drawn:
            bx = torch.cat([x, self.drawn[0].x.double()])
            by = torch.cat([y, self.drawn[0].y])
        fast: list[Tensor] = list(theta)
        total = torch.zeros((), dtype=torch.float64)
        pieces = list(zip(x.chunk(4), y.chunk(4), strict=True))
        for px, py in pieces:
            inner = functional.cross_entropy(forward(fast, px), py)
            g = torch.autograd.grad(inner, fast, create_graph=True)
            if not self.plugin.second_order:
                g = tuple(one.detach() for one in g)
            fast = [p - a.clamp(min=0) * one for p, a, one in zip(fast, alpha, g, strict=True)]
            total = total + functional.cross_entropy(forward(fast, bx), by)
        meta = total / len(pieces)
        assert step.loss is not None
        assert step.loss.item() == pytest.approx(meta.item(), rel=1e-4)
        found = torch.autograd.grad(meta, [*theta, *alpha])
        for name, expected in zip(NAMES, found[:4], strict=True):
            gradient = named[name].grad
            assert gradient is not None
            torch.testing.assert_close(gradient.double(), expected, rtol=1e-3, atol=1e-5)

        def clipped(gradients: tuple[Tensor, ...]) -> list[Tensor]:
            norm = torch.cat([g.flatten() for g in gradients]).norm()
            return [g * min(1.0, self.plugin.clip / (float(norm) + 1e-6)) for g in gradients]

        eta = self.plugin.alpha_lr
        self.alpha = [a.detach() - eta * g for a, g in zip(alpha, clipped(found[4:]), strict=True)]
        self.theta = [
            p.detach() - a.clamp(min=0) * g
            for p, a, g in zip(theta, self.alpha, clipped(found[:4]), strict=True)
        ]

    @hookimpl(trylast=True)
    def after_step(self, learner: Learner) -> None:
        named = dict(learner.model.named_parameters())
        for name, expected in zip(NAMES, self.theta, strict=True):
            torch.testing.assert_close(named[name].double(), expected, rtol=1e-3, atol=1e-5)
        for rate, expected in zip(self.rates(learner), self.alpha, strict=True):
            torch.testing.assert_close(rate.double(), expected, rtol=1e-3, atol=1e-5)
        self.compared += 1


@pytest.mark.parametrize("second_order", [False, True])
def test_the_meta_gradient_and_both_steps_by_hand(second_order: bool) -> None:
    plugin = LaMAML(30, 6, parts=4, alpha=0.05, alpha_lr=0.1, clip=0.5, second_order=second_order)
    watch = ByHand(plugin)
    built = prepare(
        toy_stream("domain"),
        [watch, plugin],
        {"name": "mlp", "hidden": [16]},
        trainer={"max_epochs": 1, "batch_size": 16},
    )
    run_built(built)
    assert watch.compared == 15
    rates = torch.cat([a.flatten() for a in watch.rates(built.learner)])
    assert rates.std() > 1e-4  # each parameter has learned a rate of its own


def final(strategy: Any) -> Any:
    built = prepare(
        "split_mnist",
        strategy,
        {"name": "mlp", "hidden": [100]},
        scenario="domain",
        optimizer={"name": "sgd", "lr": 0.1},
        trainer={"max_steps": 40, "batch_size": 50},
    )
    return run_built(built).matrix.values[-1]


@pytest.mark.slow
def test_it_forgets_less_than_fine_tuning() -> None:
    # What came first is kept; learned rates also make it slower to learn what contradicts it.
    ours, naive = final([LaMAML(size=200, batch_size=50)]), final([])
    assert ours[:3].mean() > naive[:3].mean() + 0.15
    assert ours.mean() > naive.mean()


def test_a_bound_that_is_none_is_refused() -> None:
    with pytest.raises(SettingError, match=r"lamaml.clip must be above 0 or null, got 0"):
        LaMAML(clip=0.0)
