from __future__ import annotations

import math

import pytest
import torch
from clframe_contrib.hat import HAT  # type: ignore[import-not-found]
from torch import Tensor, nn
from torch.nn import functional

from clframe import Experience, Learner, Plugin, PluginError, SettingError, Step, hookimpl
from clframe.run import run
from clframe.testing import check_plugin, prepare, prepare_toy, run_built, toy_stream
from tests.helpers.toy_images import toy_images


def test_it_keeps_the_contract() -> None:
    check_plugin(HAT(s_max=50.0), toy_stream("task"))


class ByHand(Plugin):
    """The gradients of a network with two hidden layers, written out as the paper has them."""

    def __init__(self, c: float, s_max: float, batches: int) -> None:
        self.c, self.s_max, self.batches = c, s_max, batches
        self.taken = [torch.zeros(12), torch.zeros(10)]
        self.expected: dict[str, Tensor] = {}
        self.compared = 0

    def embeddings(self, learner: Learner) -> list[Tensor]:
        return [p for n, p in learner.named_parameters() if n.startswith("hat_embeddings")]

    @hookimpl
    def before_experience(self) -> None:
        self.step = 0

    @hookimpl(tryfirst=True)
    def after_backward(self, learner: Learner, step: Step) -> None:
        assert learner.experience is not None
        t = learner.experience.index
        b = self.step % self.batches + 1
        s = 1 / self.s_max + (self.s_max - 1 / self.s_max) * (b - 1) / (self.batches - 1)
        self.step += 1
        names = ["features.1.weight", "features.1.bias", "features.3.weight", "features.3.bias",
                 "head.weight", "head.bias"]  # fmt: skip
        parameters = dict(learner.model.named_parameters())
        w1, b1, w2, b2, w3, b3 = leaves = [
            parameters[n].detach().clone().requires_grad_() for n in names
        ]
        e1, e2 = rows = [e[t].detach().clone().requires_grad_() for e in self.embeddings(learner)]
        a1, a2 = torch.sigmoid(s * e1), torch.sigmoid(s * e2)
        h1 = a1 * torch.relu(step.batch.x @ w1.T + b1)
        h2 = a2 * torch.relu(h1 @ w2.T + b2)
        logits = (h2 @ w3.T + b3)[:, 2 * t : 2 * t + 2]
        loss = functional.cross_entropy(logits, step.batch.y - 2 * t)
        free = [1 - m for m in self.taken]
        used = (a1 * free[0]).sum() + (a2 * free[1]).sum()
        loss = loss + self.c * used / (free[0].sum() + free[1].sum())
        assert step.loss is not None
        assert step.loss.item() == pytest.approx(loss.item(), rel=1e-4)
        grads = torch.autograd.grad(loss, [*leaves, *rows])
        m1, m2 = self.taken
        self.expected = dict(zip(names, grads[:6], strict=True))
        for i in range(12):
            self.expected[names[0]][i] *= 1 - m1[i]
            self.expected[names[1]][i] *= 1 - m1[i]
        for i in range(10):
            self.expected[names[3]][i] *= 1 - m2[i]
            for j in range(12):
                self.expected[names[2]][i, j] *= 1 - min(m2[i], m1[j])
        for number, (e, q) in enumerate(zip(rows, grads[6:], strict=True)):
            for i, value in enumerate(e.tolist()):
                steep = math.cosh(max(-50.0, min(50.0, s * value))) + 1
                q[i] *= self.s_max * steep / (s * (math.cosh(value) + 1))
            self.expected[f"e{number}"] = q

    @hookimpl(trylast=True)
    def after_step(self, learner: Learner) -> None:
        assert learner.experience is not None
        got = {n: p.grad for n, p in learner.model.named_parameters()}
        for number, e in enumerate(self.embeddings(learner)):
            assert e.grad is not None
            got[f"e{number}"] = e.grad[learner.experience.index]
        for name, expected in self.expected.items():
            assert got[name] is not None
            near = 1e-4 * float(expected.abs().max()) + 1e-7
            torch.testing.assert_close(got[name], expected, rtol=1e-3, atol=near, msg=name)
            self.compared += 1

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner, experience: Experience) -> None:
        for number, e in enumerate(self.embeddings(learner)):
            gates = torch.sigmoid(self.s_max * e[experience.index].detach())
            self.taken[number] = torch.maximum(self.taken[number], gates)


def test_gates_loss_and_gradients_against_the_paper_by_hand() -> None:
    # A small slope leaves gates between 0 and 1, so that all factors matter.
    watch = ByHand(c=0.75, s_max=5.0, batches=5)
    built = prepare(
        toy_stream("task"),
        [watch, HAT(c=0.75, s_max=5.0)],
        {"name": "mlp", "hidden": [12, 10]},
        optimizer={"name": "sgd", "lr": 0.1},
        trainer={"max_epochs": 2, "batch_size": 16},
    )
    run_built(built)
    assert watch.compared == 3 * 10 * 8


class Outputs(Plugin):
    """What the first task's inputs give after each experience."""

    def __init__(self) -> None:
        self.logits: list[Tensor] = []

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner) -> None:
        task = learner.stream.tasks[0]
        x = task.data.transform(task.data.gather(torch.arange(40)), task.data.tasks[:40])
        learner.eval()
        with torch.no_grad():
            self.logits.append(learner.predict(x, task)[:, list(task.outputs)])
        learner.train()


@pytest.mark.parametrize(
    "model", [{"name": "mlp", "hidden": [64]}, {"name": "cnn", "channels": [16], "features": 32}]
)
def test_nothing_is_forgotten(model: dict[str, object]) -> None:
    watch = Outputs()
    built = prepare(
        toy_images("task"),
        [HAT(), watch],
        model,
        optimizer={"name": "adam", "lr": 0.01, "weight_decay": 1e-3},
        trainer={"max_epochs": 6, "batch_size": 16},
    )
    values = run_built(built).matrix.values
    learned = [values[k + 1][k] for k in range(3)]
    assert min(learned) > 0.9
    assert values[-1] == pytest.approx(learned, abs=0.02)
    # All but the few units whose gate is not yet hard are as they were.
    assert (watch.logits[-1] - watch.logits[0]).abs().max() < 0.1 * watch.logits[0].std()


def test_what_hard_gates_hold_stays_bit_for_bit() -> None:
    plugin = HAT()
    built = prepare_toy([plugin], toy_stream("task"))
    kept: list[tuple[Tensor, Tensor]] = []

    class Look(Plugin):
        @hookimpl(trylast=True)
        def after_experience(self, learner: Learner) -> None:
            weight = learner.model.features[1].weight  # type: ignore[union-attr,index]
            kept.append((weight.detach().clone(), plugin.taken[0].clone()))

    built.learner.plugins.manager.register(Look())
    run(built.learner, built.stream, "toy")
    hard = kept[0][1] == 1.0
    assert 0 < int(hard.sum()) < 16
    assert torch.equal(kept[0][0][hard], kept[2][0][hard])
    assert not torch.equal(kept[0][0][~hard], kept[2][0][~hard])


def test_what_it_cannot_gate_is_refused() -> None:
    with pytest.raises(PluginError, match="cnn without norm; Classifier has a BatchNorm2d"):
        run_built(prepare("split_mnist", [HAT()], {"name": "cnn", "norm": True}, scenario="task"))
    built = prepare_toy([HAT()], toy_stream("task"))
    built.learner.model = nn.Linear(8, 6)
    with pytest.raises(PluginError, match="plugin 'hat' gates single units, so it needs"):
        run(built.learner, built.stream, "toy")
    with pytest.raises(SettingError, match=r"hat.s_max must be above 1, got 0.5"):
        HAT(s_max=0.5)
