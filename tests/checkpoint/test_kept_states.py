"""A run keeps the state after each experience by default, within a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clframe
from clframe.checkpoint.settings import CheckpointSettings
from clframe.errors import SettingError
from clframe.reproduce.fork import fork
from clframe.reproduce.verify import verify
from clframe.runs.fork_source import notes
from clframe.testing import toy_stream


def learn(place: Path, n: int = 4, **checkpoint: Any) -> list[int]:
    """The experiences after which a run has kept its state."""
    clframe.fit(
        toy_stream(n_experiences=n, samples=4),
        [],
        {"name": "mlp", "hidden": [4]},
        trainer={"max_epochs": 1, "batch_size": 8},
        run_dir=place,
        progress=False,
        logger=None,
        checkpoint=checkpoint or None,
    )
    positions = [note["position"] for note in notes(place)]
    between = [p for p in positions if p.get("rows", 0) > p.get("experiences_learned", 99)]
    return sorted(position["experiences_learned"] for position in between)


def test_a_default_run_can_be_verified_and_forked(tmp_path: Path) -> None:
    given: dict[str, Any] = {"trainer": {"max_steps": 3}, "progress": False, "logger": None}
    stream = {"name": "split_mnist", "n_experiences": 3}
    clframe.fit(stream, "naive", {"name": "mlp", "hidden": [4]}, run_dir=tmp_path / "run", **given)
    assert all(finding.good for finding in verify(tmp_path / "run", experience=2))
    child = fork(tmp_path / "run", 1, run_dir=tmp_path / "child", progress=False)
    assert child.fork is not None
    assert child.fork["at"] == 1


def test_what_fits_is_kept_and_the_limit_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert learn(tmp_path / "all") == [0, 1, 2, 3, 4]
    assert capsys.readouterr().err == ""
    size = max(path.stat().st_size for path in (tmp_path / "all/checkpoints").glob("*.pt"))
    kept = learn(tmp_path / "some", max_bytes=int(2.5 * size))
    said = capsys.readouterr().err.splitlines()
    assert kept[:2] == [0, 1]
    assert 3 not in kept
    assert len([line for line in said if "checkpoint.max_bytes" in line]) == 1
    assert learn(tmp_path / "true", max_bytes=0, every_experience=True) == [0, 1, 2, 3, 4]
    assert 1 not in learn(tmp_path / "false", every_experience=False)


def test_a_long_stream_keeps_none_unless_asked() -> None:
    assert CheckpointSettings().room(50) == CheckpointSettings().max_bytes
    assert CheckpointSettings().room(51) == 0
    assert CheckpointSettings(every_experience=True).room(1000) == float("inf")
    with pytest.raises(SettingError, match="max_bytes"):
        CheckpointSettings(max_bytes=-1)
