"""``clframe trace``: the hook calls of one experience as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clframe.cli.main import main

WORDS = ["trace", "strategy=ewc+replay", "max_steps=5", "stream.n_experiences=2"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_steps_are_folded_and_calls_within_others_indented(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, "--json"]) == 0
    content = json.loads(capfd.readouterr().out)
    assert content["experiences"] == 1
    rows = {(row["hook"], row["plugin"]): row for row in content["calls"]}
    penalty = rows["penalty", "ewc"]
    assert penalty["calls"] == 5
    assert penalty["within"] == ["fit_experience"]
    assert penalty["mean_ms"] == pytest.approx(penalty["total_ms"] / 5, abs=1e-3)
    assert rows["fit_experience", "loop"]["answers"] == ["True"]
    assert rows["fit_experience", "loop"]["total_ms"] >= penalty["total_ms"]
    assert rows["evaluate_tasks", "accuracy"]["answers"] == ["dict of 2"]
    assert rows["after_experience", "replay"]["calls"] == 1
    hooks = [row["hook"] for row in content["calls"]]
    assert hooks.index("configure") < hooks.index("penalty") < hooks.index("after_experience")
    assert list(here.iterdir()) == []


def test_all_is_the_whole_stream_in_eighty_columns(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, "--all", "run_dir=run"]) == 0
    output = capfd.readouterr().out
    lines = output.splitlines()
    assert lines[0].startswith("ewc+replay on split_mnist, 2 of 2 experiences")
    assert max(map(len, lines[:-1])) <= 80
    (row,) = (line.split() for line in lines if line.startswith("  extra_batches"))
    assert row[1:3] == ["replay", "10"]
    assert row[-6:] == ["-", "/", "Batch", "of", row[-2], row[-1]] or "Batch" in row
    assert (here / "run" / "results.json").exists()


@pytest.mark.parametrize("word", ["seeds=0,1", "resume=run", "trainer.devices=2"])
def test_more_than_one_run_is_refused(word: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, word]) == 2
    assert "clframe trace: traces one" in capfd.readouterr().err
