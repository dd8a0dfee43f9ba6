"""Data that changes between two commands: what was learned and tested on is recorded, and found."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import clframe
from clframe.cli.main import main
from clframe.core.results import Result
from clframe.reproduce.verify import verify
from clframe.runs.data_record import DATA, read_record
from clframe.runs.folder import RunFolder

SMALL = ("model=mlp", "model.hidden=[8]", "max_epochs=1", "progress=false", "logger=none")
KEPT = "checkpoint.every_experience=true"
CLASSES = ("bolt", "cup", "drill")


def _image(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _week(root: Path, week: int, n: int = 12) -> None:
    for k, name in enumerate(CLASSES):
        for number in range(n):
            _image(root / f"week{week}" / name / f"{number}.png", 1000 * week + 100 * k + number)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two weeks of images and a run on them, which tests copy: its data is beside it."""
    base = tmp_path_factory.mktemp("own")
    _week(base / "data", 1)
    _week(base / "data", 2)
    stream = ("stream=folder", "stream.path=data", "stream.by=domain", "strategy=er")
    with contextlib.chdir(base):
        assert main(["fit", *stream, *SMALL, KEPT, "run_dir=run"]) == 0
    return base


@pytest.fixture
def base(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same at a place of its own, which is the working directory, with a copy of the data."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    shutil.copytree(made / "data", tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _fork(base: Path, *words: str) -> int:
    return main(["fork", str(base / "run"), "--at", "2", f"run_dir={base / 'child'}", *words])


def test_a_fork_over_a_folder_that_only_grew_is_the_same_run_so_far(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _week(base / "data", 3)
    assert _fork(base) == 0, capsys.readouterr().err
    result = Result.load(base / "child")
    assert result.matrix.rows == ["before", "week1", "week2", "week3"]
    parent, child = read_record(base / "run"), read_record(base / "child")
    assert parent is not None
    assert child is not None
    assert [*child.experiences] == ["week1", "week2", "week3"]
    for week in ("week1", "week2"):
        assert child.experiences[week].sum == parent.experiences[week].sum
        assert child.tasks[week].sum == parent.tasks[week].sum
    assert all(finding.good for finding in verify(base / "child"))


def test_a_fork_over_changed_data_is_refused_with_what_changed(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _week(base / "data", 3)
    for number in range(5):
        _image(base / "data" / "week1" / "cup" / f"new{number}.png", 9000 + number)
    assert _fork(base) == 2
    message = capsys.readouterr().err
    assert "experience 'week1' was learned from" in message
    assert "week2" not in message.replace("week2/", "")
    assert not (base / "child").exists()


def test_the_data_is_compared_with_what_the_parent_learned_and_not_with_its_folder_now(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parent's folder changed, and the child has an unchanged copy with one more week."""
    for number in range(5):
        _image(base / "data" / "week1" / "cup" / f"new{number}.png", 9000 + number)
    _week(base / "copy", 3)
    assert _fork(base, f"stream.path={base / 'copy'}") == 0, capsys.readouterr().err


def test_what_was_measured_on_other_test_data_becomes_unknown(base: Path) -> None:
    for number in range(12):
        _image(base / "data" / "week2" / "cup" / f"new{number}.png", 9000 + number)
    words = ["fork", str(base / "run"), "--at", "1", f"run_dir={base / 'child'}"]
    assert main(words) == 0
    before = Result.load(base / "child").matrix.to_json()
    assert [row[0] is None for row in before["values"]] == [False, False, False]
    assert [row[1] is None for row in before["values"]] == [True, True, False]


def test_eval_names_the_tests_that_are_others(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(base / "run")]) == 0
    shown = capsys.readouterr()
    assert "not the run's" not in shown.err
    for number in range(12):
        _image(base / "data" / "week2" / "cup" / f"new{number}.png", 9000 + number)
    assert main(["eval", str(base / "run")]) == 0
    shown = capsys.readouterr()
    assert "these are not the run's test samples: task 'week2'" in shown.err.replace("\n", " ")
    assert "now, other test data" in shown.out
    assert json.loads(shown.out.splitlines()[-1])["other_test_data"] is True
    assert "week1" not in shown.err


def test_eval_names_tasks_that_the_run_does_not_know(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _week(base / "data", 3)
    capsys.readouterr()
    assert main(["eval", str(base / "run")]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "not measured, because the run has no such tasks: week3" in told


def test_eval_refuses_samples_that_were_learned(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The images change places, so those that were learned are tested on."""
    for name in CLASSES:
        folder = base / "data" / "week1" / name
        for path in sorted(folder.glob("*.png")):
            path.rename(folder / f"moved{path.name}")
    assert main(["eval", str(base / "run")]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "the run was trained on" in message
    assert "test samples of task 'week1'" in message


def test_verify_fails_on_changed_data(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(base / "run")]) == 0
    assert "no sample both learned and tested on" in capsys.readouterr().out
    victim = next((base / "data" / "week2" / "cup").glob("*.png"))
    _image(victim, 9999)
    assert main(["verify", str(base / "run")]) == 1
    shown = capsys.readouterr().out
    assert "FAILED  data: " in shown
    assert "'week2'" in shown
    assert "'week1'" not in shown
    shutil.rmtree(base / "data" / "week2")
    assert main(["verify", str(base / "run")]) == 1
    assert "data: 'week2' is no longer in the data" in capsys.readouterr().out


def test_a_bundle_has_the_record(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", str(base / "run"), "--out", str(base / "run.zip")]) == 0
    assert main(["verify", str(base / "run.zip")]) == 0
    assert "ok      data: 2 experiences and 2 tasks" in capsys.readouterr().out


def test_a_run_that_was_tested_on_what_it_learned_is_not_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "test"):
        for k, name in enumerate(CLASSES):
            for number in range(4):
                # The first image of each class is in both folders.
                seed = 100 * k + number + (50 if split == "test" and number else 0)
                _image(tmp_path / "data" / split / name / f"{number}.png", seed)
    words = ["stream=folder", f"stream.path={tmp_path / 'data'}", "n_experiences=3"]
    run = tmp_path / "run"
    assert main(["fit", *words, "strategy=naive", *SMALL, KEPT, f"run_dir={run}"]) == 0
    assert "1 of 4 test samples of task 'bolt' are copies of training" in capsys.readouterr().err
    assert main(["verify", str(run)]) == 1
    assert "1 of 4 test samples of task 'bolt' were trained on" in capsys.readouterr().out


def test_a_run_without_a_record_is_not_taken_for_the_same(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of an older version, whose split was another."""
    (base / "run" / DATA).unlink()
    (base / "run" / "SHA256SUMS").unlink()
    assert main(["eval", str(base / "run")]) == 0
    assert "has no record of its data" in " ".join(capsys.readouterr().err.split())
    _week(base / "data", 3)
    assert _fork(base) == 2
    assert "has no record of its data" in " ".join(capsys.readouterr().err.split())


def test_a_resumed_run_has_each_line_once(tmp_path: Path) -> None:
    x = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
    words = {"model": "mlp", "max_epochs": 1, "progress": False, "logger": None}
    stream = clframe.stream_from((x, torch.arange(90) % 6), n_experiences=3)
    clframe.fit(stream, "naive", run_dir=tmp_path / "whole", **words)  # type: ignore[arg-type]
    lines = (tmp_path / "whole" / DATA).read_text().splitlines()
    kinds = ["task" if "task" in json.loads(line) else "experience" for line in lines]
    assert kinds == ["task"] * 3 + ["experience"] * 3
    assert DATA in (tmp_path / "whole" / "SHA256SUMS").read_text()


def test_a_damaged_record_is_named(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(base / "run")
    text = folder.data.read_text()
    folder.data.write_text(text.replace('"samples"', '"sample"', 1))
    (base / "run" / "SHA256SUMS").unlink()
    _week(base / "data", 3)
    assert main(["eval", str(base / "run")]) == 2
    assert "line 1, is damaged" in " ".join(capsys.readouterr().err.split())


def test_the_record_of_built_in_data_has_sums_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["n_experiences=3", "max_epochs=1", "model.hidden=[8]", "logger=none"]
    assert main(["fit", *words, "strategy=naive", f"run_dir={run}"]) == 0
    record = read_record(run)
    assert record is not None
    assert [*record.experiences] == ["exp0", "exp1", "exp2"]
    assert [*record.tasks] == ["task0", "task1", "task2"]
    assert not record.own_data
    assert len({one.sum for one in record.experiences.values()}) == 3
    assert (run / DATA).stat().st_size < 1500


def test_a_run_is_not_continued_over_other_data(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the first experience, and the number of images, are what they were."""
    (base / "run" / "results.json").unlink()
    for number in (3, 4):
        (base / "run" / "checkpoints" / f"{number:06d}.pt").unlink(missing_ok=True)
    victim = next((base / "data" / "week2" / "cup").glob("*.png"))
    _image(victim, 9999)
    assert main(["fit", "resume=run"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "cannot continue run" in message
    assert "as the same run" in message
    assert "'week2' was" in message
    assert "resume.allow=[data]" in message
    assert main(["fit", "resume=run", "resume.allow=[data]"]) == 0
