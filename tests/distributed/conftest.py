from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers.processes import ProcessServer

HERE = Path(__file__).parent


def environment(**more: str) -> dict[str, str]:
    """Without what a process started by another would find."""
    left_out = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def run_command(words: list[str], cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; one that hangs fails the test."""
    return subprocess.run(
        words,
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="session")
def command() -> Any:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("two processes need two CPU cores")
    return run_command


@pytest.fixture(scope="session")
def worker() -> Any:
    """The cases, as a module of this process."""
    spec = importlib.util.spec_from_file_location("ranks_worker", HERE / "worker.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


START = """
import runpy, sys
sys.executable, *sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="session")
def quick_command(command: Any, clframe_process: ProcessServer, tmp_path_factory: Any) -> Any:
    """Run a script as ``command`` does, with ranks that fork from the process server."""
    python = tmp_path_factory.mktemp("python") / "python"
    # A rank is a child of the server, so it must not look for rank zero as its parent.
    python.write_text(f'#!/bin/sh\nunset CLFRAME_PARENT\nexec "{clframe_process.python}" "$@"\n')
    python.chmod(0o755)

    def run(words: list[str], cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        words = ["-c", START, str(python), *words]
        environ = environment(**more)
        return clframe_process.run(*words, folder=cwd, environment=environ, seconds=300)

    return run


@pytest.fixture(scope="session")
def few_ranked(
    quick_command: Any, worker: Any, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """What each of two forked ranks ended with, for some cases that differ in what they share."""
    folder = tmp_path_factory.mktemp("few")
    done = quick_command([str(HERE / "worker.py"), "2", str(folder), *worker.FEW], folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.fixture(scope="session")
def ranked(command: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two ranks ended with, for every case; one process group for all."""
    folder = tmp_path_factory.mktemp("ranks")
    done = command([sys.executable, str(HERE / "worker.py"), "2", str(folder)], folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in (0, 1)]
