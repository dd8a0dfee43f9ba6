"""Runs small enough to be broken in many ways, and a plugin that breaks them at a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import pytest

from clframe.cli.main import main

# What happens is named in the environment, so that a continued run is made of the same plugin.
ACT = '''
import os
import resource
import shlex
import signal
import subprocess
from pathlib import Path

import torch

from clframe import Plugin, hookimpl


STEPS = [0]  # of this process, so no state of the plugin


class Act(Plugin):
    """Does what the environment says at a step."""

    def __init__(self) -> None:
        STEPS[0] = 0

    @hookimpl
    def after_step(self, learner):
        STEPS[0] += 1
        number, _, what = os.environ.get("ACT", "").partition(":")
        if not number or STEPS[0] != int(number) or what == "nan":
            return
        if what.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, what))
        elif what == "twice":
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        elif what == "memory":
            torch.zeros(1 << 46)
        elif what.startswith("limit"):
            size = int(what.split()[1])
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        else:
            subprocess.run(shlex.split(what), check=True)

    @hookimpl
    def penalty(self, learner, step):
        number, _, what = os.environ.get("ACT", "").partition(":")
        bad = what == "nan" and STEPS[0] + 1 == int(number)
        return step.outputs[0].sum() * 0 + float("nan") if bad else None
'''


class Fit(Protocol):
    def __call__(self, *words: str, act: str = "") -> int: ...


@pytest.fixture
def fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fit:
    """`clframe fit` on a tiny stream, with something done to it at a step (``act="7:SIGTERM"``)."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    (place / "act.py").write_text(ACT)
    small = ["n_experiences=2", "max_epochs=2", "trainer.batch_size=250", "model.hidden=[8]"]

    def run(*words: str, act: str = "") -> int:
        monkeypatch.setenv("ACT", act)
        if any(word.startswith("resume=") and word != "resume=auto" for word in words):
            return main(["fit", *words])
        given = {word.partition("=")[0] for word in words}
        common = ["plugin_path=act.py", "strategy=[naive,act]", "logger=none"]
        rest = [word for word in (*small, *common) if word.partition("=")[0] not in given]
        return main(["fit", *rest, *words])

    return run


def results(run: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(run, "results.json").read_text())
    content.pop("timing")
    return content


@pytest.fixture
def same() -> Any:
    """Whether two runs have the same results, timing aside."""
    return lambda a, b: results(a) == results(b)
