from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from clframe_contrib.bic import BiC  # type: ignore[import-not-found]
from clframe_contrib.lucir import LUCIR, CosineHead  # type: ignore[import-not-found]
from clframe_contrib.wa import WA  # type: ignore[import-not-found]
from torch import Tensor, nn

from clframe import Experience, Learner, Plugin, PluginError, SettingError, Step, hookimpl
from clframe.run import run
from clframe.testing import check_plugin, prepare_toy, toy_run, toy_stream
from tests.helpers.methods import make


@pytest.mark.parametrize(
    "plugin", [BiC(size=30, validation=0.2, bias_steps=20), WA(size=20, clip=True), LUCIR(3)]
)
def test_keep_the_contract(plugin: Plugin) -> None:
    check_plugin(plugin, toy_stream("class"))


@pytest.mark.parametrize("plugin", [BiC(), WA(), LUCIR()])
def test_only_class_incremental_streams(plugin: Plugin) -> None:
    with pytest.raises(PluginError, match=f"'{plugin.name}' works in the class scenario"):
        toy_run([plugin], toy_stream("task"))


def soft_entropy(outputs: Tensor, targets: Tensor, n_old: int, temperature: float) -> float:
    """The distillation, a sample at a time."""
    total = 0.0
    for out, wanted in zip(outputs.double(), targets.double(), strict=True):
        p = (out[:n_old] / temperature).exp()
        q = (wanted[:n_old] / temperature).exp()
        total -= float((q / q.sum() * (p / p.sum()).log()).sum())
    return total / len(outputs)


class Distilled(Plugin):
    """Recomputes (1 - a) L_c + a L_d with a copy of the former network."""

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin
        self.checked = 0

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Learner) -> None:
        self.former = copy.deepcopy(learner.model)
        self.scale = getattr(self.plugin, "scale", torch.ones(6)).clone()
        self.shift = getattr(self.plugin, "shift", torch.zeros(6)).clone()

    @hookimpl
    def after_backward(self, learner: Learner, step: Step) -> None:
        n_old = 2 * len(learner.seen)
        share = n_old / (n_old + 2)
        batch = step.batch
        with torch.no_grad():
            outputs = learner.model(batch.x)[:, : n_old + 2]
            targets = self.former(batch.x) * self.scale + self.shift
        loss = -float(outputs.log_softmax(1)[torch.arange(len(batch)), batch.y].mean())
        if n_old:
            distilled = soft_entropy(outputs, targets, n_old, 2.0)
            loss = (1 - share) * loss + share * distilled
        assert step.loss is not None
        assert step.loss.item() == pytest.approx(loss, rel=1e-4)
        self.checked += 1


@pytest.mark.parametrize("plugin", [WA(size=20), BiC(size=40, validation=0.2)])
def test_the_loss_of_new_data_and_exemplars(plugin: Any) -> None:
    watch = Distilled(plugin)
    toy_run([plugin, watch], toy_stream("class"), max_epochs=1)
    assert watch.checked >= 3 * 5
    assert len(plugin.buffer) == plugin.kept_for_training


# ---------------------------------------------------------------- WA


class Rows(Plugin):
    def __init__(self) -> None:
        self.before: list[Tensor] = []

    @hookimpl(tryfirst=True)
    def after_experience(self, learner: Learner) -> None:
        self.before.append(learner.model.head.weight.detach().clone())  # type: ignore[union-attr]


def test_new_rows_become_as_long_as_old_ones() -> None:
    watch = Rows()
    _, learner = toy_run([watch, WA(size=20)], toy_stream("class"))
    last = watch.before[-1].double()
    lengths = [math.sqrt(float((row * row).sum())) for row in last]
    gamma = (sum(lengths[:4]) / 4) / (sum(lengths[4:]) / 2)
    expected = torch.cat([last[:4], gamma * last[4:]]).float()
    weight = learner.model.head.weight.detach()  # type: ignore[union-attr]
    assert torch.allclose(weight, expected, atol=1e-6)
    assert not torch.allclose(weight, last.float(), atol=1e-3)


def test_weights_are_kept_from_below_zero_if_asked() -> None:
    for clip in (False, True):
        _, learner = toy_run([WA(size=20, clip=clip)], toy_stream("class"))
        assert bool((learner.model.head.weight >= 0).all()) == clip  # type: ignore[union-attr]


# ---------------------------------------------------------------- BiC


class Stages(Plugin):
    """Looks at the correction in stage 1, and at the network after stage 2."""

    def __init__(self, bic: BiC) -> None:
        self.bic = bic
        self.trained: set[bytes] = set()
        self.after_stage_1: dict[str, Tensor] = {}

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        assert (self.bic.scale == 1).all()
        assert (self.bic.shift == 0).all()
        self.trained |= {x.numpy().tobytes() for x in step.batch.x}
        self.after_stage_1 = {k: v.clone() for k, v in learner.state_dict().items()}

    @hookimpl(tryfirst=True)
    def after_experience(self, learner: Learner, experience: Experience) -> None:
        for name, value in learner.state_dict().items():
            assert torch.equal(value, self.after_stage_1[name])
        units = list(experience.outputs)
        others = [u for u in range(6) if u not in units]
        assert (self.bic.scale[others] == 1).all()
        assert (self.bic.shift[others] == 0).all()
        moved = experience.index > 0
        assert bool((self.bic.scale[units] != 1).all()) == moved
        assert bool((self.bic.shift[units] != 0).all()) == moved
        assert len(self.bic.scale[units].unique()) == 1


def test_bic_learns_two_numbers_on_samples_it_was_not_trained_on() -> None:
    bic = BiC(size=60, validation=0.2)
    watch = Stages(bic)
    stream = toy_stream("class")
    _, learner = toy_run([bic, watch], stream)
    held = {x.numpy().tobytes() for x in bic.validation_buffer.inputs[:12]}
    assert bic.validation_buffer.column("labels").bincount().tolist() == [2] * 6
    assert bic.buffer.column("labels").bincount().tolist() == [8] * 6
    assert not held & watch.trained
    # Predictions are alpha o + beta for the newest classes, o for the others.
    task = stream.tasks[2]
    x = task.data.gather(torch.arange(8))
    alpha, beta = float(bic.scale[4]), float(bic.shift[4])
    with torch.no_grad():
        plain = learner.model(x)
    expected = plain.clone()
    expected[:, 4:] = alpha * plain[:, 4:] + beta
    assert torch.allclose(bic.predict(learner, x, task), expected, atol=1e-5)


def test_stage_2_finds_the_correction() -> None:
    """Against a search over a grid; the loss is convex in both numbers."""
    generator = torch.Generator().manual_seed(0)
    outputs = 2 * torch.randn(60, 4, generator=generator)
    labels = torch.randint(4, (60,), generator=generator)
    outputs[torch.arange(60), labels] += 1.5
    outputs[:, 2:] = 2 * outputs[:, 2:] + 3  # a bias towards the new ones
    bic = BiC(size=60, bias_steps=2000)
    bic.scale, bic.shift, bic._new = torch.ones(4), torch.zeros(4), torch.tensor([2, 3])
    bic.correct(outputs, labels)

    def loss(alpha: float, beta: float) -> float:
        q = outputs.double().clone()
        q[:, 2:] = alpha * q[:, 2:] + beta
        return -float(q.log_softmax(1)[torch.arange(60), labels].mean())

    best = min(loss(a / 50, b / 20) for a in range(0, 80) for b in range(-80, 20))
    found = loss(float(bic.scale[2]), float(bic.shift[3]))
    assert best - 1e-3 < found < best + 1e-4
    assert found < loss(1.0, 0.0) - 0.3


def test_bic_refuses_a_validation_part_of_nothing() -> None:
    for size, part in ((100, 0.0), (100, 1.0), (4, 0.1)):
        with pytest.raises(SettingError, match=f"samples of bic.size={size} on both sides"):
            BiC(size=size, validation=part)


# ---------------------------------------------------------------- LUCIR


class Losses(Plugin):
    """Recomputes LUCIR's three losses, a sample at a time."""

    def __init__(self) -> None:
        self.checked = 0

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Learner) -> None:
        self.former = copy.deepcopy(learner.model)

    @hookimpl(trylast=True)
    def before_epoch(self, learner: Learner, epoch: int) -> None:
        """Old embeddings stay, new ones are imprinted."""
        head, n_old = learner.model.head, 2 * len(learner.seen)
        assert isinstance(head, CosineHead)
        if not n_old:
            return
        assert torch.equal(head.weight[:n_old], self.former.head.weight[:n_old])  # type: ignore[union-attr,index]
        if learner.epoch == 0 and learner.experience is not None:
            data = learner.experience.data
            with torch.no_grad():
                f = self.former.features(data.gather(torch.arange(len(data))))  # type: ignore[operator]
            length = sum(row.norm().item() for row in head.weight[:n_old]) / n_old
            for label in learner.experience.outputs:
                mean = torch.stack([v / v.norm() for v in f[data.labels == label]]).mean(0)
                expected = length * mean / mean.norm()
                assert torch.allclose(head.weight[label], expected, atol=1e-5)

    @hookimpl
    def after_backward(self, learner: Learner, step: Step) -> None:
        n_old = 2 * len(learner.seen)
        batch, head = step.batch, learner.model.head
        with torch.no_grad():
            features = learner.model.features(batch.x).double()  # type: ignore[operator]
            former = self.former.features(batch.x).double()  # type: ignore[operator]
        weight, eta = head.weight.detach().double(), head.eta.item()  # type: ignore[union-attr]
        ce = kept = apart = 0.0
        n_exemplars = 0
        for f, g, y in zip(features, former, batch.y.tolist(), strict=True):
            cosine = [float(w @ f / (w.norm() * f.norm())) for w in weight]
            z = [math.exp(eta * c) for c in cosine[: n_old + 2]]
            ce -= math.log(z[y] / sum(z))
            kept += 1 - float(f @ g / (f.norm() * g.norm()))
            if y < n_old:
                n_exemplars += 1
                apart += sum(max(0.0, 0.6 - cosine[y] + c) for c in cosine[n_old : n_old + 2])
        loss = ce / len(batch)
        if n_old:
            loss += 3.0 * math.sqrt(n_old / 2) * kept / len(batch)
            loss += apart / max(n_exemplars, 1)
        assert step.loss is not None
        assert step.loss.item() == pytest.approx(loss, rel=1e-4)
        self.checked += n_exemplars


def test_the_three_losses_of_lucir() -> None:
    watch = Losses()
    _, learner = toy_run([LUCIR(6, weight=3.0, margin=0.6), watch], toy_stream("class"))
    assert watch.checked == 2 * (2 * 6 + 4 * 6)
    assert isinstance(learner.model.features[-1], nn.Identity)  # type: ignore[index]
    assert not (learner.model.features(torch.randn(9, 8)) >= 0).all()  # type: ignore[operator]


def test_only_the_nearest_new_classes_count() -> None:
    from clframe_contrib.lucir import separation

    cosines = torch.tensor([[0.5, 0.1, 0.4, 0.3], [0.2, 0.6, 0.1, 0.1]])
    labels, old = torch.tensor([0, 1]), torch.tensor([True, False])
    one = separation(cosines, labels, old, torch.tensor([1, 2, 3]), 1, 0.5)
    two = separation(cosines, labels, old, torch.tensor([1, 2, 3]), 2, 0.5)
    assert [one.item(), two.item()] == pytest.approx([0.4, 0.4 + 0.3])


@pytest.mark.parametrize("name", ["wa", "lucir", "scr", "xder"])
def test_a_model_without_a_linear_head_is_refused(name: str) -> None:
    prepared = prepare_toy([make(name)], toy_stream("class"))
    prepared.learner.model = nn.Linear(8, 6)
    with pytest.raises(PluginError, match=f"'{name}' needs a model with 'features' and a"):
        run(prepared.learner, prepared.stream, "toy")
