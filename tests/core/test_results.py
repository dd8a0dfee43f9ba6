"""A result is the same after it was written and loaded."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clframe
from clframe.core.matrix import AccuracyMatrix, names_differ
from clframe.core.results import Result, environment
from clframe.errors import RunFolderError
from clframe.runs.folder import RunFolder
from clframe.testing import toy_stream


def some_result() -> Result:
    matrix = AccuracyMatrix(["a", "b"], "success")
    matrix.add_row("before", {"a": 0.1, "b": 1 / 3})
    matrix.add_row("exp0", {"a": 1.0})
    return Result(
        stream="toy",
        strategy="ewc+replay",
        scenario="task",
        seed=3,
        matrix=matrix,
        source="made up",
        curves={"exp0": {"a": [0.25, 1.0]}},
        metrics={
            "gem": {"acc": 0.5, "bwt": math.nan, "fwt": None},
            "l2": {"profile": "paper", "tasks": {"a": {"lx": 3}}, "names": ["a"]},
            "libero": {"fwt_k": [0.5, None]},
        },
        timing={"train_seconds": 1.5, "eval_share": math.nan, "peak_memory_bytes": 512},
        environment={"device": "cpu", "revision": None, "versions": {"torch": "2"}},
        pretrain={"run": "x"},
    )


def test_a_loaded_result_is_the_one_that_was_written(tmp_path: Path) -> None:
    written = some_result()
    RunFolder(tmp_path).write(written)
    text = (tmp_path / "results.json").read_text()
    for path in (tmp_path, str(tmp_path), tmp_path / "results.json"):
        loaded = clframe.Result.load(path)
        assert loaded.to_json() == written.to_json()
        assert json.dumps(loaded.to_json(), indent=1) + "\n" == text, "bit for bit"
        assert loaded.run_dir == tmp_path
        assert np.array_equal(loaded.matrix.values, written.matrix.values, equal_nan=True)
        assert loaded.scalars() == written.scalars()


def test_metrics_by_full_name() -> None:
    result = some_result()
    assert result.scalars() == {
        "gem.acc": 0.5,
        "gem.bwt": None,
        "gem.fwt": None,
        "l2.tasks.a.lx": 3.0,
    }
    assert result.lists() == {"libero.fwt_k": [0.5, None]}


def test_a_run_can_be_loaded(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_steps": 2, "progress": False, "logger": None}
    fitted = clframe.fit(toy_stream(), run_dir=tmp_path / "run", **settings)
    loaded = clframe.Result.load(tmp_path / "run")
    assert loaded.to_json() == fitted.to_json()
    assert loaded.matrix.measure == "accuracy"
    assert loaded.task_of_row == []


def test_what_is_no_finished_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="holds no finished run"):
        Result.load(tmp_path / "nowhere")
    (tmp_path / "events.jsonl").write_text("")
    with pytest.raises(RunFolderError, match="has not finished; continue it with"):
        Result.load(tmp_path)
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"results\.json is not valid JSON \(line 1\)"):
        Result.load(tmp_path)
    with pytest.raises(RunFolderError, match="cannot be read: Not a directory"):
        Result.load(tmp_path / "events.jsonl")


def test_columns_of_the_same_name_keep_their_values() -> None:
    content = {"rows": ["r"], "columns": ["a", "a"], "values": [[0.1, None]], "measure": "x"}
    assert AccuracyMatrix.from_json(content).to_json() == content


def test_matrices_that_cannot_be_laid_over_each_other() -> None:
    one, other = some_result().matrix, some_result().matrix
    assert not names_differ([one, other])
    other.measure = "accuracy"
    assert names_differ([one, other])


def test_loading_a_result_is_light() -> None:
    code = (
        "import sys, clframe; clframe.Result.load; import clframe.runs.reader;"
        "sys.exit(bool({'torch', 'matplotlib', 'yaml'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_revision_of_the_users_own_project_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    monkeypatch.chdir(tmp_path)
    assert "project" not in environment("cpu")
    git("init", "--quiet")
    (tmp_path / "mine.py").write_text("x = 1\n")
    git("add", "mine.py")
    git("commit", "--quiet", "-m", "first")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert environment("cpu")["project"] == git("rev-parse", "HEAD")
    (tmp_path / "mine.py").write_text("x = 2\n")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert environment("cpu")["project"] == git("rev-parse", "HEAD") + "-dirty"
