"""Optimizers by name are PyTorch's, with the settings they are given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from clframe.core.factory import make
from clframe.core.registry import discover
from clframe.errors import SettingError
from clframe.training import optimizers


@pytest.mark.parametrize(
    ("factory", "kind", "expected"),
    [
        (optimizers.adam, torch.optim.Adam, {"lr": 1e-3, "weight_decay": 0.0}),
        (optimizers.adamw, torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 1e-2}),
        (optimizers.sgd, torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.0, "momentum": 0.0}),
    ],
)
def test_each_makes_its_own_kind(factory: Any, kind: type, expected: dict[str, float]) -> None:
    optimizer = factory()(nn.Linear(2, 2).parameters())
    assert type(optimizer) is kind
    assert expected.items() <= optimizer.defaults.items()
    assert optimizer.defaults["fused"]
    given = factory(lr=0.5, weight_decay=0.25, fused=False)(nn.Linear(2, 2).parameters())
    assert given.defaults["lr"] == 0.5
    assert given.defaults["weight_decay"] == 0.25
    assert not given.defaults["fused"]


def test_settings_of_one_kind_arrive() -> None:
    parameters = [nn.Parameter(torch.zeros(2))]
    assert optimizers.adamw(betas=(0.5, 0.6))(parameters).defaults["betas"] == (0.5, 0.6)
    sgd = optimizers.sgd(momentum=0.9, nesterov=True)(parameters)
    assert sgd.defaults["momentum"] == 0.9
    assert sgd.defaults["nesterov"]


@pytest.mark.parametrize(
    ("factory", "name"),
    [
        (optimizers.adam, "lr"),
        (optimizers.adamw, "weight_decay"),
        (optimizers.sgd, "lr"),
        (optimizers.sgd, "momentum"),
    ],
)
def test_negative_settings_are_refused(factory: Any, name: str) -> None:
    with pytest.raises(SettingError, match=rf"optimizer\.{name} must be at least 0, got -1"):
        factory(**{name: -1.0})


@pytest.mark.parametrize(
    ("optimizer", "sentence"),
    [
        ({"name": "sgd", "nesterov": True}, r"optimizer\.nesterov=true .* set optimizer\.momentum"),
        ({"name": "adam", "betas": []}, r"optimizer\.betas must be two numbers from 0 to below 1"),
        ({"name": "adamw", "betas": [1, 2]}, r"optimizer\.betas must be two .* got \[1\.0, 2\.0\]"),
    ],
)
def test_what_an_optimizer_cannot_be_is_said_before_the_run(
    optimizer: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SettingError, match=sentence):
        make(discover(), "optimizer", optimizer)
