"""Demonstrations that are recorded while others are learned are those recorded before."""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clframe
from clframe.errors import DataError, SettingError
from clframe.robot import collect, demonstrations
from clframe.robot.prefetch_demos import Recorder
from clframe.robot.task import RobotTask
from clframe.worlds import point_robot
from tests.helpers.processes import ROOT, ProcessServer, until

pytest.importorskip("h5py", reason="demonstrations are HDF5 files")

TASKS = 3


GATE = "CLFRAME_TEST_GATE"
"""The variable that names the folder in which a slow task says that it waits, and is let go on."""


class SlowPoint(point_robot.PointEnvironment):
    """Begins no episode until the test lets it."""

    def reset(self, **settings: Any) -> Any:
        """Start an episode, late."""
        gate = Path(os.environ[GATE])
        (gate / "waits").touch()
        until((gate / "open").exists, 60)
        return super().reset(**settings)


class LostPoint(point_robot.PointEnvironment):
    """Never gets anywhere."""

    def step(self, action: Any) -> Any:
        """Stay."""
        observation, reward, terminated, truncated, info = super().step(np.zeros_like(action))
        return observation, reward, terminated, truncated, {**info, "success": False}


def robot_task(number: int, kind: Any = point_robot.PointEnvironment) -> RobotTask:
    make = functools.partial(kind, number, TASKS)
    return RobotTask(f"turn_{number}", "ahead", f"turn {number}", make, point_robot.expert, 60)


def same(one: Path, other: Path) -> None:
    for first, second in zip(demonstrations.read(one), demonstrations.read(other), strict=True):
        assert first.seed == second.seed
        np.testing.assert_array_equal(first.actions, second.actions)
        np.testing.assert_array_equal(first.observations["state"], second.observations["state"])


@pytest.mark.usefixtures("quick_python")
def test_the_first_is_there_before_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GATE, str(tmp_path))
    tasks = [robot_task(0), robot_task(1, SlowPoint), robot_task(2, SlowPoint)]
    ahead = Recorder(tasks, tmp_path / "ahead", 5, num_workers=1, ahead=True)
    first = ahead.need(tasks[0])
    assert collect.has_enough(first, 5)
    last = collect.path_of(tasks[2], tmp_path / "ahead")
    assert not last.exists()  # the slow ones are still being recorded
    (tmp_path / "open").touch()
    files = [ahead.need(task) for task in tasks]
    assert files[2] == last
    before = Recorder(tasks, tmp_path / "before", 5, num_workers=1, ahead=False)
    before.need(tasks[0])
    for task, file in zip(tasks, files, strict=True):
        same(file, collect.path_of(task, tmp_path / "before"))


@pytest.mark.usefixtures("quick_python")
def test_what_went_wrong_is_said_where_it_is_needed(tmp_path: Path) -> None:
    tasks = [robot_task(0), robot_task(1, LostPoint), robot_task(2)]
    sentence = "the expert of task 'turn_1' reached the goal in 0 of"
    with pytest.raises(DataError, match=sentence):
        Recorder(tasks, tmp_path / "before", 3, num_workers=1, ahead=False).need(tasks[0])
    ahead = Recorder(tasks, tmp_path / "ahead", 3, num_workers=1, ahead=True)
    ahead.need(tasks[0])
    with pytest.raises(DataError, match=sentence):
        ahead.need(tasks[1])
    assert ahead.need(tasks[2]).is_file()  # which is not to blame


@pytest.mark.usefixtures("quick_python")
def test_results_are_the_same_with_and_without(tmp_path: Path) -> None:
    results = []
    for ahead in (False, True):
        stream = {"name": "point_robot", "n_tasks": 3, "num_demos": 10, "eval_episodes": 5}
        stream |= {"num_workers": 1, "record_ahead": ahead}
        results.append(
            clframe.fit(
                stream,
                "naive",
                data_dir=tmp_path / str(ahead),
                run_dir=False,
                progress=False,
                logger=None,
                max_epochs=2,
            )
        )
    one, other = results
    np.testing.assert_array_equal(one.matrix.values, other.matrix.values)
    folders = [tmp_path / str(ahead) / "demos" for ahead in (False, True)]
    names = [sorted(p.relative_to(f) for p in f.rglob("*.hdf5")) for f in folders]
    assert names[0] == names[1]
    assert len(names[0]) == 3
    for name in names[0]:
        same(folders[0] / name, folders[1] / name)


def test_ahead_needs_workers(tmp_path: Path) -> None:
    stream = {"name": "point_robot", "num_workers": 0, "record_ahead": True}
    with pytest.raises(SettingError, match=r"stream\.record_ahead=true needs workers"):
        clframe.fit(stream, "naive", data_dir=tmp_path, run_dir=False, logger=None)


SCRIPT = """
import signal, sys, threading
from pathlib import Path
# Who starts the tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.executable = {python!r}
from tests.robot import test_ahead
from clframe.robot.prefetch_demos import Recorder
slow = [test_ahead.robot_task(k, test_ahead.SlowPoint) for k in (1, 2)]
tasks = [test_ahead.robot_task(0), *slow]
recorder = Recorder(tasks, Path({folder!r}), 8, num_workers=1, ahead=True)
recorder.need(tasks[0])
print("learning", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_who_is_stopped_leaves_whole_files(
    tmp_path: Path, how: signal.Signals, clframe_process: ProcessServer
) -> None:
    code = SCRIPT.format(folder=str(tmp_path), python=str(clframe_process.python))
    output, environment = tmp_path / "output", {**os.environ, GATE: str(tmp_path)}
    process = clframe_process.start(["-c", code], ROOT, environment, output, tmp_path / "errors")
    until(lambda: output.is_file() and output.read_text() == "learning\n", 60)
    until((tmp_path / "waits").exists, 60)  # in the middle of the second
    process.signal(how)
    process.wait(30)
    tasks = [robot_task(0), *(robot_task(k, SlowPoint) for k in (1, 2))]
    assert collect.has_enough(collect.path_of(tasks[0], tmp_path), 8)
    files = sorted(p.name for p in (tmp_path / "demos" / "ahead").glob("*.hdf5"))
    assert files == ["turn_0_demo.hdf5"]
    # Another one goes on from there.
    quick = [robot_task(k) for k in range(TASKS)]
    after = Recorder(quick, tmp_path, 8, num_workers=0, ahead=False)
    assert [after.need(task).is_file() for task in quick] == [True] * TASKS
    (tmp_path / "open").touch()  # for a worker that has outlived its parent
