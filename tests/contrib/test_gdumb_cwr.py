from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from clframe_contrib.cwr_star import CWRStar  # type: ignore[import-not-found]
from clframe_contrib.gdumb import GDumb  # type: ignore[import-not-found]
from torch import nn

import clframe
from clframe import Budget, Data, Experience, Learner, Plugin, PluginError, hookimpl
from clframe.run import run
from clframe.testing import check_plugin, interrupted_run, prepare_toy, toy_run, toy_stream


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_gdumb_keeps_the_contract(scenario: Any) -> None:
    check_plugin(GDumb(size=20, epochs=3), toy_stream(scenario))


def test_gdumb_learns_its_balanced_memory_from_the_first_weights() -> None:
    plugin = GDumb(size=21, epochs=4, batch_size=8, min_lr=1.0)
    stream = toy_stream("class")
    prepared = prepare_toy([plugin], stream)
    learner = prepared.learner
    first = {k: v.clone() for k, v in learner.model.state_dict().items()}
    run(learner, stream, "toy")
    assert sorted(plugin.buffer.column("labels").bincount().tolist()) == [3, 3, 3, 4, 4, 4]
    trained = {k: v.clone() for k, v in learner.model.state_dict().items()}

    learner.model.load_state_dict(first)
    optimizer = torch.optim.Adam(learner.model.parameters(), lr=0.01)
    x, y = plugin.buffer.inputs[:21], plugin.buffer.column("labels")
    for epoch in range(4):
        from clframe.data.sampler import epoch_order

        for chosen in epoch_order(21, 0, 2, epoch).split(8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(learner.model(x[chosen]), y[chosen]).backward()
            optimizer.step()
    for key, value in learner.model.state_dict().items():
        assert torch.allclose(value, trained[key], atol=1e-6)


class Rates(Plugin):
    def __init__(self) -> None:
        self.rates: list[float] = []

    @hookimpl(trylast=True)
    def before_epoch(self, learner: Learner, experience: Experience) -> None:
        assert learner.optimizer is not None
        if experience.index == 1:
            self.rates.append(learner.optimizer.param_groups[0]["lr"])


def test_gdumb_restarts_a_cosine_after_1_2_4_epochs() -> None:
    watch = Rates()
    toy_run([GDumb(size=20, epochs=7, min_lr=0.01), watch], toy_stream())
    cosine = [math.cos(math.pi * t / n) for n in (1, 2, 4) for t in range(n)]
    expected = [0.0001 + (0.01 - 0.0001) * (1 + c) / 2 for c in cosine]
    assert watch.rates == pytest.approx(expected)


def test_gdumb_takes_the_budget_of_the_run_if_asked() -> None:
    class Count(Plugin):
        steps = 0

        @hookimpl
        def after_step(self) -> None:
            self.steps += 1

    count = Count()
    toy_run([GDumb(size=20, epochs=None), count], toy_stream())
    assert count.steps == 3 * 2 * 2  # 20 samples in batches of 16, two epochs
    assert Budget().epochs == 1


def test_gdumb_keeps_digits() -> None:
    result = clframe.fit(
        clframe.stream("split_mnist", scenario="class"), {"gdumb": {"size": 300, "epochs": 7}},
        {"name": "mlp", "hidden": [100]}, optimizer={"name": "adam", "lr": 0.003},
        run_dir=False, progress=False, logger=None,
    )  # fmt: skip
    assert result.matrix.values[-1].mean() > 0.5


@pytest.mark.parametrize("scenario", ["domain", "class"])
def test_cwr_keeps_the_contract(scenario: Any) -> None:
    check_plugin(CWRStar(), toy_stream(scenario))
    stream = toy_stream(scenario)
    whole, _ = toy_run([CWRStar()], stream, reset_optimizer=True)
    parts = interrupted_run([CWRStar()], stream, reset_optimizer=True)
    assert (whole.matrix.values == parts.matrix.values).all()


class Consolidation(Plugin):
    """Follows the paper's algorithm class by class."""

    def __init__(self) -> None:
        self.rows: dict[int, torch.Tensor] = {}
        self.past: dict[int, int] = {}
        self.features: dict[str, torch.Tensor] = {}

    @hookimpl(trylast=True)
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        model: Any = learner.model
        for unit in range(learner.stream.n_outputs):
            known = unit in self.rows and unit in experience.outputs
            start = self.rows[unit] if known else torch.zeros(model.n_features)
            assert torch.allclose(model.head.weight[unit], start, atol=1e-6)
        self.features = {k: v.clone() for k, v in model.features.state_dict().items()}

    @hookimpl(tryfirst=True)
    def after_experience(self, learner: Learner, experience: Experience, data: Data) -> None:
        model: Any = learner.model
        frozen = [torch.equal(v, self.features[k]) for k, v in model.features.state_dict().items()]
        assert all(frozen) if len(learner.seen) > 1 else not any(frozen)
        weight = model.head.weight.detach()
        units = experience.outputs
        mean = sum(float(weight[u].sum()) for u in units) / (len(units) * weight.shape[1])
        for unit in units:
            now, past = int((data.labels == unit).sum()), self.past.get(unit, 0)
            w = math.sqrt(past / now)
            old = self.rows.get(unit, torch.zeros(weight.shape[1]))
            self.rows[unit] = (old * w + (weight[unit] - mean)) / (w + 1)
            self.past[unit] = past + now


@pytest.mark.parametrize("scenario", ["domain", "class"])
def test_cwr_against_the_algorithm_class_by_class(scenario: Any) -> None:
    watch = Consolidation()
    _, learner = toy_run([CWRStar(), watch], toy_stream(scenario))
    model: Any = learner.model
    for unit, row in watch.rows.items():
        assert torch.allclose(model.head.weight[unit], row, atol=1e-6)
    assert all(p.requires_grad for p in learner.model.parameters())


def test_cwr_forgets_less_than_fine_tuning() -> None:
    stream = toy_stream("class")
    naive, _ = toy_run([], stream, max_epochs=5)
    ours, _ = toy_run([CWRStar()], stream, max_epochs=5)
    assert ours.matrix.values[-1].mean() > naive.matrix.values[-1].mean() + 0.05
    assert ours.matrix.values[-1][0] > naive.matrix.values[-1][0] + 0.3


def test_cwr_refuses_a_model_without_a_head() -> None:
    prepared = prepare_toy([CWRStar()], toy_stream())
    prepared.learner.model = nn.Linear(8, 6)
    with pytest.raises(PluginError, match="'cwr_star' needs a model"):
        run(prepared.learner, prepared.stream, "toy")
