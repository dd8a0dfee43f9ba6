"""Signals, closed terminals, stopped processes, and two processes at one place."""

from __future__ import annotations

import os
import pty
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from clframe.cli.main import main
from clframe.errors import RunFolderError
from clframe.runs.folder import RunFolder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_hangup_saves_and_leaves(processes: Any, whole: Any) -> None:
    run = processes.start("fit", *processes.words, "run_dir=run", pause=7)
    processes.paused(run)
    run.signal(signal.SIGHUP)
    run.signal(signal.SIGHUP)  # a shell and the terminal both send it
    processes.go()
    code, error = run.end()
    assert code == 130
    assert "SIGHUP: saving after this step" in error
    assert "saved in experience exp0, epoch 1, after step 7" in error
    assert processes.call("fit", "resume=run")[0] == 0
    assert processes.results("run") == whole


def test_nohup_goes_on(processes: Any, whole: Any) -> None:
    run = processes.start("fit", *processes.words, "run_dir=run", pause=7, nohup=True)
    processes.paused(run)
    run.signal(signal.SIGHUP)
    processes.go()
    assert run.end()[0] == 0
    assert processes.results("run") == whole


def test_a_terminal_that_is_closed(processes: Any, whole: Any) -> None:
    ours, theirs = pty.openpty()
    tty = os.ttyname(theirs)
    run = processes.start("fit", *processes.words, "run_dir=run", pause=7, tty=tty)
    processes.paused(run)
    os.close(theirs)
    os.close(ours)  # the system tells the run, whose output has no place any more
    processes.go()
    assert run.end()[0] == 130
    code, error = processes.call("fit", "resume=run")
    assert code == 0
    assert "resumed in experience exp0, epoch 1, after step 7" in error
    assert processes.results("run") == whole


def test_a_stopped_run_keeps_its_folder_and_goes_on(processes: Any, whole: Any) -> None:
    run = processes.start("fit", *processes.words, "run_dir=run", pause=7)
    processes.paused(run)
    run.signal(signal.SIGSTOP)
    code, error = processes.call("fit", "resume=run")
    assert code == 2
    assert processes.sentences(error) == error.splitlines()
    assert f"run folder 'run' is in use by process {run.pid} on" in error
    run.signal(signal.SIGCONT)
    processes.go()
    assert run.end()[0] == 0
    assert processes.results("run") == whole


def test_two_at_once_into_one_folder(processes: Any, whole: Any) -> None:
    processes.go()
    runs = [processes.start("fit", *processes.words, "run_dir=run") for _ in range(2)]
    ends = sorted(run.end() for run in runs)
    assert [code for code, _ in ends] == [0, 2]
    said = processes.sentences(ends[1][1])
    assert len(said) == 1
    assert "is in use by process" in said[0] or "holds a run already" in said[0]
    assert processes.results("run") == whole


def test_a_run_that_came_and_went_between_check_and_lock(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    first.check()
    second.check()
    for folder in (first, second):
        folder.describe({"of": id(folder)}, {})
    with first.entered():
        first.begun = True
    first.lock.release()
    content = first.config.read_text()
    with pytest.raises(RunFolderError, match="holds a run already"), second.entered():
        pass
    second.lock.release()
    assert first.config.read_text() == content


def test_two_that_render_and_learn_the_same_data(processes: Any) -> None:
    stream = ["stream=openloris_illumination", "stream.n_instances=2", "stream.frames=4"]
    words = ["fit", *stream, "stream.size=16", "logger=none", "max_epochs=1", "data_dir=data"]
    words += ["model=mlp", "model.hidden=[4]"]
    runs = [processes.start(*words, f"run_dir={name}") for name in ("a", "b")]
    assert [run.end()[0] for run in runs] == [0, 0]
    assert processes.results("a") == processes.results("b")
    assert processes.call(*words, "run_dir=c", "data_dir=other")[0] == 0
    assert processes.results("c") == processes.results("a")
    made = {
        folder: {
            path.relative_to(processes.place / folder): path.read_bytes()
            for path in (processes.place / folder).rglob("*")
            if path.is_file() and path.name != ".lock"
        }
        for folder in ("data", "other")
    }
    assert made["data"] == made["other"]


def test_two_that_record_the_same_demonstrations(processes: Any) -> None:
    from clframe.robot.demonstrations import read

    words = ["demos", "make", "stream=point_robot", "stream.n_tasks=2", "--n", "3"]
    words += ["--num-workers", "1"]
    both = [processes.start(*words, "data_dir=data", *again) for again in ([], ["--again"])]
    assert [one.end()[0] for one in both] == [0, 0]
    assert processes.call(*words, "data_dir=alone")[0] == 0
    files = sorted((processes.place / "data/demos").rglob("*"))
    assert not [path for path in files if path.suffix == ".tmp"]
    recorded = [path for path in files if path.suffix == ".hdf5"]
    assert len(recorded) == 2
    for path in recorded:
        twin = processes.place / "alone" / path.relative_to(processes.place / "data")
        for one, other in zip(read(path), read(twin), strict=True):
            assert one.seed == other.seed
            assert (one.actions == other.actions).all()


# ---------------------------------------------------------------- in this process

TEARDOWN = '''
from clframe import Plugin, hookimpl
from clframe.errors import RunFolderError
from clframe.runs.folder import RunFolder
from pathlib import Path


class Slow(Plugin):
    """A logger that is still busy at the end."""

    @hookimpl
    def teardown(self):
        try:
            RunFolder(Path("run")).lock.take()
        except RunFolderError as error:
            Path("said").write_text(str(error))
'''


def test_the_folder_is_locked_until_loggers_have_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("slow.py").write_text(TEARDOWN)
    words = ["n_experiences=2", "max_epochs=1", "trainer.batch_size=500", "model.hidden=[4]"]
    assert main(["fit", *words, "plugin_path=slow.py", "strategy=[naive,slow]", "run_dir=run"]) == 0
    assert f"run folder 'run' is in use by process {os.getpid()}" in Path("said").read_text()
    RunFolder(Path("run")).lock.take()  # free now


def test_folders_whose_names_are_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["n_experiences=2", "max_epochs=1", "trainer.batch_size=500", "model.hidden=[4]"]
    assert main(["fit", *words, "run_dir=1"]) == 0
    assert main(["fit", "resume=1"]) == 0
    assert Path("1/results.json").exists()
    capfd.readouterr()
    for value in ("1.5", "true", "[a]"):
        assert main(["fit", *words, f"run_dir={value}"]) == 2
        error = capfd.readouterr().err
        assert len(error.splitlines()) == 1
        assert "run_dir must be the name of a folder" in error
