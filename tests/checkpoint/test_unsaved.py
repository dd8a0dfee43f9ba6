"""Attributes that change and are not in ``state`` are named, and those that are made again not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import clframe
from clframe import Experience, Learner, Plugin, hookimpl
from clframe.checkpoint.unsaved import Unsaved
from clframe.errors import PluginError
from clframe.plugins import Replay
from clframe.testing import prepare, toy_stream


class Counts(Plugin):
    """Carries a counter and generators from step to step without saving them."""

    state: tuple[str, ...] = ("saved",)
    stop_at = -1

    def __init__(self) -> None:
        self.saved = 0
        self.steps = 0
        self.noise = torch.Generator().manual_seed(0)
        self.dice = random.Random(0)

    @hookimpl
    def after_step(self, learner: Learner) -> None:
        self.saved += 1
        self.steps += 1
        torch.rand(1, generator=self.noise)
        self.dice.random()
        if self.saved == self.stop_at:
            raise KeyboardInterrupt


class Makes(Plugin):
    """Makes everything again before it is used."""

    def __init__(self) -> None:
        self.teacher: Any = None
        self.cache: dict[str, Any] = {}
        self.learner: Any = None
        self.epochs = 0

    @hookimpl
    def configure(self, learner: Learner) -> None:
        self.learner = learner
        self.cache = {"weights": list(learner.parameters())}

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        self.teacher = {n: p.detach().clone() for n, p in learner.named_parameters()}
        self.cache["name"] = experience.name

    @hookimpl
    def before_epoch(self, epoch: int) -> None:
        self.epochs = epoch


def learn(place: Path, plugin: Plugin, **given: Any) -> None:
    clframe.fit(
        toy_stream("domain", n_experiences=3, samples=8),
        [plugin],
        {"name": "mlp", "hidden": [4]},
        trainer={"max_epochs": 2, "batch_size": 4},
        progress=False,
        logger=None,
        **{"run_dir": place, **given},
    )


def test_what_is_not_saved_is_named_at_the_checkpoint_and_at_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = Counts()
    plugin.stop_at = 6
    with pytest.raises(KeyboardInterrupt):
        learn(tmp_path / "run", plugin, checkpoint={"every_n_steps": 3})
    said = capsys.readouterr().err.splitlines()
    named = [line for line in said if "not saved" in line]
    assert len(named) == 1
    assert "plugin 'counts': 'steps', 'noise', 'dice' are not saved" in named[0]
    assert 'state = ("saved", "steps", "noise", "dice") in class Counts' in named[0]
    learn(tmp_path / "run", Counts(), run_dir=None, resume=tmp_path / "run")
    again = [line for line in capsys.readouterr().err.splitlines() if "not saved" in line]
    assert len(again) == 1
    assert "'steps', 'noise', 'dice'" in again[0]


def test_what_is_carried_over_between_experiences_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learn(tmp_path / "run", Counts())
    named = [line for line in capsys.readouterr().err.splitlines() if "not saved" in line]
    assert len(named) == 1
    assert "'steps'" in named[0]


def test_what_is_made_again_is_not_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learn(tmp_path / "run", Makes(), checkpoint={"every_n_steps": 1})
    assert "not saved" not in capsys.readouterr().err
    # Continued from the middle of the second experience.
    newest = sorted((tmp_path / "run/checkpoints").glob("*.pt"))[-1]
    newest.unlink()
    (tmp_path / "run/results.json").unlink()
    learn(tmp_path / "run", Makes(), run_dir=None, resume=tmp_path / "run")
    assert "not saved" not in capsys.readouterr().err


def test_plugins_that_come_with_clframe_are_not_looked_at() -> None:
    built = prepare(toy_stream(), ["ewc", "replay", "agem"])
    assert Unsaved(built.learner).sums() == {}


def test_a_state_that_names_an_absent_attribute_is_one_message(tmp_path: Path) -> None:
    class Absent(Plugin):
        """Names what it does not have."""

        state = ("nowhere",)

        @hookimpl
        def after_step(self) -> None:
            pass

    with pytest.raises(PluginError, match="names 'nowhere' in `state` but has no such attribute"):
        learn(tmp_path / "run", Absent())


def test_what_a_class_of_clframe_keeps_for_itself_is_not_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Mine(Replay):
        """Replays, with nothing of its own."""

    learn(tmp_path / "run", Mine(size=20), checkpoint={"every_n_steps": 1})
    assert "not saved" not in capsys.readouterr().err
