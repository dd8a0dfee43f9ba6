"""Batched seeds, what is drawn on a virtual GPU, and a run of a GPU that is opened elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clframe
from clframe.build import build
from clframe.config.run_config import RunConfig
from clframe.errors import RunFolderError
from clframe.run import set_up
from clframe.runs.folder import RunFolder
from clframe.sweep.seed_group import SeedGroup
from clframe.testing import toy_stream
from tests.helpers import device_runs

MLP: dict[str, Any] = {"name": "mlp", "hidden": [8]}
ER: dict[str, Any] = {"replay": {"size": 12}}


@pytest.mark.parametrize("strategy", [{"ewc": {}}, ER, "lwf"], ids=["ewc", "er", "lwf"])
def test_batched_seeds(strategy: Any) -> None:
    def learned(accelerator: str) -> list[Any]:
        settings = {"max_epochs": 1, "batch_size": 4, "accelerator": accelerator}
        given: dict[str, Any] = {
            "stream": toy_stream("class", samples=6),
            "strategy": strategy,
            "model": MLP,
            "trainer": settings,
            "logger": None,
            "run_dir": False,
            "progress": False,
        }
        group = SeedGroup([RunConfig(**given, seed=seed) for seed in (0, 1)])
        return [result.matrix.values for result in group.run()]

    expected = learned("cpu")
    with device_runs.virtual_card(own_generator=False) as card:
        found = learned("cuda")
        assert not card.per_step()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_drawn_on_the_gpu_continues_after_a_resume(tmp_path: Path) -> None:
    """Dropout draws from the GPU's own generator, which a new process starts elsewhere."""
    make = device_runs.maker(device_runs.small_images(), {**MLP, "dropout": 0.5}, ER)

    with device_runs.virtual_card():
        built = make("cuda")
        result = device_runs.run(built.learner, built.stream, "whole")
        expected = device_runs._end(result, built.learner, {})
    resumed = device_runs.killed_on_card(make, tmp_path, steps=5, own_generator=True)
    device_runs.assert_same(resumed, expected)
    # The host's generator draws other numbers, so the GPU's was in use.
    assert not all(
        torch.equal(value, expected.state[name])
        for name, value in device_runs.on_cpu(make).state.items()
    )


def test_a_run_of_a_gpu_elsewhere(tmp_path: Path) -> None:
    """Looked at on a CPU it is the same; to resume it there must be meant."""
    words: dict[str, Any] = {
        "model": MLP,
        "strategy": ER,
        "max_epochs": 1,
        "batch_size": 4,
        "progress": False,
        "logger": None,
    }
    folder = tmp_path / "run"
    with device_runs.virtual_card():
        there = clframe.fit(toy_stream(samples=4), run_dir=folder, **words)
    assert there.environment["device"] == "cuda:0"
    with pytest.raises(
        RunFolderError, match=r"device was cuda and is cpu.*resume.allow=\[device\]"
    ):
        clframe.fit(toy_stream(samples=4), resume=folder, **words)
    config = RunConfig.of(toy_stream(samples=4), run_dir=False, **words)
    built = build(config)
    state, _ = set_up(built.learner, built.stream, RunFolder(folder), read_only=True)
    assert (state.matrix.values == there.matrix.values).all()
