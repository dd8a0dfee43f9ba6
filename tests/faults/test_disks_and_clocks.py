"""Disks that are full, and a clock that is set back in the middle of a run."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.processes import Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts, and replaces libc's clock")
DEMOS = ["stream=point_robot", "stream.n_tasks=2"]
IMAGES = ["stream=openloris_illumination", "stream.n_instances=2", "stream.frames=4"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system of a size, or gives it another size."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False

    def sized(size: str) -> Path:
        nonlocal mounted
        options = f"remount,size={size}" if mounted else f"size={size}"
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if subprocess.run(words, capture_output=True).returncode:
            pytest.skip("only root can mount a file system")
        mounted = True
        return place

    yield sized
    if mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_run_on_a_full_disk(processes: Any, whole: Any, disk: Callable[[str], Path]) -> None:
    run = disk("400k") / "run"
    words = [*processes.words, f"run_dir={run}", "checkpoint.every_n_steps=3"]
    code, error = processes.call("fit", *words)
    assert code == 2
    said = processes.sentences(error)
    assert len(said) == 1
    assert f"run_dir '{run}' cannot be written: No space left on device" in said[0]
    assert f"free some space, then continue with resume={run}" in said[0]
    kept = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert kept
    assert all(name.endswith((".pt", ".json")) for name in kept)
    disk("20m")
    code, error = processes.call("fit", f"resume={run}")
    assert code == 0
    assert "resumed" in error
    assert processes.results(str(run)) == whole


@pytest.mark.parametrize("workers", ["0", "1"])
def test_demonstrations_on_a_full_disk(
    processes: Any, disk: Callable[[str], Path], workers: str
) -> None:
    data = disk("100k")
    words = ["demos", "make", *DEMOS, "--n", "20", f"data_dir={data}", "--num-workers", workers]
    code, error = processes.call(*words)
    assert code == 2
    said = processes.sentences(error)[-1]
    assert "cannot write demonstrations" in said
    assert "_demo.hdf5': No space left on device" in said
    assert str(data) in said
    assert not list(data.rglob("*.tmp"))
    disk("20m")
    assert processes.call(*words)[0] == 0
    assert len(list(data.rglob("*.hdf5"))) == 2


def test_a_run_whose_data_does_not_fit(processes: Any, disk: Callable[[str], Path]) -> None:
    data = disk("100k")
    rest = ["logger=none", "max_epochs=1", "stream.eval_episodes=1", "stream.num_demos=20"]
    words = ["fit", *DEMOS, *rest, f"data_dir={data}", "run_dir=run"]
    code, error = processes.call(*words)
    assert code == 2
    said = processes.sentences(error)[-1]
    assert f"'{data}" in said
    assert "No space left on device" in said
    assert not (processes.place / "run").exists()
    disk("20m")
    assert processes.call(*words)[0] == 0


def test_a_cache_that_does_not_fit(processes: Any, disk: Callable[[str], Path]) -> None:
    data = disk("64k")
    rest = ["stream.size=32", "logger=none", "max_epochs=1", "model=mlp", "model.hidden=[4]"]
    words = ["fit", *IMAGES, *rest, f"data_dir={data}"]
    code, error = processes.call(*words, "run_dir=run")
    assert code == 2
    said = processes.sentences(error)[-1]
    assert f"'{data}" in said
    assert "No space left on device" in said
    assert not list(data.rglob("*.tmp"))
    disk("20m")
    assert processes.call(*words, "run_dir=run")[0] == 0
    assert processes.call(*words, "run_dir=again", "data_dir=elsewhere")[0] == 0
    assert processes.results("run") == processes.results("again")


def test_output_that_cannot_be_written(processes: Any, whole: Any) -> None:
    code, error = processes.call("list", "strategies", stdout="/dev/full")
    assert code == 2
    assert processes.sentences(error) == error.splitlines()
    assert "its output cannot be written: No space left on device" in error
    # What a run says of its progress is not worth the run.
    assert processes.call("fit", *processes.words, "run_dir=run", stderr="/dev/full")[0] == 0
    assert processes.results("run") == whole


# ---------------------------------------------------------------- clocks

CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long behind(void) { return access("back", F_OK) == 0 ? 3600 : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, now);
  if (!failed && clock == CLOCK_REALTIME) now->tv_sec -= behind();
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now) *now = exact.tv_sec;
  return exact.tv_sec;
}
"""


@pytest.mark.slow  # an interpreter of its own, into which libc's clock is loaded
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_clock_that_is_set_back_an_hour(processes: Any, whole: Any) -> None:
    place = processes.place
    (place / "clock.c").write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"], cwd=place)
    saving = ["checkpoint.every_seconds=0.01", "checkpoint.max_cost=1", "checkpoint.keep=1000"]
    words = [*processes.words, *saving, "run_dir=run"]
    environment = {"LD_PRELOAD": str(place / "clock.so")}
    run = processes.start("fit", *words, pause=7, environment=environment, anew=True)
    check_set_back(processes, whole, run)


PYTHON_CLOCK = """
import datetime, sys, time
from pathlib import Path

from clframe.cli.main import main
from clframe.plugins.builtin.lifetime_log import LifetimeLog

real = time.time


def behind():
    return 3600 if Path("back").exists() else 0


time.time = lambda: real() - behind()
*others, clock = LifetimeLog.__init__.__defaults__
now = lambda: clock() - datetime.timedelta(seconds=behind())
LifetimeLog.__init__.__defaults__ = (*others, now)
sys.exit(main(sys.argv[1:]))
"""


def test_a_clock_of_python_that_is_set_back_an_hour(processes: Any, whole: Any) -> None:
    """The same without an interpreter of its own: only Python's clocks go back."""
    saving = ["checkpoint.every_seconds=0.01", "checkpoint.max_cost=1", "checkpoint.keep=1000"]
    words = ["-c", PYTHON_CLOCK, "fit", *processes.words, *saving, "run_dir=run"]
    place = processes.place
    data = {"CLFRAME_DATA": str(place / "data"), "PAUSE": "7", "OMP_NUM_THREADS": "1"}
    run = processes.server.start(words, place, {**os.environ, **data})
    processes.started.append(run)
    check_set_back(processes, whole, run)


def check_set_back(processes: Any, whole: Any, run: Process) -> None:
    """Set the clock of a run that waits back, and see that only its time stamps show it."""
    place = processes.place
    processes.paused(run)
    saves = len(list((place / "run/checkpoints").glob("*.pt")))
    (place / "back").touch()
    processes.go()
    assert run.end()[0] == 0
    assert processes.results("run") == whole
    # The clock of the run did go back, and nothing but the time stamps shows it.
    stamps = []
    for path in sorted((place / "run/log").rglob("data-log.tsv"), key=os.path.getmtime):
        with path.open() as file:
            stamps += [row["timestamp"] for row in csv.DictReader(file, delimiter="\t")]
    assert min(stamps) < stamps[0]
    events = [json.loads(line) for line in (place / "run/events.jsonl").read_text().splitlines()]
    assert all(event.get("seconds", 0) >= 0 for event in events)
    timing = json.loads((place / "run/results.json").read_text())["timing"]
    assert all(value >= 0 for value in timing.values())
    assert len(list((place / "run/checkpoints").glob("*.pt"))) > saves + 2
    assert processes.call("report", "run", "--out", "page.html")[0] == 0
    assert processes.call("l2", "run/log", "--no-plots", "--out", "l2")[0] == 0
