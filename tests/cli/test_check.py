"""``clframe check``: a verdict on each item, whatever the plugin does."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from clframe import Capabilities, Learner, Plugin, PluginError, hookimpl
from clframe.cli import check as command
from clframe.cli._check_worker import outcome, settings
from clframe.cli.check import FAILED, NOT_CHECKED, OK
from clframe.cli.main import main
from clframe.core.registry import Entry
from clframe.testing import check_metric, check_model, check_plugin
from clframe.testing.cost import Cost, measure
from clframe.testing.plugins import PluginContract
from tests.helpers.processes import ProcessServer


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ------------------------------------------------------------ the command


LEAVES = '''
import os
from clframe import Plugin, hookimpl

class Leaves(Plugin):
    """Prints, and leaves."""

    def __init__(self, speed=1.0) -> None:
        print("hello")

    def before_experiense(self) -> None:
        pass

    @hookimpl
    def after_experience(self) -> None:
        os._exit(0)
'''


@pytest.mark.slow  # starts the process that checks, and two more that learn together
def test_each_plugin_of_a_file_is_told_what_it_keeps(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One that ``clframe new`` has written, and one that takes its process with it."""
    assert main(["new", "plugin", "kept"]) == 0
    (here / "both.py").write_text((here / "kept.py").read_text() + LEAVES)
    capfd.readouterr()
    assert main(["check", "both.py", "--timeout", "600"]) == 1
    captured = capfd.readouterr()
    assert captured.err == ""
    assert max(map(len, captured.out.splitlines())) <= 80
    kept, _, leaves = captured.out.partition("plugin leaves\n")
    verdicts = re.findall(r"^  (\w.{14}\S?) +(ok|FAILED|not checked)\b", kept, re.M)
    assert len(verdicts) == 13
    skipped = {"two processes"} if (os.cpu_count() or 1) < 2 else set()
    assert {item.strip() for item, verdict in verdicts if verdict != OK} == skipped, kept
    text = " ".join(leaves.split())
    assert "settings FAILED setting 'speed' of plugin 'leaves' has no type" in text
    assert "hooks FAILED method 'before_experiense' is not a hook" in text
    assert "did you mean 'before_experience'?" in text
    assert "learns FAILED ended the process (code 0)" in text
    assert "growth not checked the check before it did not finish" in text
    assert "3 of 27 items failed, 11 not checked" in text
    assert "hello" not in captured.out


# Replaces the process that checks, which has to import torch, by a fork of this one.
FORKED = """
import os, signal, subprocess, sys

from clframe.cli import _check_worker
from clframe.cli.main import main


class Forked:
    returncode = None

    def __init__(self, command, pass_fds, **streams):
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            for number in (0, 1, 2):
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            # A new process would not have it.
            for number in map(int, os.listdir("/proc/self/fd")):
                if number > 2 and number not in pass_fds:
                    try:
                        os.close(number)
                    except OSError:
                        pass
            os._exit(_check_worker.main(command[3:]))

    def poll(self):
        return self.wait(1) if self.returncode is None else self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


subprocess.Popen = Forked
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks after imports")
def test_a_plugin_that_leaves_is_told(clframe_process: ProcessServer, here: Path) -> None:
    (here / "leaves.py").write_text(LEAVES)
    words = ["check", "leaves.py", "--timeout", "600"]
    done = clframe_process.run("-c", FORKED, *words, folder=here)
    assert (done.returncode, done.stderr) == (1, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    text = " ".join(done.stdout.split())
    assert "settings FAILED setting 'speed' of plugin 'leaves' has no type" in text
    assert "hooks FAILED method 'before_experiense' is not a hook" in text
    assert "did you mean 'before_experience'?" in text
    assert "learns FAILED ended the process (code 0)" in text
    assert "growth not checked the check before it did not finish" in text
    assert "3 of 14 items failed, 11 not checked" in text
    assert "hello" not in done.stdout


def test_a_check_that_does_not_end_is_ended(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = (
        "import os, sys, json, time\n"
        "send = lambda **m: os.write(int(sys.argv[1]), json.dumps(m).encode() + b'\\n')\n"
        "send(plan=[{'of': 'plugin a', 'item': i} for i in ('hooks', 'learns', 'state')])\n"
        "send(begin='hooks'); send(of='plugin a', item='hooks', verdict='ok', words='')\n"
        "send(begin='learns'); time.sleep(120); open('slept', 'w')\n"
    )
    monkeypatch.setattr(command, "CHILD", ("-c", script))
    wait = subprocess.Popen.wait  # how long it is given to end by itself is not tested here

    def short(process: Any, timeout: float | None = None) -> int:
        return wait(process, timeout and timeout / 20)

    monkeypatch.setattr(subprocess.Popen, "wait", short)
    (here / "a.py").touch()
    assert main(["check", "a.py", "--json", "--timeout", "1"]) == 1
    content = json.loads(capfd.readouterr().out)
    items = content["items"]
    assert content["kept"] is False
    assert not (here / "slept").exists()
    assert [item["verdict"] for item in items] == [OK, FAILED, NOT_CHECKED]
    assert items[1]["item"] == "learns"
    assert "did not end within 1 seconds" in items[1]["words"]


def test_what_cannot_be_found_is_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "missing.py"]) == 2
    assert capfd.readouterr().err == "clframe: there is no file 'missing.py'\n"


# ------------------------------------------------------------ single items


class Draws(Plugin):
    """Says that it only measures, and draws."""

    capabilities = Capabilities(evaluator=True)

    @hookimpl
    def after_step(self) -> None:
        """Draw."""
        torch.rand(1)


class Answers(Plugin):
    """Answers where nobody listens."""

    @hookimpl
    def after_backward(self) -> Any:
        """Gradients that are not used."""
        return [1.0]


class Forgets(Plugin):
    """Counts experiences and does not keep the number."""

    def __init__(self) -> None:
        self.count = 0

    @hookimpl
    def after_experience(self, learner: Learner) -> None:
        """Shift the weights by the count, which is lost when the run stops."""
        self.count += 1
        with torch.no_grad():
            for parameter in learner.model.parameters():
                parameter.mul_(1.0 - 0.4 * self.count)


class Varies(Plugin):
    """Is another one each time."""

    @hookimpl
    def after_experience(self, learner: Learner) -> None:
        """Destroy what was learned by numbers of the system's."""
        with torch.no_grad():
            for parameter in learner.model.parameters():
                parameter.mul_(random.SystemRandom().uniform(-1.0, 1.0))


class Grows(Plugin):
    """Does more in each step the more experiences it has seen."""

    @hookimpl
    def after_step(self, learner: Learner) -> None:
        """As long as there are experiences."""
        for _ in range(200 * len(learner.seen)):
            torch.ones(10).sum()


class Refuses(Plugin):
    """Wants images."""

    @hookimpl
    def configure(self) -> None:
        """Refuse."""
        raise PluginError("plugin 'refuses' needs images")


class Raises(Plugin):
    """Leaves in its own way."""

    @hookimpl
    def after_step(self) -> None:
        """Leave."""
        sys.exit(3)


@pytest.mark.parametrize(
    ("plugin", "item", "verdict", "words"),
    [
        (Draws(), "random state", FAILED, "'evaluator' but changes what is learned"),
        (Answers(), "learns", FAILED, "returned list of 1 float from after_backward, whose"),
        (Forgets(), "state", FAILED, "name every attribute that changes during a run in `state`"),
        (Varies(), "determinism", FAILED, "gives another matrix the second time"),
        (Grows(), "growth", FAILED, "times as long after 11 experiences as after 2"),
        (Refuses(), "learns", NOT_CHECKED, "refuses the toy stream: plugin 'refuses' needs"),
        (Raises(), "learns", FAILED, "called sys.exit in hook 'after_step'"),
        (Plugin(), "hooks", FAILED, "has no hook, so it does nothing"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Plugin) else None,
)
def test_what_breaks_the_contract_is_found(
    plugin: Plugin, item: str, verdict: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(plugins: Any, beside: Any, scenario: Any, repeats: int) -> Cost:
        return measure(plugins, beside, scenario, 1)

    monkeypatch.setattr("clframe.testing.plugins.measure", once)
    found, sentence = outcome(PluginContract(plugin).checks()[item])
    assert (found, words in sentence) == (verdict, True), sentence


def test_check_plugin_says_the_same() -> None:
    with pytest.raises(AssertionError, match="does not continue from its saved state"):
        check_plugin(Forgets())


def undocumented(width: int = 3) -> None:
    """Make nothing."""


def without_default(width: int) -> None:
    """Make nothing.

    Args:
        width: Of nothing.
    """


@pytest.mark.parametrize(
    ("factory", "words"),
    [(undocumented, "is not explained"), (without_default, "has no default")],
)
def test_settings_have_types_defaults_and_meanings(factory: Any, words: str) -> None:
    entry = Entry("model", "thing", factory, "here", "A thing.")
    with pytest.raises(AssertionError, match=f"setting 'width' of model 'thing' {words}"):
        settings(entry)


# ------------------------------------------------------------ models and metrics


class Mixes(nn.Module):
    """A model that looks at the whole batch."""

    def __init__(self, width: int = 6, unused: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(8, width)
        self.more = nn.Linear(1, 1) if unused else nn.Identity()
        self.mix = not unused and width == 6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Differences to the mean of the batch."""
        out: torch.Tensor = self.layer(x)
        return out - out.mean(0) if self.mix else out


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: Mixes(), "mixes samples of a batch"),
        (lambda: Mixes(5), r"return a tensor of shape \[4, 6\]"),
        (lambda: Mixes(unused=True), "no gradient reaches 'more.weight'"),
    ],
)
def test_models_that_break_the_contract(model: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_model(model)


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (lambda result: 0.5, "gives 0.5: return a dict"),
        (lambda result: {"a": float("nan")}, "return None where it is undefined"),
        (lambda result: {"a": random.random()}, "another answer the second time"),
    ],
)
def test_metrics_that_break_the_contract(metric: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_metric(metric)
