"""Real commands that start several processes, and how they end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import clframe
from clframe import Capabilities, Plugin, PluginError, SettingError
from clframe.core.trainer import TrainerSettings
from clframe.distributed.ranks import check_plugins
from clframe.testing import prepare_toy, toy_stream
from clframe.training.engine import Engine

TROUBLE = '''
import os
import signal

import torch.distributed as dist

from clframe import Plugin, PluginError, hookimpl


class Trouble(Plugin):
    """Fails on rank 1 in the second experience, in the way that the environment names."""

    @hookimpl
    def after_backward(self, learner) -> None:
        kind = os.environ.get("TROUBLE")
        if kind and len(learner.seen) == 1 and dist.get_rank() == 1:
            if kind == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise PluginError("plugin 'trouble' has had enough")
'''

SETTINGS = {
    "model.hidden": "[16]",
    "max_epochs": "1",
    "limit_train_batches": "2",
    "trainer.batch_size": "31",
    "trainer.accelerator": "cpu",
}
TWO = ["trainer.devices=2", "trainer.strategy=ddp"]


def fit_words(folder: Path) -> list[str]:
    (folder / "trouble.py").write_text(TROUBLE)
    settings = [f"{key}={value}" for key, value in SETTINGS.items()]
    return ["fit", "plugin_path=trouble.py", "strategy=[er,trouble]", "run_dir=run", *settings]


def in_one_process(folder: Path) -> Any:
    """The same run in this process."""
    return clframe.fit(
        "split_mnist",
        ["er", "trouble"],
        {"name": "mlp", "hidden": [16]},
        plugin_path=folder / "trouble.py",
        run_dir=False,
        logger=None,
        progress=False,
        max_epochs=1,
        limit_train_batches=2,
        batch_size=31,
        accelerator="cpu",
    )


CLI = str(Path(clframe.__file__).with_name("__main__.py"))


def check_lost(command: Any, clf: list[str], folder: Path) -> None:
    """A run whose rank 1 is killed says so, and continues."""
    words = [*clf, *fit_words(folder), *TWO]
    lost = command(words, folder, TROUBLE="killed")
    assert lost.returncode == 2
    messages = [line for line in lost.stderr.splitlines() if line.startswith("clframe: ")]
    assert len(messages) == 1
    assert "rank 1 of the run ended too early, killed by signal 9" in messages[0]
    assert "Traceback" not in lost.stderr

    done = command([*clf, "fit", "resume=run"], folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("accuracy on each task") == 1
    assert done.stderr.count("[5/5]") == 1
    results = json.loads((folder / "run" / "results.json").read_text())
    one = in_one_process(folder)
    assert results["matrix"]["values"] == one.matrix.to_json()["values"]
    events = (folder / "run" / "events.jsonl").read_text().splitlines()
    rows = [json.loads(line)["row"] for line in events if '"evaluation"' in line]
    assert rows == ["before", *(f"exp{i}" for i in range(5))]


def check_error(command: Any, clf: list[str], folder: Path) -> None:
    """An error of rank 1 is one sentence."""
    done = command([*clf, *fit_words(folder), *TWO], folder, TROUBLE="error")
    assert done.returncode == 2
    messages = [line for line in done.stderr.splitlines() if line.startswith("clframe: ")]
    assert messages == ["clframe: rank 1 of the run failed: plugin 'trouble' has had enough"]
    assert "Traceback" not in done.stderr


def test_a_lost_rank_ends_the_run_which_then_continues(quick_command: Any, tmp_path: Path) -> None:
    check_lost(quick_command, [CLI], tmp_path)


def test_an_error_of_one_rank_is_one_sentence(quick_command: Any, tmp_path: Path) -> None:
    check_error(quick_command, [CLI], tmp_path)


@pytest.mark.slow(minutes=2)
@pytest.mark.parametrize("check", [check_lost, check_error])
def test_real_processes_end_as_forked_ones_do(check: Any, command: Any, tmp_path: Path) -> None:
    check(command, [sys.executable, "-m", "clframe"], tmp_path)


@pytest.mark.slow
def test_torchrun(command: Any, tmp_path: Path) -> None:
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    done = command([*start, "--standalone", "-m", "clframe", *fit_words(tmp_path), *TWO], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("accuracy on each task") == 1
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["matrix"]["values"] == in_one_process(tmp_path).matrix.to_json()["values"]


# ------------------------------------------------------------ refused before anything starts


class Alone(Plugin):
    """Cannot be shared."""

    capabilities = Capabilities(distributed=False)


def test_a_plugin_can_refuse_ranks() -> None:
    check_plugins([Alone()], 1)
    with pytest.raises(PluginError, match="plugin 'alone' cannot work with 2 processes"):
        check_plugins([Alone()], 2)
    if (os.cpu_count() or 1) > 1:
        with pytest.raises(PluginError, match="plugin 'alone' cannot work with 2 processes"):
            prepare_toy([Alone()], toy_stream(), accelerator="cpu", devices=2)


def test_more_processes_than_cores_are_refused() -> None:
    cores = os.cpu_count() or 1
    many = cores + 97
    sentence = (
        rf"trainer.devices={many} asks for {many} processes on a machine with {cores} CPU cores"
    )
    with pytest.raises(SettingError, match=sentence):
        prepare_toy([], toy_stream(), accelerator="cpu", devices=many)


def test_other_ways_of_working_together_are_refused() -> None:
    with pytest.raises(SettingError, match=r"trainer\.strategy=ddp_spawn cannot be used"):
        Engine(TrainerSettings(accelerator="cpu", devices=2, strategy="ddp_spawn"))


def test_one_run_in_each_process_of_torchrun_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SettingError, match=r"2 processes, but trainer\.devices=1 asks for one"):
        Engine(TrainerSettings(accelerator="cpu"))
