"""What a checkpoint refers to is on disk before it, with the names that lead there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import clframe
from clframe.testing import toy_stream
from clframe.utils.files import make_folder


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, set[str]]]:
    """What is flushed: each file or folder, with the names in a folder at that time."""
    found: list[tuple[Path, set[str]]] = []
    plain = os.fsync

    def fsync(descriptor: Any) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        found.append((path, set(os.listdir(path)) if path.is_dir() else set()))
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_files_and_folders_are_flushed_before_the_checkpoint(
    tmp_path: Path, flushed: list[tuple[Path, set[str]]]
) -> None:
    run = tmp_path / "runs" / "run"
    clframe.fit(
        toy_stream(samples=4),
        [],
        {"name": "mlp", "hidden": [4]},
        trainer={"max_epochs": 1, "batch_size": 8},
        logger=["csv", "tensorboard"],
        run_dir=run,
        progress=False,
    )
    first = next(n for n, (path, _) in enumerate(flushed) if path.parent.name == "checkpoints")
    before = flushed[:first]
    (board,) = run.glob("tensorboard/events*")
    for name in ("log/worker-default/data-log.tsv", "csv/metrics.csv", "events.jsonl"):
        assert any(path == run / name for path, _ in before), name
    assert any(path == board for path, _ in before)
    for folder, name in (
        (tmp_path, "runs"),
        (tmp_path / "runs", "run"),
        (run, "log"),
        (run / "log", "worker-default"),
        (run / "log/worker-default", "data-log.tsv"),
        (run, "csv"),
        (run / "csv", "metrics.csv"),
        (run, "tensorboard"),
        (run / "tensorboard", board.name),
    ):
        assert any(path == folder and name in names for path, names in before), (folder, name)


def test_new_folders_are_flushed_into_their_parents(
    tmp_path: Path, flushed: list[tuple[Path, set[str]]]
) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert flushed == [(tmp_path, {"a"}), (tmp_path / "a", {"b"})]
