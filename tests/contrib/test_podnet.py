from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from clframe_contrib.podnet import (  # type: ignore[import-not-found]
    LocalSimilarity,
    PODNet,
    centers,
    nca_loss,
    pod_flat,
    pod_spatial,
    stages,
)
from torch import nn

from clframe import Learner, Plugin, PluginError, Step, hookimpl
from clframe.run import run
from clframe.testing import check_plugin, prepare, prepare_toy, run_built, toy_run, toy_stream
from tests.helpers.toy_images import toy_images


def test_it_keeps_the_contract() -> None:
    check_plugin(PODNet(per_class=4, proxies=3, finetune_epochs=1), toy_stream("class"))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("form", ["code", "paper"])
def test_pooled_maps_against_a_plain_loop(form: Any) -> None:
    old, new = random(3, 2, 4, 5, seed=1), random(3, 2, 4, 5, seed=2)
    total = 0.0
    for a, b in zip(old.numpy(), new.numpy(), strict=True):
        pooled = []
        for maps in (a, b):
            maps = maps**2 if form == "code" else maps
            sums = [maps[c, h, :].sum() for c in range(2) for h in range(4)]
            sums += [maps[c, :, w].sum() for c in range(2) for w in range(5)]
            vector = np.array(sums)
            pooled.append(vector / np.linalg.norm(vector) if form == "code" else vector)
        distance = np.linalg.norm(pooled[0] - pooled[1])
        total += distance if form == "code" else distance**2
    assert float(pod_spatial(old, new, form)) == pytest.approx(total / 3, rel=1e-5)
    features = random(3, 6, seed=3), random(3, 6, seed=4)
    a, b = (f.numpy() for f in features)
    flat = [
        1 - x @ y / np.linalg.norm(x) / np.linalg.norm(y)
        if form == "code"
        else ((x - y) ** 2).sum()
        for x, y in zip(a, b, strict=True)
    ]
    assert float(pod_flat(*features, form)) == pytest.approx(np.mean(flat), rel=1e-5)


def test_equal_maps_have_a_finite_gradient() -> None:
    maps = random(2, 3, 4, 4).requires_grad_()
    pod_spatial(maps.detach().clone(), maps, "code").backward()
    assert maps.grad is not None
    assert not maps.grad.any()


def test_similarities_and_their_loss_against_a_plain_loop() -> None:
    head = LocalSimilarity(6, 4, 3, 2.5, torch.Generator().manual_seed(0)).double()
    features, labels = random(5, 6), torch.tensor([0, 1, 2, 3, 1])
    outputs = head(features)
    total = 0.0
    for row, (x, label) in enumerate(zip(features.numpy(), labels.tolist(), strict=True)):
        similarity = []
        for of_class in head.weight.detach().numpy():
            cosines = [x @ w / np.linalg.norm(x) / np.linalg.norm(w) for w in of_class]
            softmax = [math.exp(c) / sum(math.exp(d) for d in cosines) for c in cosines]
            similarity.append(sum(s * c for s, c in zip(softmax, cosines, strict=True)))
        assert outputs[row].tolist() == pytest.approx([2.5 * s for s in similarity])
        others = sum(math.exp(2.5 * s) for k, s in enumerate(similarity) if k != label)
        own = math.exp(2.5 * (similarity[label] - 0.6))
        total += max(0.0, -math.log(own / others))
    loss = nca_loss(outputs, labels, head.scale, 0.6)
    assert loss.item() == pytest.approx(total / 5, rel=1e-5)


class LossByHand(Plugin):
    """Adds up the loss of a step from its parts."""

    def __init__(self, flat: float) -> None:
        self.flat, self.checked = flat, 0

    @hookimpl(trylast=True)
    def before_experience(self, learner: Learner) -> None:
        self.old = {k: v.clone() for k, v in learner.model.features.state_dict().items()}  # type: ignore[union-attr]
        self.tuning = False

    @hookimpl(tryfirst=True)
    def after_experience(self) -> None:
        self.tuning = True

    @hookimpl
    def after_backward(self, learner: Learner, step: Step) -> None:
        if not learner.seen or self.tuning:
            return
        model: Any = learner.model
        with torch.no_grad():
            now = model.features(step.batch.x)
            then = torch.func.functional_call(model.features, self.old, (step.batch.x,))
            expected = nca_loss(step.outputs[0], step.batch.y, model.head.scale, 0.6)
            seen = 2 * len(learner.seen) + 2
            expected = expected + math.sqrt(seen / 2) * self.flat * pod_flat(then, now, "code")
        assert step.loss is not None
        assert step.loss.item() == pytest.approx(expected.item(), rel=1e-4)
        self.checked += 1


def test_the_loss_of_a_step() -> None:
    watch = LossByHand(2.0)
    plugin = PODNet(per_class=4, proxies=3, flat=2.0, finetune_epochs=1)
    toy_run([plugin, watch], toy_stream("class"))
    # 88 and 96 samples in batches of 16, two epochs each.
    assert watch.checked == 2 * (6 + 6)
    assert plugin.buffer.column("labels").bincount().tolist() == [4] * 6


def test_only_the_head_is_trained_on_the_exemplars() -> None:
    kept: list[dict[str, torch.Tensor]] = []

    class Look(Plugin):
        @hookimpl(tryfirst=True)
        def after_experience(self, learner: Learner) -> None:
            kept.append({k: v.clone() for k, v in learner.model.state_dict().items()})

    _, learner = toy_run([PODNet(per_class=4, proxies=3), Look()], toy_stream("class"))
    for name, value in learner.model.state_dict().items():
        assert torch.equal(value, kept[-1][name]) == name.startswith("features"), name
    assert all(p.requires_grad for p in learner.model.parameters())


def test_the_stages_of_a_network() -> None:
    built = prepare("split_mnist", [PODNet()], {"name": "cnn", "channels": [4, 6], "features": 8})
    # 28 x 28 after the first ReLU, 14 x 14 after the second, 7 x 7 after the last pooling.
    assert stages(built.learner.model, (1, 28, 28)) == ["features.1", "features.4", "features.5"]
    assert stages(prepare_toy([], toy_stream()).learner.model, (8,)) == []


def test_centers_of_clear_groups() -> None:
    rows = torch.cat([torch.full((5, 2), v) + 0.01 * random(5, 2).float() for v in (0.0, 9.0)])
    found = centers(rows, 2, torch.Generator().manual_seed(1)).mean(1).sort().values
    assert found.tolist() == pytest.approx([0.0, 9.0], abs=0.02)
    assert centers(rows[:1], 3, torch.Generator()).tolist() == [rows[0].tolist()] * 3


def test_it_keeps_classes_with_maps() -> None:
    model = {"name": "cnn", "channels": [8], "features": 32}
    how = {"max_epochs": 6, "batch_size": 16}
    final = []
    for plugins in ([PODNet(scale=5.0, finetune_epochs=5)], []):
        built = prepare(toy_images("class"), plugins, model, trainer=how,
                        optimizer={"name": "adam", "lr": 0.01})  # fmt: skip
        final.append(run_built(built).matrix.values[-1])
    assert final[0].mean() > 0.8
    assert final[0][0] > final[1][0] + 0.3


def test_a_model_without_a_head_is_refused() -> None:
    prepared = prepare_toy([PODNet()], toy_stream())
    prepared.learner.model = nn.Linear(8, 6)
    with pytest.raises(PluginError, match="'podnet' needs a model with 'features' and a"):
        run(prepared.learner, prepared.stream, "toy")
