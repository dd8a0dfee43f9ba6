"""What a machine does to a run: full disks, lost data, no memory, losses that are not numbers."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")

# A stream that reads one file for each sample, as image folders do.
FILES = '''
from pathlib import Path

import numpy as np
import torch

from clframe import hookimpl
from clframe.data.dataset import MapData
from clframe.core.stream import Experience, Stream, Task


class Files:
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.npy"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        x = torch.from_numpy(np.load(self.paths[i]))
        return x, int(x[0] > 0)


def files(folder: str = "files", workers: int = 0) -> Stream:
    """Vectors, each in a file of its own."""
    data = Files(folder)
    labels = torch.tensor([data[i][1] for i in range(len(data))])
    made = MapData(data, labels, num_workers=workers)
    tasks = [Task(0, "all", (0, 1), lambda: made)]
    experiences = [Experience(i, f"exp{i}", (tasks[0],), lambda: made) for i in range(2)]
    return Stream("files", "domain", experiences, tasks, (4,), 2)


@hookimpl
def register(registry):
    registry.add("stream", "files", files)
'''


def test_a_term_that_is_not_finite_is_named(
    fit: Any, same: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=whole", "strategy=[ewc,act]", "strategy.ewc.weight=10") == 0
    words = ("run_dir=part", "strategy=[ewc,act]", "strategy.ewc.weight=10")
    assert fit(*words, "checkpoint.every_n_steps=3", act="27:nan") == 2
    error = [line for line in capfd.readouterr().err.splitlines() if line.startswith("clframe:")]
    assert len(error) == 1
    assert "not finite in experience 'exp1', epoch 1, step 7: the term of plugin 'act'" in error[0]
    assert not Path("part/results.json").exists()
    assert fit("resume=part") == 0
    assert same("whole", "part")


def test_a_model_that_runs_away_is_stopped(fit: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert fit("run_dir=run", "optimizer=sgd", "lr=1e30") == 2
    assert "the loss of the current batch itself" in capfd.readouterr().err
    assert fit("run_dir=on", "optimizer=sgd", "lr=1e30", "trainer.on_nan=ignore") == 0


def test_too_little_memory_is_said_with_the_batch_size(
    fit: Any, same: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=whole") == 0
    assert fit("run_dir=part", "checkpoint.every_n_steps=2", act="9:memory") == 2
    error = capfd.readouterr().err
    assert "not enough memory for a step with trainer.batch_size=250" in error
    assert "try trainer.batch_size=125" in error
    assert "Traceback" not in error
    assert fit("resume=part") == 0
    assert same("whole", "part")


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("fault", ["rm files/7.npy", "truncate -s 100 files/7.npy"])
def test_data_that_is_lost_in_the_middle_is_named(
    fit: Any, same: Any, fault: str, workers: int, capfd: pytest.CaptureFixture[str]
) -> None:
    import numpy as np

    Path("files").mkdir()
    for i in range(20):
        np.save(f"files/{i}.npy", np.random.default_rng(i).normal(size=4).astype(np.float32))
    Path("files.py").write_text(FILES)
    words = ["stream=files", f"stream.workers={workers}", "plugin_path=[act.py,files.py]"]
    words += ["batch_size=5", "hidden=[8]", "max_epochs=2"]
    lost = Path("files/7.npy").read_bytes()
    assert _run(fit, words, "whole") == 0
    assert _run(fit, words, "part", act=f"6:{fault}") == 2
    error = capfd.readouterr().err
    assert "at experience 'exp0' data cannot be read" in error
    if "rm" in fault:
        assert "files/7.npy" in error
    assert "Traceback" not in error
    Path("files/7.npy").write_bytes(lost)
    assert fit("resume=part") == 0
    assert same("whole", "part")


def _run(fit: Any, words: list[str], run: str, act: str = "") -> int:
    from clframe.cli.main import main

    os.environ["ACT"] = act  # the fixture puts the environment back
    rest = ["strategy=[naive,act]", "logger=none", f"run_dir={run}", "checkpoint.every_n_steps=2"]
    return main(["fit", *words, *rest])


# ---------------------------------------------------------------- disks


@pytest.fixture
def limits() -> Iterator[None]:
    """Put the size limit of files back."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("limits")
def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(
    fit: Any, same: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert fit("run_dir=whole") == 0
    assert fit("run_dir=part", "checkpoint.every_n_steps=3", act="7:limit 50000") == 2
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    error = capfd.readouterr().err
    assert "run_dir 'part' cannot be written" in error
    assert "continue with resume=part" in error
    assert "Traceback" not in error
    assert not list(Path("part/checkpoints").glob(".*"))
    assert fit("resume=part") == 0
    assert same("whole", "part")


@pytest.fixture
def disk() -> Iterator[Path]:
    """A file system of 300 kB."""
    place = Path("disk").absolute()
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this root cannot mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@ROOT_ONLY
def test_a_full_disk(fit: Any, same: Any, disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert fit("run_dir=whole") == 0
    assert fit(f"run_dir={disk}/part", "checkpoint.every_n_steps=3") == 2
    error = capfd.readouterr().err
    assert "No space left on device" in error
    assert "free some space, then continue with resume=" in error
    assert "Traceback" not in error
    subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
    assert fit(f"resume={disk}/part") == 0
    assert same("whole", f"{disk}/part")


@ROOT_ONLY
def test_a_disk_that_becomes_read_only(
    fit: Any, same: Any, disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
    assert fit("run_dir=whole") == 0
    act = f"7:mount -o remount,ro {disk}"
    assert fit(f"run_dir={disk}/part", "checkpoint.every_n_steps=3", act=act) == 2
    error = capfd.readouterr().err
    assert "Read-only file system" in error
    assert "Traceback" not in error
    assert fit(f"run_dir={disk}/other") == 2
    assert "cannot be written" in capfd.readouterr().err
    assert fit(f"resume={disk}/part") == 2
    assert "cannot be written" in capfd.readouterr().err
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert fit(f"resume={disk}/part") == 0
    assert same("whole", f"{disk}/part")
