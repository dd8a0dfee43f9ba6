"""One process at a time, refused or waited for."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clframe.errors import DataError, RunFolderError
from clframe.utils.lock import Lock

HOLD = (
    "import sys, pathlib; from clframe.utils.lock import Lock;"
    "lock = Lock(pathlib.Path(sys.argv[1])); lock.take();"
    "print('locked', flush=True); sys.stdin.read()"
)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def test_the_caller_says_the_sentence(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    with pytest.raises(RunFolderError, match=rf"is locked by process {other.pid} on"):
        Lock(tmp_path / ".lock").take()
    lock = Lock(tmp_path / ".lock", lambda holder: DataError(f"in the hands of {holder}"))
    with pytest.raises(DataError, match=rf"in the hands of process {other.pid} on"):
        lock.take()
    other.kill()
    other.wait()
    with lock:
        assert f"process {os.getpid()} on" in lock.path.read_text()


def test_waiting_is_told_once_and_ends_with_the_holder(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    notices: list[bool] = []

    def notice() -> None:
        notices.append(True)
        threading.Timer(0.2, other.kill).start()

    lock = Lock(tmp_path / ".lock")
    lock.wait(notice)
    assert notices == [True]
    with pytest.raises(RunFolderError):
        Lock(lock.path).take()
    lock.release()
    lock.wait(notice)
    assert notices == [True]
    lock.release()


def test_a_lock_falls_with_its_last_reference(tmp_path: Path) -> None:
    gc.disable()
    try:
        lock = Lock(tmp_path / ".lock")
        lock.take()
        del lock
        Lock(tmp_path / ".lock").take()
    finally:
        gc.enable()


def test_a_run_folder_lets_go_with_its_last_reference(tmp_path: Path) -> None:
    from clframe.runs.folder import RunFolder

    gc.disable()
    try:
        folder = RunFolder(tmp_path)
        folder.lock.take()
        with pytest.raises(RunFolderError, match=r"is in use by process .*give another run_dir"):
            RunFolder(tmp_path).lock.take()
        del folder
        RunFolder(tmp_path).lock.take()
    finally:
        gc.enable()


def test_network_drives_that_want_a_file_open_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "as NFS does")
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with Lock(tmp_path / ".lock"), pytest.raises(RunFolderError, match="is locked by"):
        Lock(tmp_path / ".lock").take()


def test_without_locks_everybody_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    with Lock(tmp_path / ".lock"), Lock(tmp_path / ".lock") as second:
        second.wait()


def test_a_lock_whose_file_was_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".lock"
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        path.unlink()  # as a run that never began does between open and flock of another
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with Lock(path), pytest.raises(RunFolderError, match="is locked by"):
        Lock(path).take()
