"""A plugin that fails, leaves or hangs is named, with its hook and the way to continue."""

from __future__ import annotations

import json
import time
import traceback
import types
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import clframe
from clframe import Learner, Plugin, hookimpl
from clframe.cli.main import main
from clframe.runs import plugin_faults
from clframe.runs.status import read_status, words
from clframe.testing import toy_stream
from clframe.watch.run import RunWatcher


class Faulty(Plugin):
    """Does something bad in one hook.

    Args:
        hook: Where.
        act: What.
    """

    name = "faulty"

    def __init__(self, hook: str, act: Any) -> None:
        self.hook, self.act = hook, act

    def _do(self, hook: str) -> None:
        if hook == self.hook:
            self.act()

    @hookimpl
    def configure(self) -> None:
        self._do("configure")

    @hookimpl
    def before_experience(self) -> None:
        self._do("before_experience")

    @hookimpl
    def penalty(self, learner: Learner) -> Tensor:
        self._do("penalty")
        return 0 * next(learner.parameters()).sum()

    @hookimpl
    def after_step(self) -> None:
        self._do("after_step")

    @hookimpl
    def after_experience(self) -> None:
        self._do("after_experience")

    @hookimpl
    def after_evaluation(self) -> None:
        self._do("after_evaluation")

    @hookimpl
    def metrics(self) -> None:
        self._do("metrics")

    @hookimpl
    def teardown(self) -> None:
        self._do("teardown")


HOOKS = ("before_experience", "penalty", "after_step", "after_experience", "metrics", "teardown")


def fail() -> None:
    raise ZeroDivisionError("by zero")


def leave() -> None:
    raise SystemExit(0)


def fit(plugin: Plugin, run: Path) -> clframe.Result:
    stream = toy_stream(n_experiences=2)
    return clframe.fit(stream, [plugin, "ewc"], max_steps=2, run_dir=run, progress=False)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_failing_plugin_is_named_after_the_traceback(hook: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(ZeroDivisionError) as caught:
        fit(Faulty(hook, fail), run)
    lines = "".join(traceback.format_exception(caught.value)).splitlines()
    assert lines[-1] == (
        f"clframe: plugin 'faulty' failed in hook '{hook}'; fix it, then continue with resume={run}"
    )


def test_a_plugin_that_fails_before_the_first_step_leaves_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(ZeroDivisionError) as caught:
        fit(Faulty("configure", fail), run)
    assert caught.value.__notes__ == [
        "clframe: plugin 'faulty' failed in hook 'configure'; nothing was written"
    ]
    assert not run.exists()


@pytest.mark.parametrize("hook", HOOKS)
def test_leaving_in_a_hook_is_a_failure(hook: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    message = f"plugin 'faulty' called sys.exit in hook '{hook}', so the run has no result"
    with pytest.raises(clframe.PluginError, match=message):
        fit(Faulty(hook, leave), run)
    assert (run / "config.yaml").exists()


def test_the_status_of_a_run_that_a_plugin_left_is_failed(tmp_path: Path) -> None:
    with pytest.raises(clframe.PluginError):
        fit(Faulty("after_step", leave), tmp_path / "run")
    assert read_status(tmp_path / "run")["state"] == "failed"


LEAVING = {
    "import": "import sys\nsys.exit(3)\n",
    "init": """
import sys

from clframe import Plugin


class Leaving(Plugin):
    def __init__(self):
        sys.exit(0)
""",
    "hook": """
import sys

from clframe import Plugin, hookimpl


class Leaving(Plugin):
    @hookimpl
    def before_experience(self):
        sys.exit(0)
""",
}


@pytest.mark.parametrize("where", LEAVING)
def test_the_command_fails_with_one_message(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = tmp_path / "leaving.py"
    plugin.write_text(LEAVING[where])
    words = [f"plugin_path={plugin}", "strategy=leaving", "max_steps=1", "progress=false"]
    assert main(["fit", *words, f"run_dir={tmp_path / 'run'}"]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "leaving" in printed
    assert "exit" in printed.lower()


def test_a_hanging_hook_is_named_by_a_warning_and_by_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plugin_faults, "_EVERY", 0.02)
    monkeypatch.setattr(plugin_faults, "_LONG", 0.1)
    run = tmp_path / "run"
    seen: list[str] = []

    def hang() -> None:
        until = time.monotonic() + 60
        while not seen and time.monotonic() < until:
            time.sleep(0.02)
            status = read_status(run)
            if "waiting_for" in status:
                seen.append(words(status))
                seen.append(RunWatcher(run).view()["now"])

    plugin = Faulty("after_experience", hang)
    fit(plugin, run)
    assert len(seen) == 2
    assert all("waiting for plugin 'faulty' in hook 'after_experience'" in line for line in seen)
    printed = " ".join(capsys.readouterr().err.split())
    assert "plugin 'faulty' has been in hook 'after_experience' for" in printed
    assert "'ewc' has been" not in printed
    json.loads((run / "results.json").read_text())


def test_a_plugin_that_works_is_not_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps go on, so the calls that a look finds are never the same one.

    The clock goes on by calls, so that no call lasts long on a loaded machine either.
    """
    calls: list[None] = []

    def work() -> None:
        time.sleep(0.01)  # a few looks find this call
        calls.append(None)

    clock = types.SimpleNamespace(monotonic=lambda: 0.01 * len(calls))
    monkeypatch.setattr(plugin_faults, "time", clock)
    monkeypatch.setattr(plugin_faults, "_EVERY", 0.001)
    monkeypatch.setattr(plugin_faults, "_LONG", 0.2)
    plugin = Faulty("penalty", work)
    clframe.fit(toy_stream(n_experiences=2), [plugin], max_steps=40, run_dir=False, progress=False)
    assert len(calls) == 80
    assert "has been in hook" not in capsys.readouterr().err
