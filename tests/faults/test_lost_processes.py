"""Processes that die: those that read data, that run episodes, that start others, and all of a run.

What a run started ends with it; what it needs and loses is said in one sentence.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.processes import Process, ProcessServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

FILES = '''
from pathlib import Path

import numpy as np
import torch
from torch.utils.data._utils import worker

from clframe import hookimpl
from clframe.core.stream import Experience, Stream, Task
from clframe.data.dataset import MapData


worker.MP_STATUS_CHECK_INTERVAL = 0.2  # seconds between two looks for the parent, 5 otherwise


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


# A reader that serves tensors while its run leaves loses the connection in a thread of Python's
# own, which prints this beside what clframe says.
OF_PYTHON = re.compile(
    r"Traceback \(most recent call last\):\n"
    r'  File "[^"]*/multiprocessing/resource_sharer\.py"[^\n]*\n'
    r"(?:[ \t][^\n]*\n)*\S[^\n]*\n?"
)


def ended(run: Process) -> tuple[int, str]:
    """Exit code and errors of a run whose readers may have printed a traceback of Python's own."""
    code, error = run.wait(), run.errors.read_text()
    # Lines of several processes come in any order, also in the middle of such a traceback.
    others = [line for line in error.splitlines(True) if not line.startswith("clframe: ")]
    rest = OF_PYTHON.sub("", "".join(others))
    assert "Traceback" not in rest, error
    return code, error


@pytest.mark.parametrize(
    "kind",
    [
        "reading",
        # Six interpreters start. tests/utils/test_processes.py covers a worker that is killed.
        pytest.param("rolling", marks=pytest.mark.slow),
    ],
)
def test_a_worker_that_is_killed(processes: Any, kind: str) -> None:
    make_files(processes.place)
    words = READING if kind == "reading" else ROLLING
    run = processes.start("fit", *words, SAVING, "run_dir=run", pause=6)
    processes.paused(run)
    workers = processes.descendants(run.pid)
    assert len(workers) >= 2
    os.kill(workers[0], signal.SIGKILL)
    processes.go()
    code, error = ended(run)
    assert code == 2
    said = [line for line in processes.sentences(error) if "recording" not in line]
    assert len(said) == 1
    died = {
        "reading": "a process that reads data was killed from outside",
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


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize("killed", ["sweep", "server"])
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


def test_runs_save_and_leave_when_their_sweep_is_gone(
    processes: Any, clframe_process: ProcessServer
) -> None:
    """The process that forks the runs of a sweep reads from it; the end of that is its death."""
    logs = processes.place / "logs"
    logs.mkdir()
    environment = {**os.environ, "PAUSE": "7", "CLFRAME_DATA": str(processes.place / "data")}
    server = subprocess.Popen(
        [str(clframe_process.python), "-P", "-m", "clframe.cli._prefork"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=processes.place,
        env={**environment, "OMP_NUM_THREADS": "1"},
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        for seed in (0, 1):
            words = [*processes.words, f"seed={seed}", f"run_dir=run{seed}"]
            log = str(logs / f"{seed}.log")
            request = {"name": f"{seed}", "words": words, "log": log, "environment": {}}
            server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        processes.until(
            lambda: len(list(processes.place.glob("paused*"))) == 2 or server.poll() is not None,
            120,
        )
        assert server.poll() is None
        server.stdin.close()
        processes.until(lambda: _said(logs, "SIGTERM: saving") == 2, 60)
        processes.go()
        answers = [json.loads(line) for line in server.stdout]
    assert sorted((one["name"], one["code"]) for one in answers) == [("0", 130), ("1", 130)]
    assert server.returncode == 0
    assert _said(logs, "saved in experience exp0") == 2


def _said(logs: Path, words: str) -> int:
    """How many runs have said this."""
    return sum(words in path.read_text() for path in logs.glob("*.log"))
