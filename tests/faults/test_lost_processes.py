"""Processes that die: those that read data, that run episodes, that start others, and all of a run.

What a run started ends with it; what it needs and loses is said in one sentence.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

FILES = '''
from pathlib import Path

import numpy as np
import torch

from clframe import hookimpl
from clframe.core.stream import Experience, Stream, Task
from clframe.data.dataset import MapData


class Files:
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.npy"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        x = torch.from_numpy(np.load(self.paths[i]))
        return x, int(x[0] > 0)


def files(folder: str = "files") -> Stream:
    """Vectors, each in a file of its own, read by other processes."""
    data = Files(folder)
    labels = torch.tensor([data[i][1] for i in range(len(data))])
    made = MapData(data, labels, num_workers=2)
    tasks = [Task(0, "all", (0, 1), lambda: made)]
    experiences = [Experience(i, f"exp{i}", (tasks[0],), lambda: made) for i in range(2)]
    return Stream("files", "domain", experiences, tasks, (4,), 2)


@hookimpl
def register(registry):
    registry.add("stream", "files", files)
'''
PAUSING = ["strategy=[naive,pause]", "logger=none", "max_epochs=2", "model.hidden=[8]"]
READING = ["stream=files", "plugin_path=[pause.py,files.py]", "trainer.batch_size=5", *PAUSING]
ROBOT = ["stream=point_robot", "stream.n_tasks=2", "stream.num_demos=3", "stream.eval_episodes=4"]
ROLLING = [*ROBOT, "stream.num_workers=2", "plugin_path=pause.py", "trainer.batch_size=8", *PAUSING]
SAVING = "checkpoint.every_n_steps=2"


def make_files(place: Path) -> None:
    (place / "files").mkdir()
    (place / "files.py").write_text(FILES)
    for i in range(20):
        vector = np.random.default_rng(i).normal(size=4).astype(np.float32)
        np.save(place / f"files/{i}.npy", vector)


@pytest.mark.parametrize("kind", ["reading", "rolling"])
def test_a_worker_that_is_killed(processes: Any, kind: str) -> None:
    make_files(processes.place)
    words = READING if kind == "reading" else ROLLING
    run = processes.start("fit", *words, SAVING, "run_dir=run", pause=6)
    processes.paused(run)
    workers = processes.descendants(run.pid)
    assert len(workers) >= 2
    os.kill(workers[0], signal.SIGKILL)
    processes.go()
    code, error = run.end()
    assert code == 2
    said = [line for line in processes.sentences(error) if "recording" not in line]
    assert len(said) == 1
    died = {
        "reading": "processes that read data was ended from outside",
        "rolling": "a worker process of the robot environments ended with code -9",
    }
    assert died[kind] in said[0]
    assert "the run can be continued with resume=run" in said[0]
    processes.until(lambda: not any(map(processes.alive, workers)), 20)
    assert processes.call("fit", "resume=run")[0] == 0
    assert processes.call("fit", *words, SAVING, "run_dir=whole")[0] == 0
    assert processes.results("run") == processes.results("whole")


@pytest.mark.parametrize("kind", ["reading", "rolling"])
def test_nothing_outlives_a_run_that_is_killed(processes: Any, kind: str) -> None:
    make_files(processes.place)
    words = READING if kind == "reading" else ROLLING
    run = processes.start("fit", *words, SAVING, "run_dir=run", pause=6)
    processes.paused(run)
    workers = processes.descendants(run.pid)
    assert len(workers) >= 2
    run.signal(signal.SIGKILL)
    processes.until(lambda: run.poll() is not None, 10)
    # The folder is free at once, although workers may look for their parent only now and then.
    assert processes.call("fit", "resume=run")[0] == 0
    processes.until(lambda: not any(map(processes.alive, workers)), 20)


@pytest.mark.parametrize("killed", ["sweep", pytest.param("server", marks=pytest.mark.slow)])
def test_runs_of_a_sweep_save_and_leave_with_it(processes: Any, killed: str) -> None:
    words = ["-m", *processes.words, "seed=0,1", "sweep_dir=sweep", "sweep.jobs=2"]
    sweep = processes.start("fit", *words, pause=7)
    processes.paused(sweep, count=2)
    started = processes.descendants(sweep.pid)
    runs = [int(path.name.removeprefix("paused")) for path in processes.place.glob("paused*")]
    assert set(runs) < set(started)
    server = next(pid for pid in started if pid not in runs and processes.descendants(pid))
    os.kill(sweep.pid if killed == "sweep" else server, signal.SIGKILL)
    logs = processes.place / "sweep" / "logs"
    processes.until(lambda: _said(logs, "SIGTERM: saving") == 2, 30)
    processes.go()
    code, _ = sweep.end()
    assert code == (-signal.SIGKILL if killed == "sweep" else 2)
    processes.until(lambda: not any(map(processes.alive, started)), 30)
    assert _said(logs, "saved in experience exp0") == 2
    assert processes.call("fit", *words)[0] == 0


def _said(logs: Path, words: str) -> int:
    """How many runs have said this."""
    return sum(words in path.read_text() for path in logs.glob("*.log"))
