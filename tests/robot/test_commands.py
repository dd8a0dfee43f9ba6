"""The commands for demonstrations and rollouts, on the robot that needs no simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from clframe.cli.main import main

pytest.importorskip("h5py", reason="demonstrations are HDF5 files")

STREAM = "stream=point_robot"


def test_make_check_and_play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = f"data_dir={tmp_path}"
    assert main(["demos", "make", STREAM, "n=3", data, "num_workers=2"]) == 0
    files = sorted(tmp_path.rglob("*.hdf5"))
    assert len(files) == 4
    assert main(["demos", "make", STREAM, "n=3", data]) == 0
    assert "all 4 tasks have 3 demonstrations" in capsys.readouterr().out
    assert main(["demos", "check", *map(str, files)]) == 0
    assert "3 demonstrations" in capsys.readouterr().out
    out = tmp_path / "video"
    words = ["task=turn_1_of_4", "demo=2", f"out={out}", "every=2", data]
    assert main(["demos", "play", STREAM, *words]) == 0
    assert "goal reached" in capsys.readouterr().out
    assert (out / "0000.png").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["demos", "make"], "needs stream=NAME"),
        (["demos", "make", STREAM, "task=tern_0_of_4"], "did you mean 'turn_0_of_4'"),
        (["demos", "make", STREAM, "agian=true"], "is not a setting; did you mean 'again'"),
        (
            ["demos", "make", STREAM, "n=none"],
            "--n: must be a whole number from 1 up, got 'none'",
        ),
        (["demos", "make", "stream=split_mnist"], "has no environments"),
        (["demos", "mkae", STREAM], "did you mean 'make'"),
        (["demos", "check", "nowhere.hdf5"], "there is no demonstration file 'nowhere.hdf5'"),
        (["demos", "play", STREAM], "needs --task NAME"),
        (["demos", "play", STREAM, "task=turn_0_of_4", "out=a.avi"], "a video as 'a.avi'"),
        (["rollout", "nowhere"], "nowhere"),
        (["rollout"], "the following arguments are required: run"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1


def test_rollout_measures_what_the_run_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    fit = [STREAM, "stream.n_tasks=2", "strategy=packnet", "max_epochs=10", f"run_dir={run}"]
    assert main(["fit", *fit, "logger=none"]) == 0
    assert main(["eval", str(run)]) == 0
    assert "the two differ" not in capsys.readouterr().out
    assert main(["rollout", str(run)]) == 0
    output = capsys.readouterr().out
    import json

    last = json.loads((run / "results.json").read_text())["matrix"]["values"][-1]
    for name, value in zip(("turn_0_of_2", "turn_1_of_2"), last, strict=True):
        (line,) = (line for line in output.splitlines() if line.startswith(name))
        assert f" {round(20 * value)}/20 " in line
    assert main(["rollout", str(run), "--task", "tern_0_of_2"]) == 2
    assert "did you mean 'turn_0_of_2'" in capsys.readouterr().err
