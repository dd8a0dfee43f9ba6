"""Continual backpropagation, and shrink and perturb."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from clframe_contrib.cbp import ContinualBackprop  # type: ignore[import-not-found]
from clframe_contrib.shrink_perturb import ShrinkPerturb  # type: ignore[import-not-found]
from torch.nn import functional

from clframe import Learner, Plugin, PluginError, Step, hookimpl
from clframe.testing import check_plugin, prepare, run_built, toy_run, toy_stream


@pytest.mark.parametrize(
    "plugin",
    [
        ContinualBackprop(rate=0.05, maturity=3),
        ContinualBackprop(rate=0.05, maturity=3, form="code"),
        ShrinkPerturb(),
        ShrinkPerturb(0.999, 1e-3, when="step"),
    ],
)
def test_they_keep_the_contract(plugin: Plugin) -> None:
    check_plugin(plugin, toy_stream("domain"))


class ByHand(Plugin):
    """Utilities, ages and replaced units of the one hidden layer, unit by unit."""

    def __init__(self, plugin: ContinualBackprop, width: int) -> None:
        self.plugin = plugin
        self.utility, self.ages = [0.0] * width, [0] * width
        self.means = [0.0] * width
        self.due = 0.0
        self.replaced: list[int] = []
        self.checked = 0

    def arrays(self, learner: Learner) -> list[Any]:
        model: Any = learner.model
        parameters = (model.features[1].weight, model.features[1].bias,
                      model.head.weight, model.head.bias)  # fmt: skip
        return [p.detach().double().numpy().copy() for p in parameters]

    @hookimpl(tryfirst=True)
    def after_backward(self, learner: Learner, step: Step) -> None:
        w, b, _, _ = self.arrays(learner)
        x = step.batch.x.double().numpy()
        self.h = np.maximum(x @ w.T + b, 0.0)

    @hookimpl(tryfirst=True)
    def after_step(self, learner: Learner) -> None:
        decay, code = self.plugin.decay, self.plugin.form == "code"
        w, b, out, head_bias = self.arrays(learner)
        mature = []
        for i in range(len(w)):
            self.ages[i] += 1
            used = np.abs(self.h[:, i]).mean() * np.abs(out[:, i]).sum()
            self.utility[i] = decay * self.utility[i] + (1 - decay) * used
            self.means[i] = decay * self.means[i] + (1 - decay) * self.h[:, i].mean()
            if self.ages[i] > self.plugin.maturity:
                mature.append(i)
        self.due += self.plugin.rate * len(mature)
        while self.due >= 1:
            self.due -= 1
            grown = [1 - decay ** self.ages[i] if code else 1.0 for i in range(len(w))]
            worst = min(mature, key=lambda i: self.utility[i] / grown[i])
            mature.remove(worst)
            if code:
                head_bias += out[:, worst] * self.means[worst] / grown[worst]
            b[worst], out[:, worst], w[worst] = 0.0, 0.0, np.nan
            self.utility[worst], self.ages[worst], self.means[worst] = 0.0, 0, 0.0
            self.replaced.append(worst)
        self.expected = [w, b, out, head_bias]

    def check(self, learner: Learner) -> None:
        first = self.plugin._first[0].double().numpy()
        for got, wanted in zip(self.arrays(learner), self.expected, strict=True):
            fresh = np.isnan(wanted)
            assert got[~fresh] == pytest.approx(wanted[~fresh], rel=1e-4, abs=1e-5)
            assert np.isin(got[fresh], first).all()
        ours = self.plugin.utility[0].tolist()
        assert ours == pytest.approx(self.utility, rel=1e-4, abs=1e-6)
        assert self.plugin.ages[0].tolist() == self.ages
        self.checked += 1


class Check(Plugin):
    def __init__(self, watch: ByHand) -> None:
        self.watch = watch

    @hookimpl(trylast=True)
    def after_step(self, learner: Learner) -> None:
        self.watch.check(learner)


@pytest.mark.parametrize("form", ["paper", "code"])
def test_utilities_and_replaced_units_by_hand(form: Any) -> None:
    plugin = ContinualBackprop(rate=0.03, maturity=4, decay=0.9, form=form)
    watch = ByHand(plugin, 16)
    built = prepare(
        toy_stream("domain"),
        [watch, Check(watch), plugin],  # what comes last is called in reverse
        {"name": "mlp", "hidden": [16]},
        optimizer={"name": "sgd", "lr": 0.05},
        trainer={"max_epochs": 2, "batch_size": 16},
    )
    run_built(built)
    assert watch.checked == 30
    assert len(watch.replaced) >= 8


def test_moments_of_a_replaced_unit_start_again() -> None:
    plugin = ContinualBackprop(rate=1.0, maturity=8)
    _, learner = toy_run([plugin], toy_stream("domain", n_experiences=1), max_steps=9)
    optimizer: Any = learner.optimizer
    state = optimizer.optimizer.state
    model: Any = learner.model
    # In the last step all units were replaced.
    assert not state[model.features[1].weight]["exp_avg_sq"].any()
    assert not state[model.head.weight]["exp_avg"].any()
    assert state[model.head.bias]["exp_avg"].any()
    assert not model.head.weight.any()


def dormant(learner: Learner) -> int:
    """Units that give nothing for any input of the last task."""
    data = learner.stream.tasks[-1].data
    with torch.no_grad():
        h = learner.model.features(data.gather(torch.arange(len(data))))  # type: ignore[operator]
    return int((h <= 0).all(0).sum())


class Silence(Plugin):
    """Makes most units of the hidden layer dead before anything is learned."""

    @hookimpl
    def configure(self, learner: Learner) -> None:
        with torch.no_grad():
            learner.model.features[1].bias[:14] = -1e3  # type: ignore[union-attr,index]


def test_dead_units_come_back() -> None:
    stream = toy_stream("domain", n_experiences=4, classes_per_experience=4)
    how = {"max_epochs": 10}
    naive, dead = toy_run([Silence()], stream, **how)
    ours, alive = toy_run([Silence(), ContinualBackprop(rate=0.01, maturity=20)], stream, **how)
    assert dormant(dead) >= 14
    assert dormant(alive) <= 4
    learned = [ours.matrix.values[k + 1][k] for k in range(4)]
    without = [naive.matrix.values[k + 1][k] for k in range(4)]
    assert np.mean(learned) > np.mean(without) + 0.1


def test_channels_are_units_too() -> None:
    plugin = ContinualBackprop(rate=0.05, maturity=2)
    model = {"name": "cnn", "channels": [4, 6], "features": 8}
    built = prepare("split_mnist", [plugin], model, trainer={"max_steps": 3, "batch_size": 16})
    looked: list[torch.Tensor] = []

    class Look(Plugin):
        @hookimpl(tryfirst=True)
        def after_backward(self, learner: Learner, step: Step) -> None:
            features: Any = learner.model.features
            with torch.no_grad():
                maps = features[:6](step.batch.x)  # two blocks: 6 channels of 7 x 7
            looked.append(maps.flatten(2).abs().mean(0))

        @hookimpl(tryfirst=True)
        def after_step(self, learner: Learner) -> None:
            if len(looked) == 1:
                weight = learner.model.features[7].weight.detach()  # type: ignore[union-attr,index]
                each = looked[0] * weight.abs().sum(0).view(6, 49)
                self.expected = 0.01 * each.sum(1)

    watch = Look()
    built.learner.plugins.manager.register(watch)
    built.learner.plugins._implemented |= {"after_backward", "after_step"}
    utilities: list[torch.Tensor] = []
    original = plugin._count_due

    def count(number: int, width: int) -> int:
        if plugin.steps == 1 and number == 1:
            utilities.append(plugin.utility[1].clone())
        return int(original(number, width))

    plugin._count_due = count
    run_built(built)
    assert [len(u) for u in plugin.utility] == [4, 6, 8]
    torch.testing.assert_close(utilities[0], watch.expected, rtol=1e-4, atol=1e-7)


def test_a_network_with_norms_is_refused() -> None:
    built = prepare("split_mnist", [ContinualBackprop()], {"name": "cnn", "norm": "group"})
    with pytest.raises(PluginError, match="'cbp' replaces single units, so it needs a network"):
        run_built(built)


# ---------------------------------------------------------------- shrink and perturb


def test_the_formula_and_its_noise() -> None:
    plugin = ShrinkPerturb(shrink=0.6, sigma=0.05)
    _, learner = toy_run([], toy_stream("domain"))
    before = torch.cat([p.detach().flatten() for p in learner.model.parameters()])
    plugin.apply(learner)
    after = torch.cat([p.detach().flatten() for p in learner.model.parameters()])
    noise = after - 0.6 * before
    assert noise.std().item() == pytest.approx(0.05, rel=0.15)
    assert abs(noise.mean().item()) < 0.02


class Starts(Plugin):
    def __init__(self) -> None:
        self.ends: list[torch.Tensor] = []
        self.starts: list[torch.Tensor] = []

    @hookimpl(trylast=True)
    def before_experience(self, learner: Learner) -> None:
        self.starts.append(learner.model.head.weight.detach().clone())  # type: ignore[union-attr]

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner) -> None:
        self.ends.append(learner.model.head.weight.detach().clone())  # type: ignore[union-attr]


def test_it_happens_before_each_new_experience() -> None:
    watch = Starts()
    toy_run([ShrinkPerturb(shrink=0.5, sigma=0.0), watch], toy_stream("domain"))
    for end, start in zip(watch.ends, watch.starts[1:], strict=False):
        assert torch.equal(start, 0.5 * end)


def test_a_shrunk_network_prefers_the_same_and_can_learn_again() -> None:
    """Why it helps, as the paper has it: predictions stay, gradients of old data come back."""
    stream = toy_stream("domain", n_experiences=1, samples=100)
    result, learner = toy_run([], stream, max_epochs=20)
    data = stream.tasks[0].data
    x = data.gather(torch.arange(len(data)))

    def state() -> tuple[float, float]:
        loss = functional.cross_entropy(learner.model(x), data.labels)
        grads = torch.autograd.grad(loss, list(learner.model.parameters()))
        right = (learner.model(x).argmax(1) == data.labels).double().mean()
        return float(right), float(sum(g.square().sum() for g in grads).sqrt())  # type: ignore[union-attr]

    right, small = state()
    assert right == pytest.approx(result.matrix.values[-1][0])
    ShrinkPerturb(0.4, 0.01).apply(learner)
    still, large = state()
    assert still > right - 0.02
    assert large > 3 * small
