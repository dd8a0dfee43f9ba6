from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import clframe
from clframe import Learner, Plugin, PluginError, hookimpl
from clframe.plugins.freeze import Freeze
from clframe.testing import check_plugin, interrupted_run, toy_run, toy_stream


class Features(Plugin):
    """Keeps the features' state after every experience, and pulls on all parameters."""

    def __init__(self) -> None:
        self.states: list[dict[str, Tensor]] = []
        self.heads: list[Tensor] = []

    @hookimpl
    def penalty(self, learner: Learner) -> Tensor:
        return sum(p.square().sum() for p in learner.parameters())  # type: ignore[return-value]

    @hookimpl
    def after_evaluation(self, learner: Learner) -> None:
        model: Any = learner.model
        self.states.append({k: v.clone() for k, v in model.features.state_dict().items()})
        self.heads.append(model.head.weight.detach().clone())


def equal(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("optimizer", ["adam", {"name": "adamw", "weight_decay": 0.5}])
def test_features_stop_and_the_head_keeps_learning(after: int, optimizer: Any) -> None:
    watch = Features()
    clframe.fit(
        toy_stream("class"),
        [watch, Freeze(after=after)],
        nn_model(),
        optimizer=optimizer,
        max_epochs=2,
        batch_size=16,
        run_dir=False,
        progress=False,
        logger=None,
    )
    for row in range(1, 4):
        assert equal(watch.states[row], watch.states[row - 1]) == (row > after)
        assert not torch.equal(watch.heads[row], watch.heads[row - 1])


def nn_model() -> nn.Module:
    from clframe.models.classifier import Classifier

    body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5))
    return Classifier(body, 16, 6)


@pytest.mark.parametrize("after", [0, 1])
def test_it_keeps_the_contract(after: int) -> None:
    check_plugin(Freeze(after=after))


def test_a_continued_run_fits_the_saved_optimizer() -> None:
    stream = toy_stream("class")
    whole, _ = toy_run([Freeze()], stream, reset_optimizer=True)
    parts = interrupted_run([Freeze()], stream, reset_optimizer=True)
    assert (whole.matrix.values == parts.matrix.values).all()


def test_linear_probe_is_a_strategy() -> None:
    result = clframe.fit(
        toy_stream("task"), "linear_probe", max_epochs=3, run_dir=False, progress=False, logger=None
    )
    assert result.matrix.values[-1].mean() > 0.9


def test_a_model_without_features_is_refused() -> None:
    with pytest.raises(PluginError, match="'features' and 'head', which Sequential lacks"):
        clframe.fit(
            toy_stream("class"),
            Freeze(),
            nn.Sequential(nn.Linear(8, 6)),
            run_dir=False,
            logger=None,
        )
