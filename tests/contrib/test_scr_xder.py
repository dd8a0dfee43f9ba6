from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from clframe_contrib._contrastive import contrastive_loss  # type: ignore[import-not-found]
from clframe_contrib.scr import SCR  # type: ignore[import-not-found]
from clframe_contrib.xder import XDER, implant  # type: ignore[import-not-found]
from torch import Tensor
from torch.nn import functional

import clframe
from clframe import Learner, Plugin, PluginError, SettingError, Step, Task, hookimpl
from clframe.testing import check_plugin, toy_run, toy_stream


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_scr_keeps_the_contract(scenario: Any) -> None:
    check_plugin(SCR(size=20, batch_size=8, projection=8), toy_stream(scenario))


def test_xder_keeps_the_contract() -> None:
    check_plugin(XDER(size=20), toy_stream("class"))


def by_loop(z: Tensor, labels: Tensor, temperature: float) -> float:
    """The supervised contrastive loss, a sample and a positive at a time."""
    n, losses = len(labels), []
    for i in range(n):
        others = [a for a in range(n) if a != i]
        positives = [p for p in others if labels[p] == labels[i]]
        if positives:
            total = sum(math.exp(float(z[i] @ z[a]) / temperature) for a in others)
            logs = [float(z[i] @ z[p]) / temperature - math.log(total) for p in positives]
            losses.append(-sum(logs) / len(positives))
    return sum(losses) / len(losses)


def test_contrastive_loss_against_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    z = functional.normalize(torch.randn(2, 9, 5, generator=generator, dtype=torch.double), dim=-1)
    labels = torch.tensor([0, 1, 1, 2, 0, 0, 3, 1, 2])  # one is alone
    both = contrastive_loss(z, labels, 0.3)
    assert both.tolist() == pytest.approx([by_loop(one, labels, 0.3) for one in z])
    alone = z[0, :3].clone().requires_grad_()
    none = contrastive_loss(alone, torch.arange(3), 0.3)
    none.backward()
    assert none.item() == 0
    assert alone.grad is not None
    assert not alone.grad.any()


class Contrast(Plugin):
    """Recomputes SCR's loss from the parts of the step."""

    checked = 0

    @hookimpl
    def after_backward(self, learner: Learner, step: Step) -> None:
        model, projection = cast(Any, learner.model), cast(Any, learner.scr_projection)
        with torch.no_grad():
            z = [projection(model.features(part.x)) for part in step.parts]
        rows = torch.cat(z).double()
        labels = torch.cat([part.y for part in step.parts])
        assert step.loss is not None
        expected = by_loop(rows / rows.norm(dim=1, keepdim=True), labels, 0.5)
        assert step.loss.item() == pytest.approx(expected, rel=1e-3)
        assert model.head.weight.grad is None or not model.head.weight.grad.any()
        self.checked += 1


def test_scr_learns_by_the_contrastive_loss_alone_and_predicts_the_nearest_mean() -> None:
    watch, plugin = Contrast(), SCR(size=30, batch_size=6, temperature=0.5, projection=4)
    stream = toy_stream("class")
    _, learner = toy_run([plugin, watch], stream, max_epochs=1)
    assert watch.checked == 3 * 5
    task: Task = stream.tasks[1]
    x = task.data.gather(torch.arange(len(task.data)))
    learner.eval()
    with torch.no_grad():
        scores = plugin.predict(learner, x, task)
        features: Any = learner.model.features
        unit = functional.normalize(features(plugin.buffer.inputs[:30]), dim=1)
        own = functional.normalize(features(x), dim=1)
    labels = plugin.buffer.column("labels")
    means = {
        c: functional.normalize(unit[labels == c].mean(0), dim=0) for c in labels.unique().tolist()
    }
    for row, vector in zip(scores, own, strict=True):
        nearest = min(means, key=lambda c: float((vector - means[c]).norm()))
        assert int(row.argmax()) == nearest


def test_scr_takes_a_view_of_each_image() -> None:
    class Parts(Plugin):
        def __init__(self) -> None:
            self.sizes: set[tuple[int, ...]] = set()

        @hookimpl
        def after_backward(self, step: Step) -> None:
            self.sizes.add(tuple(len(part) for part in step.parts))
            for part, view in zip(
                step.parts[: len(step.parts) // 2], step.parts[len(step.parts) // 2 :], strict=True
            ):
                assert torch.equal(part.y, view.y)
                assert not torch.equal(part.x, view.x)

    watch = Parts()
    clframe.fit(
        clframe.stream("split_mnist", scenario="class", n_experiences=2),
        [SCR(batch_size=10, augment=["crop"]), watch], {"name": "mlp", "hidden": [8]},
        max_steps=2, batch_size=16, run_dir=False, progress=False, logger=None,
    )  # fmt: skip
    assert watch.sizes == {(16, 16), (16, 10, 16, 10)}
    with pytest.raises(SettingError, match=r"scr.augment needs images .* set it to \[\]"):
        toy_run([SCR(augment=["crop"])], toy_stream("class"))


# ---------------------------------------------------------------- X-DER


def test_implanted_logits_stay_below_the_true_class() -> None:
    stored = torch.tensor([[4.0, 1.0, 0.0, 0.0], [2.0, 3.0, 9.0, 9.0], [1.0, 0.0, 5.0, 5.0]])
    outputs = torch.tensor([[7.0, 7.0, 8.0, 2.0], [7.0, 7.0, 1.0, -2.0], [0.0, 0.0, 1.0, 4.0]])
    labels, units = torch.tensor([0, 1, 0]), torch.tensor([2, 3])
    result = implant(stored, outputs, labels, units, 0.5)
    # 8 is above 4: scaled to 0.5 * 4. 1 is below 3: as it is. 4 is above 1: scaled to 0.5 * 1.
    expected = [[4.0, 1.0, 2.0, 0.5], [2.0, 3.0, 1.0, -2.0], [1.0, 0.0, 0.125, 0.5]]
    assert torch.allclose(result, torch.tensor(expected))
    assert stored[0, 2] == 0  # not in place
    zero = implant(
        torch.tensor([[-1.0, 0.0]]), torch.zeros(1, 2), torch.tensor([0]), units[:1] - 1, 0.5
    )
    assert torch.isfinite(zero).all()


class Sum(Plugin):
    """Recomputes X-DER's loss, a sample at a time, and what becomes of the stored logits."""

    def __init__(self, plugin: XDER) -> None:
        self.plugin = plugin
        self.checked = 0
        self.implanted = 0

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Learner, experience: Any) -> None:
        self.present = list(experience.outputs)
        self.past = [u for e in learner.seen for u in e.outputs]
        self.future = [u for u in range(6) if u not in self.present + self.past]

    @hookimpl(tryfirst=True)
    def after_step(self, learner: Learner, step: Step) -> None:
        """Before the memory is updated; the logits were made before the optimizer's step."""
        plugin = self.plugin
        logits = [out.double() for out in self.logits]
        current, y = logits[0], step.batch.y
        among = current[:, self.present].log_softmax(1)
        loss = -sum(float(among[i, self.present.index(int(y[i]))]) for i in range(len(y))) / len(y)
        samples = [(current[i], int(y[i])) for i in range(len(y))]
        if self.past:
            drawn = torch.cat(plugin._positions)
            stored = self.stored[plugin._positions[0]].double()
            loss += 0.4 * float((logits[1] - stored).square().mean())
            labels = step.parts[2].y
            of_past = [
                -float(logits[2][i, self.past].log_softmax(0)[self.past.index(int(labels[i]))])
                for i in range(len(labels))
            ]
            loss += 0.7 * sum(of_past) / len(of_past)
            once = {}
            for position, row, label in zip(
                drawn.tolist(),
                torch.cat(logits[1:3]),
                torch.cat([p.y for p in step.parts[1:3]]),
                strict=True,
            ):
                once[position] = (row, int(label))
            samples += list(once.values())
            values = []
            for i in range(len(y)):
                p = current[i, self.past + self.present].softmax(0)
                values.append(float(p[: len(self.past)].max() + 0.3 - p[len(self.past) :].max()))
            loss += 0.2 * mean_above(values)
        if self.future:
            values = []
            for row, label in samples:
                own = [label // 2 * 2, label // 2 * 2 + 1]
                values.append(float(row[self.future].max() + 0.3 - row[own].max()))
            loss += 0.2 * mean_above(values)
            contrasted = step.parts[3:] if self.past else step.parts[1:]
            outputs = torch.cat(logits[3:] if self.past else logits[1:])
            labels = torch.cat([part.y for part in contrasted])
            heads = [self.future[i : i + 2] for i in range(0, len(self.future), 2)]
            each = [by_loop(functional.normalize(outputs[:, h], dim=1), labels, 5.0) for h in heads]
            loss += 0.1 * sum(each) / len(heads)
        assert step.loss is not None
        assert step.loss.item() == pytest.approx(loss, rel=1e-4)
        self.checked += 1

    @hookimpl
    def after_backward(self, learner: Learner, step: Step) -> None:
        with torch.no_grad():
            self.logits = [learner.model(part.x) for part in step.parts]
        if len(self.plugin.buffer):
            self.stored = self.plugin.buffer.column("logits").clone()


class Changed(Plugin):
    """Looks at the stored logits after X-DER has updated them."""

    def __init__(self, other: Sum) -> None:
        self.other = other

    @hookimpl(trylast=True)
    def after_step(self) -> None:
        if not self.other.past:
            return
        plugin, before = self.other.plugin, self.other.stored
        now = plugin.buffer.column("logits")
        changed = (now != before).any(1)
        drawn = torch.zeros(len(now), dtype=torch.bool)
        drawn[torch.cat(plugin._positions)] = True
        assert not (changed & ~drawn).any()
        assert torch.equal(now[:, self.other.past], before[:, self.other.past])
        labels = plugin.buffer.column("labels")
        truth = now.gather(1, labels[:, None])[changed]
        later = now[changed][:, self.other.present + self.other.future].amax(1, keepdim=True)
        # Logits below zero have no part of them that is smaller.
        assert (later <= truth.clamp(min=0) + 1e-5)[truth > 0].all()
        self.other.implanted += int(changed.sum())


def test_the_loss_and_the_updates_of_xder_by_hand() -> None:
    plugin = XDER(size=24, alpha=0.4, beta=0.7, batch_size=7, eta=0.2, contrasted=5)
    watch = Sum(plugin)
    toy_run([watch, plugin, Changed(watch)], toy_stream("class"))
    assert watch.checked == 3 * 10
    assert watch.implanted > 20
    assert plugin.buffer.column("labels").bincount().tolist() == [4] * 6
    assert not plugin.buffer.column("updates").any()


def mean_above(values: list[float]) -> float:
    above = [value for value in values if value > 0]
    return sum(above) / max(len(above), 1)


def test_xder_refuses_what_it_cannot_do() -> None:
    with pytest.raises(PluginError, match="'xder' works in the class scenario"):
        toy_run([XDER()], toy_stream("task"))
    with pytest.raises(PluginError, match="'xder' cannot be combined with 'scr'"):
        toy_run([XDER(), SCR()], toy_stream("class"))
