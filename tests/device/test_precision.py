"""Mixed precision on a virtual GPU, which computes as the CPU does in that precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from clframe.build import Built
from clframe.testing import prepare_toy, toy_stream
from tests.helpers import device_runs, device_strategies

ON_GRADIENTS = (
    "agem",
    "bic",
    "ewc",
    "feedback_replay",
    "gdumb",
    "gem",
    "generative_replay",
    "gss",
    "mir",
    "packnet",
    "si",
)
"""Strategies that look at gradients, or take steps of their own."""
QUICK = {
    "bf16-mixed": ("ewc", "feedback_replay", "lora", "lwf", "packnet", "slda", "xder"),
    "16-mixed": ("agem", "ewc", "generative_replay", "packnet", "si"),
}
"""Strategies whose state, own steps or own passes a precision can spoil; the others are slow."""
SCALER = {
    # Whether the gradients are finite: asked once by clframe, once by torch's scaler.
    "engine.py:finish _local_scalar_dense",
    "loop.py:step copy to the host",
}


def cases(precision: str, strategies: Iterable[str]) -> list[Any]:
    """Mark all but some strategies as slow."""
    quick = QUICK[precision]
    return [
        pytest.param(name, marks=[] if name in quick else pytest.mark.slow) for name in strategies
    ]


def maker(strategy: str, precision: str) -> Callable[[str], Built]:
    def make(accelerator: str) -> Built:
        scenario = device_strategies.scenarios_of(strategy)[-1]
        return prepare_toy(
            device_strategies.plugins_of(strategy),
            toy_stream(scenario, n_experiences=3, samples=6),
            accelerator=accelerator,
            max_epochs=1,
            batch_size=4,
            precision=precision,
            check_val_every_n_epoch=1 if strategy == "best_checkpoint" else None,
        )

    return make


def check(card: Any, expected: Any, allowed: set[str]) -> None:
    device_runs.assert_same(card, expected)
    assert not card.astray
    assert not set(card.waits) - allowed


@pytest.mark.parametrize("strategy", cases("bf16-mixed", device_strategies.STRATEGIES))
def test_bf16(strategy: str, tmp_path: Path) -> None:
    make = maker(strategy, "bf16-mixed")
    card = device_runs.killed_on_card(
        make, tmp_path, steps=device_strategies.steps_until_kill(strategy)
    )
    check(card, device_runs.on_cpu(make), device_strategies.ALLOWED.get(strategy, set()))


@pytest.mark.parametrize("strategy", cases("16-mixed", ON_GRADIENTS))
def test_16_bits_with_their_scaler(strategy: str, tmp_path: Path) -> None:
    """There is no such run on the CPU: resumed, with the scaler's state, it is what it was."""
    make = maker(strategy, "16-mixed")
    card = device_runs.killed_on_card(make, tmp_path, steps=5)
    allowed = SCALER | device_strategies.ALLOWED.get(strategy, set())
    check(card, device_runs.on_virtual_card(make), allowed)


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_models_with_normalization_and_mixtures(precision: str) -> None:
    cnn = {"name": "cnn", "channels": [4, 4], "features": 8, "norm": True}
    point = {"name": "point_robot", "n_tasks": 2, "num_demos": 3, "eval_episodes": 2, "horizon": 10}
    mixture = {"name": "policy", "hidden": [8], "head": "gmm", "layer_norm": True}
    for stream, model in ((device_runs.small_images(), cnn), (point, mixture)):
        make = device_runs.maker(stream, model, {"replay": {"size": 12}}, precision=precision)
        card = device_runs.on_virtual_card(make)
        cpu = precision == "bf16-mixed"
        expected = device_runs.on_cpu(make) if cpu else device_runs.on_virtual_card(make)
        check(card, expected, set() if cpu else SCALER)
        assert all(value.isfinite().all() for value in card.state.values())
