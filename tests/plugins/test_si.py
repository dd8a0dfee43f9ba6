from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.nn import functional

from clframe import SettingError
from clframe.data.sampler import epoch_order
from clframe.plugins.si import SI
from clframe.run import run
from clframe.testing import check_plugin, prepare_toy, toy_stream


def test_equals_a_step_by_step_reference() -> None:
    """Training with SI written out by hand: same parameters, same importance at the end."""
    stream = toy_stream("domain", samples=24)
    plugin = SI(c=3.0, damping=0.05)
    prepared = prepare_toy([plugin], stream)
    model = copy.deepcopy(prepared.learner.model)
    run(prepared.learner, stream, "toy")

    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    omega = [torch.zeros_like(p) for p in model.parameters()]
    end = [p.detach().clone() for p in model.parameters()]
    for experience in stream:
        data = experience.data
        start = [p.detach().clone() for p in model.parameters()]
        path = [torch.zeros_like(p) for p in start]
        for epoch in range(2):
            order = epoch_order(len(data), 0, experience.index, epoch)
            for chunk in order.split(16):
                old = [p.detach().clone() for p in model.parameters()]
                loss = functional.cross_entropy(model(data.gather(chunk)), data.labels[chunk])
                for p, o, e in zip(model.parameters(), omega, end, strict=True):
                    loss = loss + 3.0 * (o * (p - e) ** 2).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for w, p, b in zip(path, model.parameters(), old, strict=True):
                    assert p.grad is not None
                    w -= p.grad * (p.detach() - b)
        for o, w, p, s in zip(omega, path, model.parameters(), start, strict=True):
            o += w / ((p.detach() - s) ** 2 + 0.05)
        end = [p.detach().clone() for p in model.parameters()]

    for name, p, o in zip(plugin.quadratic.strength, model.parameters(), omega, strict=True):
        learned = prepared.learner.named_trainable()[name]
        assert torch.allclose(learned, p, atol=1e-4), name
        assert torch.allclose(plugin.quadratic.anchor[name], learned), name
        difference = (plugin.quadratic.strength[name] - o).abs().max()
        assert float(difference) <= 1e-3 * float(o.abs().max()), name


def test_parameters_without_a_gradient_get_no_importance() -> None:
    stream = toy_stream("domain", n_experiences=1)
    plugin = SI()
    prepared = prepare_toy([plugin], stream)
    prepared.learner.model.register_parameter("idle", torch.nn.Parameter(torch.ones(3)))
    run(prepared.learner, stream, "toy")
    assert plugin.quadratic.strength["idle"].tolist() == [0.0, 0.0, 0.0]
    assert float(plugin.quadratic.strength["head.weight"].abs().max()) > 0


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_contract(scenario: Any) -> None:
    check_plugin(SI(c=1.0), toy_stream(scenario))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SettingError, match=r"si\.c must be at least 0"):
        SI(c=-1.0)
    with pytest.raises(SettingError, match=r"si\.damping must be above 0"):
        SI(damping=0.0)
