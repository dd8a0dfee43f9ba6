from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from clframe.models.mlp import mlp


@pytest.mark.parametrize("init", ["torch", "xavier"])
def test_weights_are_uniform_within_the_bound_that_is_documented(init: str) -> None:
    torch.manual_seed(0)
    model = mlp((4, 5), 10, hidden=(300, 200), init=init)  # type: ignore[arg-type]
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == [(20, 300), (300, 200), (200, 10)]
    for layer in layers:
        n, m = layer.in_features, layer.out_features
        bound = math.sqrt(6 / (n + m)) if init == "xavier" else 1 / math.sqrt(n)
        weights = layer.weight.detach()
        assert 0.98 * bound < float(weights.abs().max()) <= bound
        # The deviation of a uniform distribution is its half-width divided by the root of 3.
        assert float(weights.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert bool((layer.bias == 0).all()) == (init == "xavier")
