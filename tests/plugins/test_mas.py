from __future__ import annotations

from typing import Any

import pytest
import torch

from clframe import Learner, SettingError
from clframe.plugins import _per_sample
from clframe.plugins.mas import MAS
from clframe.run import set_up
from clframe.testing import check_plugin, prepare_toy, toy_run, toy_stream


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("by_vmap", [False, True])
def test_importance_equals_autograd_sample_by_sample(
    scenario: Any, by_vmap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = toy_stream(scenario, samples=5)
    plugin = MAS()
    learner = prepare_toy([plugin], stream).learner
    set_up(learner, stream, None)
    learner.begin(stream.experiences[0])
    learner.begin(stream.experiences[1])
    units = {"task": [2, 3], "domain": [0, 1], "class": [0, 1, 2, 3]}[scenario]
    data = stream.experiences[1].data
    if by_vmap:
        monkeypatch.setattr(_per_sample, "linear_layers", lambda *arguments: None)
    found = plugin.importance(learner, data)
    for name, p in learner.named_trainable().items():
        expected = torch.zeros_like(p)
        for i in range(len(data)):
            out = learner.model(data.gather(torch.tensor([i])))[0, units]
            expected += torch.autograd.grad((out * out).sum(), p)[0].abs() / len(data)
        assert torch.allclose(found[name], expected, rtol=1e-4, atol=1e-6), name


@pytest.mark.parametrize("accumulate", ["sum", "mean"])
def test_importance_is_summed_or_averaged(accumulate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, torch.Tensor]] = []
    anchor: dict[str, torch.Tensor] = {}
    real = MAS.importance

    def recorded(self: MAS, learner: Learner, *arguments: Any) -> dict[str, torch.Tensor]:
        found.append(real(self, learner, *arguments))
        anchor.update((n, p.detach().clone()) for n, p in learner.named_trainable().items())
        return found[-1]

    monkeypatch.setattr(MAS, "importance", recorded)
    plugin = MAS(weight=0.1, accumulate=accumulate)
    toy_run([plugin], toy_stream("class", n_experiences=4))
    assert len(found) == 3  # none after the last experience, which nothing follows
    for name in anchor:
        total = torch.stack([one[name] for one in found]).sum(0)
        expected = total if accumulate == "sum" else total / 3
        assert torch.allclose(plugin.quadratic.strength[name], expected, rtol=1e-5), name
        assert torch.equal(plugin.quadratic.anchor[name], anchor[name])


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_contract(scenario: Any) -> None:
    check_plugin(MAS(samples=30), toy_stream(scenario))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SettingError, match=r"mas\.weight must be at least 0"):
        MAS(weight=-1.0)
