"""Every method continues at the exact step after being killed, and ends with the same bits."""

from __future__ import annotations

import copy

import pytest
import torch

from clframe.core.stream import Scenario
from clframe.run import run
from clframe.testing import Kill, killed_run, prepare_toy, toy_stream
from tests.helpers.methods import METHODS, make

TOGETHER = [
    (["ewc", "replay"], "class"),
    (["si", "lwf"], "task"),
    (["packnet", "replay", "lwf"], "task"),
    (["generative_replay", "ewc"], "domain"),
]


def check(names: list[str], scenario: Scenario) -> None:
    stream = toy_stream(scenario, samples=24)
    plugins = [make(name) for name in names]
    # Measured on the way as well, which draws no random numbers but changes states.
    whole = prepare_toy([*copy.deepcopy(plugins), Kill(10**9)], stream, check_val_every_n_epoch=1)
    first = run(whole.learner, stream, "toy")
    again, learner = killed_run(plugins, stream, every=2, after=5, check_val_every_n_epoch=1)
    assert (first.matrix.values == again.matrix.values).all()
    assert first.curves == again.curves
    for name, value in learner.state_dict().items():
        assert torch.equal(value, whole.learner.state_dict()[name]), name
    assert torch.equal(learner.generator.get_state(), whole.learner.generator.get_state())
    assert learner.global_steps == whole.learner.global_steps
    assert learner.samples == whole.learner.samples


@pytest.mark.parametrize("name", METHODS)
def test_a_method_continues_at_any_step(name: str) -> None:
    check([name], make(name).scenarios[0])


@pytest.mark.parametrize(("names", "scenario"), TOGETHER)
def test_compositions_continue_at_any_step(names: list[str], scenario: Scenario) -> None:
    check(names, scenario)
