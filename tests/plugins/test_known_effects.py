"""What each method is known for, seen on embedded digits: it keeps more than naive training."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import clframe

SMALL_GENERATOR = {"hidden": [100], "latent": 16}


def last_row(stream: clframe.Stream, strategy: Any, lr: float, **settings: Any) -> np.ndarray:
    result = clframe.fit(
        stream,
        strategy,
        optimizer={"name": "adam", "lr": lr},
        run_dir=False,
        progress=False,
        logger=None,
        **settings,
    )
    return result.matrix.values[-1]


def with_known_tasks(strategy: Any) -> float:
    """Mean accuracy on all tasks but the last, given which task it is."""
    model = {"name": "mlp", "hidden": [100, 100]}
    stream = clframe.stream("split_mnist", scenario="task")
    return float(last_row(stream, strategy, 0.01, model=model, max_steps=60)[:-1].mean())


def with_new_classes(strategy: Any, n_experiences: int, max_steps: int) -> float:
    """Mean accuracy on all tasks, all classes competing."""
    model = {"name": "mlp", "hidden": [100]}
    stream = clframe.stream("split_mnist", n_experiences=n_experiences)
    row = last_row(stream, strategy, 0.003, model=model, max_steps=max_steps, batch_size=64)
    return float(row.mean())


@functools.cache
def naive_with_known_tasks() -> float:
    return with_known_tasks("naive")


@functools.cache
def naive_with_two_experiences() -> float:
    return with_new_classes("naive", 2, 150)


@pytest.mark.parametrize(
    "strategy", ["ewc", "online_ewc", "lwf", "mas", {"si": {"c": 10.0}}], ids=str
)
def test_regularizers_keep_known_tasks(strategy: Any) -> None:
    assert with_known_tasks(strategy) > naive_with_known_tasks() + 0.05


@pytest.mark.parametrize(
    "strategy",
    [
        ["dgr", {"generative_replay": {**SMALL_GENERATOR, "lr": 0.003}}],
        ["dgr_distill", {"generative_replay": {**SMALL_GENERATOR, "lr": 0.003}}],
        ["rtf", {"feedback_replay": SMALL_GENERATOR}],
    ],
    ids=lambda strategy: strategy[0],
)
def test_generators_keep_old_classes(strategy: Any) -> None:
    assert with_new_classes(strategy, 2, 150) > naive_with_two_experiences() + 0.2


@pytest.mark.parametrize("strategy", ["er", {"replay": {"size": 500}}], ids=str)
def test_a_buffer_keeps_old_classes(strategy: Any) -> None:
    assert with_new_classes("naive", 5, 60) < 0.25
    assert with_new_classes(strategy, 5, 60) > 0.6
