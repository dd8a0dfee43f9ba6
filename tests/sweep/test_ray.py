"""Ray: sweeps and rollouts on a cluster of several machines, one of which is lost on the way.

The machines are Ray's own on this one; each has a scheduler, an object store and workers of its
own, and is lost by SIGKILL to all of its processes.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import clframe
from clframe import Plugin, hookimpl
from clframe.api import load_learner
from clframe.cli.main import main
from clframe.errors import SettingError
from clframe.sweep.job import Job
from clframe.sweep.ray_launcher import needs_of
from clframe.utils.lock import Lock
from clframe.utils.ray_cluster import Cluster as Connection

ray = pytest.importorskip("ray", reason="ray is not installed")
pytestmark = [
    # Ray leaves sockets and files of its own processes to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

TROUBLE = """\
import os, signal, time
from pathlib import Path
from clframe import Plugin, hookimpl


class Trouble(Plugin):
    '''Seed 1 waits in the middle of the third block while it is told to; seed 2 kills itself.'''

    @hookimpl
    def before_experience(self, learner, experience):
        Path(f"pid-{learner.seed}").write_text(str(os.getpid()))

    @hookimpl
    def after_step(self, learner, step):
        self.steps = getattr(self, "steps", 0) + 1
        if len(learner.seen) < 2:
            return
        if learner.seed == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        while self.steps >= 8 and Path("armed").exists():
            Path("waits").touch()
            time.sleep(0.05)
"""


class Machines:
    """A head that runs nothing, and machines with two CPUs and a robot arm each."""

    def __init__(self, n: int) -> None:
        from ray.cluster_utils import Cluster

        quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
        quick["worker_niceness"] = 0
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": quick}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.machines = [
            self.cluster.add_node(
                wait=False, num_cpus=2, resources={"arm": 1}, object_store_memory=100 * 2**20
            )
            for _ in range(n)
        ]
        self.cluster.wait_for_nodes()

    def lose(self, scheduler: int) -> None:
        """Kill all processes of a machine at once, the scheduler first as it would report."""
        (lost,) = [machine for machine in self.machines if pid_of(machine) == scheduler]
        below = descendants(scheduler)
        for pid in (scheduler, *below):
            os.kill(pid, signal.SIGKILL)
        self.machines.remove(lost)
        self.cluster.remove_node(lost, allow_graceful=False)


def pid_of(machine: Any) -> int:
    pid: int = machine.all_processes["raylet"][0].process.pid
    return pid


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def descendants(pid: int) -> list[int]:
    """Children first, then theirs: who waits for a process dies before it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents.setdefault(parent(int(path.name)), []).append(int(path.name))
        except OSError:
            continue
    found = list(parents.get(pid, ()))
    for child in found:
        found += parents.get(child, ())
    return found


def scheduler_of(pid: int, machines: Machines) -> int:
    """The machine that a process runs on."""
    known = {pid_of(machine) for machine in machines.machines}
    while pid not in known:
        pid = parent(pid)
    return pid


# ------------------------------------------------------------ without a cluster


def test_without_a_cluster_one_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    words = ["fit", "stream=point_robot", "max_epochs=1", "logger=none", f"data_dir={tmp_path}"]
    assert main([*words, "stream.rollouts=ray", "run_dir=r"]) == 2
    said = capfd.readouterr().err.splitlines()[-1]
    assert "stream.rollouts=ray: no Ray cluster was found" in said
    assert "`ray start --head`" in said
    assert not Path("r").exists()


@pytest.mark.slow(minutes=1)
def test_a_cluster_of_its_own_leaves_priority_and_signals_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    handler = signal.getsignal(signal.SIGTERM)
    cluster = Connection("sweep.ray", start=True)
    try:
        assert cluster.started
        assert ray.get(ray.remote(lambda: os.nice(0)).remote()) == os.nice(0)  # not behind all else
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        cluster.close()


def test_without_the_package_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(tmp_path)
    words = ["fit", "stream=point_robot", "stream.rollouts=ray", f"data_dir={tmp_path}"]
    assert main([*words, "logger=none"]) == 2
    assert "pip install 'clframe[ray]'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "gpus", "needs"),
    [
        ([], False, {"num_cpus": 2}),
        ([], True, {"num_cpus": 2, "num_gpus": 1}),
        (["devices=3"], True, {"num_cpus": 6, "num_gpus": 3}),
        (["devices=[0,1]", "accelerator=gpu"], False, {"num_cpus": 4, "num_gpus": 2}),
        (["devices=2", "accelerator=cpu"], True, {"num_cpus": 4}),
        (["devices=auto"], True, {"num_cpus": 2, "num_gpus": 1}),
    ],
)
def test_a_run_needs_what_its_devices_say(
    words: list[str], gpus: bool, needs: dict[str, int], tmp_path: Path
) -> None:
    overrides = tuple(f"trainer.{word}" for word in words)
    job = Job("a", overrides, "a", tmp_path / "a", tmp_path / "a.log")
    assert needs_of(job, 2, gpus) == needs


def test_a_run_over_several_machines_is_refused(tmp_path: Path) -> None:
    job = Job("a", ("trainer.num_nodes=2",), "a", tmp_path / "a", tmp_path / "a.log")
    with pytest.raises(SettingError, match="gives each run one machine"):
        needs_of(job, 1, False)


def test_a_lock_is_waited_for_so_long(tmp_path: Path) -> None:
    held = Lock(tmp_path / "lock")
    held.take()
    other = Lock(tmp_path / "lock")
    assert not other.wait(seconds=0.3)
    threading.Timer(0.3, held.release).start()
    assert other.wait(seconds=60)
    other.release()


# ------------------------------------------------------------ with one


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    found = Machines(3)
    os.environ["RAY_ADDRESS"] = found.cluster.address
    try:
        yield found
    finally:
        del os.environ["RAY_ADDRESS"]
        found.cluster.shutdown()
        del found.cluster
        # What Ray has left open is collected here, and not in the midst of another file's test.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def results(run: Path) -> dict[str, object]:
    """What must be equal however often a run was interrupted."""
    content = json.loads((run / "results.json").read_text())
    return {name: content[name] for name in ("matrix", "metrics", "curves", "strategy", "seed")}


@pytest.mark.slow
def test_the_run_of_a_lost_machine_continues_on_another(
    machines: Machines,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trouble.py").write_text(TROUBLE)
    (tmp_path / "armed").touch()
    run = ["plugin_path=trouble.py", "strategy=trouble", "max_steps=3", "logger=none"]
    run += ["checkpoint.every_n_steps=1"]

    def lose_one() -> None:
        until = time.monotonic() + 300
        while not Path("waits").exists() and time.monotonic() < until:
            time.sleep(0.05)
        machines.lose(scheduler_of(int(Path("pid-1").read_text()), machines))
        Path("armed").unlink()

    killer = threading.Thread(target=lose_one)
    killer.start()
    words = ["fit", "-m", *run, "seed=1,2", "sweep_dir=all", "sweep.launcher=ray"]
    assert main([*words, "sweep.ray.resources={arm:1}"]) == 2
    killer.join()
    said = capfd.readouterr().err
    assert "seed=1: the machine it ran on was lost; it continues on another" in said
    assert "failed: seed=2: its process was ended by SIGKILL" in said
    assert "1 of 2 runs failed" in said
    content = json.loads((tmp_path / "all/sweep.json").read_text())["runs"]
    assert {name: entry["state"] for name, entry in content.items()} == {
        "seed-1": "finished",
        "seed-2": "failed",
    }
    log = (tmp_path / "all/logs/seed-1.log").read_text()
    assert "resume=" in log
    assert "[2/5]" not in log.rpartition("$ clframe")[2]  # it did not begin again

    assert main(["fit", *run, "seed=1", "run_dir=alone"]) == 0
    assert results(tmp_path / "all/seed-1") == results(tmp_path / "alone")
    weights = [load_learner(Path(name))[0].model.state_dict() for name in ("all/seed-1", "alone")]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


class Loses(Plugin):
    """Loses a machine in the middle of the second task's first evaluation."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.lost = 0

    @hookimpl
    def on_progress(self, learner: Any, unit: str, done: int) -> None:
        if unit == "episodes" and done == 3 and len(learner.seen) == 2 and not self.lost:
            busy = [m for m in self.machines.machines if any(map(is_farm, descendants(pid_of(m))))]
            assert len(busy) == 2  # the environments are spread
            self.lost = pid_of(busy[0])
            self.machines.lose(self.lost)


def is_farm(pid: int) -> bool:
    try:
        return b"ray::EnvironmentActor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.slow
def test_rollouts_are_the_same_on_a_cluster_that_loses_a_machine(
    machines: Machines, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if len(machines.machines) < 2:
        pytest.fail("too few machines are left")
    stream = {"name": "point_robot", "n_tasks": 2, "num_demos": 10, "eval_episodes": 12}
    stream |= {"num_envs": 4, "num_workers": 2}
    how: dict[str, Any] = {"max_epochs": 2, "run_dir": False, "data_dir": tmp_path, "logger": None}
    here = clframe.fit(stream={**stream, "num_workers": 0}, strategy="naive", **how)
    loses = Loses(machines)
    there = clframe.fit(stream={**stream, "rollouts": "ray"}, strategy=loses, **how)
    assert loses.lost
    assert "a machine of the Ray cluster was lost; another one repeats" in capfd.readouterr().err
    assert there.matrix.to_csv() == here.matrix.to_csv()
    assert there.metrics == here.metrics
