"""What the papers claim, on class-incremental split MNIST of a few steps."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import clframe
from clframe import Result

pytestmark = pytest.mark.slow  # learning until a threshold


@functools.cache
def learned(name: str, seed: int = 0, samples: int = 64, **settings: Any) -> Result:
    return clframe.fit(
        clframe.stream("split_mnist", scenario="class"), {name: settings} if settings else name,
        {"name": "mlp", "hidden": [100]}, max_steps=60, batch_size=samples, seed=seed,
        optimizer={"name": "adam", "lr": 0.003}, run_dir=False, progress=False, logger=None,
    )  # fmt: skip


def final(name: str, seed: int = 0, samples: int = 64, **settings: Any) -> float:
    return float(learned(name, seed, samples, **settings).matrix.values[-1].mean())


@pytest.mark.parametrize(
    ("name", "settings", "least"),
    [
        ("gss", {"size": 200, "batch_size": 32, "samples": 16}, 0.6),
        ("scr", {"size": 500}, 0.7),
        ("xder", {"size": 500}, 0.65),
        ("lucir", {"per_class": 50, "eta": 10.0}, 0.7),
    ],
)
def test_they_keep_digits(name: str, settings: dict[str, Any], least: float) -> None:
    assert final(name, **settings) > least > final("naive") + 0.3


def test_mir_is_better_than_random_replay_from_a_small_memory() -> None:
    chosen = [final("mir", seed, size=200, batch_size=20, candidates=100) for seed in range(3)]
    drawn = [final("replay", seed, size=200, batch_size=20, fill="step") for seed in range(3)]
    assert sum(chosen) > sum(drawn)


def test_aligned_and_corrected_classifiers_favor_new_classes_less() -> None:
    """The old classes, which the same network without either loses to the newest ones."""
    plain = learned("wa", size=500, align=False).matrix.values[-1]
    aligned = learned("wa", size=500).matrix.values[-1]
    corrected = learned("bic", size=500).matrix.values[-1]
    for better in (aligned, corrected):
        assert better[:-1].mean() > plain[:-1].mean() + 0.08
        assert better.mean() > plain.mean() + 0.04
