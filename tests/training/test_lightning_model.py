"""A LightningModule as the model: its loss, optimizer and schedule, and plugins on top of them."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn import functional

import clframe
from clframe import Learner, Plugin, Step, hookimpl
from clframe.core.stream import Scenario
from clframe.testing import toy_stream

SETTINGS: dict[str, Any] = {"batch_size": 16, "progress": False, "logger": None}


class Lit(LightningModule):
    """As Lightning's users write it."""

    smoothing = 0.1
    lr = 0.5

    def __init__(self, outputs: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, outputs))
        self.calls: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)  # type: ignore[no-any-return]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        loss = functional.cross_entropy(self(x), y, label_smoothing=self.smoothing)
        self.log("lit/loss", loss, prog_bar=True)
        self.calls.append(self.global_step)
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.5)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Watch(Plugin):
    """Keeps the losses and learning rates of all steps."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.rates: list[float] = []

    @hookimpl
    def after_backward(self, learner: Learner, step: Step) -> None:
        assert step.loss is not None
        assert learner.optimizer is not None
        self.losses.append(step.loss.item())
        self.rates.append(learner.optimizer.param_groups[0]["lr"])


def test_its_step_optimizer_and_schedule_are_those_of_a_plain_loop() -> None:
    stream, model, watch = toy_stream("domain", n_experiences=2), Lit(2), Watch()
    clframe.fit(stream, [watch], model, max_epochs=1, run_dir=False, **SETTINGS)
    assert len(model.calls) == len(watch.losses) == 10
    assert model.calls == list(range(10))

    from clframe.data.sampler import epoch_order

    plain = Lit(2)
    made = plain.configure_optimizers()
    optimizer, schedule = made["optimizer"], made["lr_scheduler"]["scheduler"]
    losses, rates = [], []
    for experience in toy_stream("domain", n_experiences=2):
        data = experience.data
        order = epoch_order(len(data), 0, experience.index, 0)
        for batch in data.batches(order, 16):
            optimizer.zero_grad()
            logits = plain.net(batch.x)
            loss = functional.cross_entropy(logits, batch.y, label_smoothing=plain.smoothing)
            loss.backward()
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    assert watch.losses == pytest.approx(losses, rel=1e-5)
    assert watch.rates == pytest.approx(rates)
    assert watch.rates[6] == pytest.approx(0.25 * (1 + math.cos(math.pi * 6 / 12)))
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
@pytest.mark.parametrize(
    "strategy", ["naive", {"ewc": {"weight": 1.0}, "replay": {}}, "lwf", "si", "agem"]
)
def test_strategies_act_on_it(scenario: Scenario, strategy: Any) -> None:
    stream = toy_stream(scenario)
    model = Lit(stream.n_outputs)
    model.lr = 0.01
    result = clframe.fit(stream, strategy, model, max_epochs=2, run_dir=False, **SETTINGS)
    assert model.calls
    assert np.isfinite(result.matrix.values).all()
    assert result.metrics["gem"]["acc"] > 1 / stream.n_outputs


def test_a_penalty_is_added_to_its_loss() -> None:
    class Constant(Plugin):
        @hookimpl
        def penalty(self, learner: Learner) -> Tensor:
            return next(learner.parameters()).sum() * 0 + 5.0

    losses = []
    for more in ([], [Constant()]):
        watch = Watch()
        clframe.fit(toy_stream(), [watch, *more], Lit(), max_steps=2, run_dir=False, **SETTINGS)
        losses.append(watch.losses[0])
    assert losses[1] == pytest.approx(losses[0] + 5.0)


def test_outputs_that_do_not_compete_take_no_part_in_its_loss() -> None:
    model = Lit()
    before = model.net[2].weight.detach().clone()

    class Check(Plugin):
        @hookimpl
        def after_experience(self, learner: Learner) -> None:
            opened = 2 * len(learner.seen)
            weight = model.net[2].weight
            assert torch.equal(weight[opened:], before[opened:])
            assert not torch.equal(weight[opened - 2 : opened], before[opened - 2 : opened])

    clframe.fit(toy_stream(), [Check()], model, max_epochs=1, run_dir=False, **SETTINGS)


def test_it_is_resumed_with_its_optimizer_and_schedule(tmp_path: Path) -> None:
    class Cut(Plugin):
        at = -1

        @hookimpl
        def after_step(self, learner: Learner) -> None:
            if learner.global_step + 1 == self.at:
                raise RuntimeError("power cut")

    def fit(folder: str, at: int = -1, **more: Any) -> clframe.Result:
        cut = Cut()
        cut.at = at
        settings = {**SETTINGS, "logger": "csv", "checkpoint": {"every_n_steps": 3}}
        where = tmp_path / folder
        return clframe.fit(
            toy_stream(), [cut], Lit(), max_epochs=2, run_dir=where, **settings, **more
        )

    whole = fit("whole")
    with pytest.raises(RuntimeError, match="power cut"):
        fit("cut", at=17)
    resumed = fit("cut", resume="auto")
    assert np.array_equal(resumed.matrix.values, whole.matrix.values)
    tables = [(tmp_path / name / "csv" / "metrics.csv").read_text() for name in ("whole", "cut")]
    assert tables[0] == tables[1]
    rows = list(csv.DictReader(tables[0].splitlines()))
    assert sum(bool(row["lit/loss"]) for row in rows) == 30
    assert "configure_optimizers" in (tmp_path / "whole" / "config.yaml").read_text()


def other(**members: Any) -> Lit:
    return type("Other", (Lit,), members)()  # type: ignore[no-any-return]


def twice(self: Any, batch: Any) -> Tensor:
    return (self(batch[0]) + self(batch[0])).sum()  # type: ignore[no-any-return]


def changed(self: Any, batch: Any) -> Tensor:
    return self(batch[0] + 1).sum()  # type: ignore[no-any-return]


def bypassed(self: Any, batch: Any) -> Tensor:
    return self.net(batch[0]).sum()  # type: ignore[no-any-return]


def asks(self: Any, batch: Any) -> Tensor:
    return self(batch[0]).sum() / self.trainer.num_training_batches  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("members", "settings", "sentence"),
    [
        ({"on_after_backward": lambda self: None}, {}, "its on_after_backward would not be called"),
        ({"forward": LightningModule.forward}, {}, "has no forward"),
        ({"automatic_optimization": False}, {}, "uses manual optimization"),
        ({}, {"optimizer": "sgd"}, "so optimizer would have no effect"),
        ({"configure_optimizers": lambda self: None}, {}, "there must be one optimizer"),
        ({"training_step": twice}, {}, "calls self\\(x\\) 2 times"),
        ({"training_step": bypassed}, {}, "calls self\\(x\\) 0 times"),
        ({"training_step": changed}, {}, "do that in forward"),
        ({"training_step": asks}, {}, "trainer.num_training_batches, which does not exist here"),
        ({"training_step": lambda self, batch: {"los": self(batch[0])}}, {}, "not a loss"),
    ],
)
def test_what_cannot_be_honored_is_refused(
    members: Any, settings: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(clframe.ClframeError, match=sentence):
        clframe.fit(
            toy_stream(),
            "naive",
            other(**members),
            run_dir=tmp_path / "run",
            **SETTINGS,
            **settings,
        )


def test_a_module_without_a_step_is_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    class Network(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(8, 6)

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)  # type: ignore[no-any-return]

    clframe.fit(toy_stream(), "naive", Network(), max_steps=2, run_dir=False, **SETTINGS)
    validated = other(validation_step=lambda self, batch, batch_idx: None)
    clframe.fit(toy_stream(), "naive", validated, max_steps=2, run_dir=False, **SETTINGS)
    assert "its validation_step will not be called" in capsys.readouterr().err
