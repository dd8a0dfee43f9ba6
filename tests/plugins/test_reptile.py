"""Reptile and first-order MAML against calculations by hand, and adaptation to held-out tasks."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from clframe import SettingError, hookimpl
from clframe.core.plugin import Plugin
from clframe.core.stream import Stream
from clframe.plugins.reptile import Reptile
from clframe.testing import prepare, run_built, toy_run, toy_stream


class Witness(Plugin):
    """Writes down the parameters at the start of each step, and each step's gradient."""

    def __init__(self) -> None:
        self.starts: list[torch.Tensor] = []
        self.steps: list[list[tuple[torch.Tensor, torch.Tensor]]] = []

    @staticmethod
    def flat(tensors: Any) -> torch.Tensor:
        return torch.cat([t.detach().flatten() for t in tensors]).clone()

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Any) -> None:
        self.starts.append(self.flat(learner.named_trainable().values()))
        self.steps.append([])

    @hookimpl
    def after_backward(self, learner: Any) -> None:
        named = learner.named_trainable().values()
        self.steps[-1].append((self.flat(named), self.flat(p.grad for p in named)))

    @hookimpl
    def after_run(self, learner: Any) -> None:
        self.starts.append(self.flat(learner.named_trainable().values()))


def watched(plugin: Reptile) -> Witness:
    witness = Witness()
    run_built(
        prepare(
            toy_stream("domain", samples=10),
            [witness, plugin],
            {"name": "mlp", "hidden": [16]},
            optimizer={"name": "sgd", "lr": 0.1},
            trainer={"max_epochs": 1, "batch_size": 5},
        )
    )
    return witness


def test_reptile_is_the_sum_of_the_inner_gradients() -> None:
    """With plain SGD ``W - phi`` is ``-lr`` times that sum (Nichol et al., equation 26)."""
    seen = watched(Reptile(step=0.25))
    assert len(seen.steps) == 3
    for phi, following, steps in zip(seen.starts, seen.starts[1:], seen.steps, strict=False):
        assert len(steps) > 2
        total = sum(gradient for _, gradient in steps)
        torch.testing.assert_close(following, phi - 0.25 * 0.1 * total, rtol=1e-4, atol=1e-6)
        assert not torch.equal(following, phi)


def test_first_order_maml_takes_the_last_gradient() -> None:
    seen = watched(Reptile(step=0.25, form="fomaml"))
    for phi, following, steps in zip(seen.starts, seen.starts[1:], seen.steps, strict=False):
        # It is taken where all updates but the last one led.
        before_last, last = steps[-1]
        led = phi - 0.1 * sum(gradient for _, gradient in steps[:-1])
        torch.testing.assert_close(before_last, led, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(following, phi - 0.25 * last, rtol=1e-4, atol=1e-6)


def test_a_step_of_one_is_fine_tuning() -> None:
    stream = toy_stream("domain", samples=10)
    plain, _ = toy_run([], stream, max_epochs=1)
    tuned, _ = toy_run([Reptile(step=1.0)], stream, max_epochs=1)
    assert (plain.matrix.values == tuned.matrix.values).all()
    assert "adaptation" not in tuned.metrics


def adapting(n: int) -> Stream:
    """A toy stream whose experiences from the n-th on are adaptations."""
    stream = toy_stream("domain", samples=40)
    experiences = [
        dataclasses.replace(e, info={"adapts": e.index >= n}) for e in stream.experiences
    ]
    return dataclasses.replace(stream, experiences=experiences)


@pytest.mark.parametrize("form", ["reptile", "fomaml"])
def test_every_adaptation_begins_alike_and_changes_nothing_for_the_next(form: Any) -> None:
    witness = Witness()
    plugins = [Reptile(step=0.5, form=form), witness]  # which looks after the weights are set
    result, _ = toy_run(plugins, adapting(1), max_epochs=2)
    assert len(witness.starts) == 4
    # tryfirst: of two, the one that is named later comes first.
    values, first = result.matrix.values, witness.steps[1][0][0]
    torch.testing.assert_close(witness.steps[2][0][0], first)
    assert not torch.equal(witness.starts[-1], first)
    found = result.metrics["adaptation"]
    learned, columns = list(values[1, 1:]), [values[2, 1], values[3, 2]]
    assert found["before"] == pytest.approx(np.mean(learned))
    assert found["after"] == pytest.approx(np.mean(columns))
    assert found["gain"] == pytest.approx(np.mean(columns) - np.mean(learned))
    assert found["gain"] > 0


def test_a_step_must_lead_somewhere() -> None:
    with pytest.raises(SettingError, match=r"reptile.step must be above 0, got 0"):
        Reptile(step=0)
