from __future__ import annotations

from typing import Any

import pytest
import torch
from clframe_contrib.der import DER, DERpp  # type: ignore[import-not-found]
from clframe_contrib.er_ace import ERACE, loss_among_present  # type: ignore[import-not-found]
from torch import nn
from torch.nn import functional

import clframe
from clframe import Batch, Learner, Plugin, PluginError, Step, hookimpl
from clframe.run import run
from clframe.testing import check_plugin, prepare_toy, toy_run, toy_stream


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("plugin", [DER(size=20), DERpp(size=20, batch_size=5)])
def test_der_keeps_the_contract(plugin: Plugin, scenario: Any) -> None:
    check_plugin(plugin, toy_stream(scenario))


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_er_ace_keeps_the_contract(scenario: Any) -> None:
    check_plugin(ERACE(size=20), toy_stream(scenario))


class Terms(Plugin):
    """Recomputes DER's loss from the parts of the step and a list of logits seen so far."""

    def __init__(self, alpha: float, beta: float | None) -> None:
        self.alpha, self.beta = alpha, beta
        self.once: dict[bytes, list[torch.Tensor]] = {}
        self.checked = 0

    @hookimpl
    def after_backward(self, learner: Learner, step: Step) -> None:
        with torch.no_grad():
            logits = [learner.model(part.x) for part in step.parts]
        assert step.loss is not None
        expected = functional.cross_entropy(step.outputs[0].detach(), step.batch.y)
        if len(step.parts) > 1:
            # A sample is seen once an epoch; any of the logits it had then may be the stored ones.
            drift = torch.tensor(0.0)
            for x, now in zip(step.parts[1].x, logits[1], strict=True):
                assert x.numpy().tobytes() in self.once
                drift += (now - self.once[x.numpy().tobytes()][-1]).square().mean()
            expected = expected + self.alpha * drift / len(step.parts[1])
            if self.beta is not None:
                labeled = functional.cross_entropy(step.outputs[2].detach(), step.parts[2].y)
                expected = expected + self.beta * labeled
            assert step.loss.item() == pytest.approx(expected.item(), rel=1e-4)
            self.checked += 1
        for x, now in zip(step.batch.x, logits[0], strict=True):
            self.once.setdefault(x.numpy().tobytes(), []).append(now)


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_der_adds_the_distance_from_the_logits_of_the_time(scenario: Any) -> None:
    # One epoch, so that a sample has one set of logits only.
    watch = Terms(0.7, None)
    toy_run([DER(size=30, alpha=0.7), watch], toy_stream(scenario), max_epochs=1)
    assert watch.checked == 3 * 5 - 1
    watch = Terms(0.7, 0.3)
    plugin = DERpp(size=30, alpha=0.7, beta=0.3, batch_size=9)
    toy_run([plugin, watch], toy_stream(scenario), max_epochs=1)
    assert watch.checked == 3 * 5 - 1


def test_der_refuses_a_model_without_features() -> None:
    prepared = prepare_toy([DER()], toy_stream())
    prepared.learner.model = nn.Linear(8, 6)
    with pytest.raises(PluginError, match="'der' needs a model with 'features'"):
        run(prepared.learner, prepared.stream, "toy")


def test_current_samples_compete_among_the_classes_of_their_batch() -> None:
    outputs = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([1, 3, 3, 1, 1, 3])
    loss = loss_among_present(outputs, Batch(None, y, torch.zeros(6)))
    plain = functional.cross_entropy(outputs[:, [1, 3]], (y == 3).long())
    assert loss.item() == pytest.approx(plain.item(), rel=1e-6)


class Sum(Plugin):
    """Recomputes ER-ACE's loss."""

    checked = 0

    @hookimpl
    def after_backward(self, step: Step) -> None:
        if len(step.parts) == 1:
            return
        present = step.batch.y.unique()
        place = (step.batch.y[:, None] == present).long().argmax(1)
        current = functional.cross_entropy(step.outputs[0].detach()[:, present], place)
        remembered = functional.cross_entropy(step.outputs[1].detach(), step.parts[1].y)
        assert step.loss is not None
        assert step.loss.item() == pytest.approx((current + remembered).item(), rel=1e-5)
        self.checked += 1


def test_er_ace_adds_the_loss_of_the_memory_over_all_classes() -> None:
    watch = Sum()
    toy_run([ERACE(size=30, batch_size=7), watch], toy_stream("class"))
    assert watch.checked == 3 * 10 - 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("der", 0.5), ("derpp", 0.6), ("er_ace", 0.6)])
def test_they_keep_digits(name: str, least: float) -> None:
    result = clframe.fit(
        clframe.stream("split_mnist", scenario="class"), name,
        {"name": "mlp", "hidden": [100]}, max_steps=60, batch_size=64,
        optimizer={"name": "adam", "lr": 0.003}, run_dir=False, progress=False, logger=None,
    )  # fmt: skip
    assert result.matrix.values[-1].mean() > least
