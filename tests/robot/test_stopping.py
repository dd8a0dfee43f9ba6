"""Episodes that are kept, cells that stop when they are decided, and runs compared in pairs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import clframe
from clframe.cli.main import main
from clframe.core.results import Result
from clframe.errors import SettingError
from clframe.evaluation.episodes import outcomes_of
from clframe.plugins.builtin import rollouts
from clframe.report.paired import pairs_of
from clframe.robot.stopping import StopRule
from clframe.utils.paired_tests import mcnemar
from clframe.utils.sequential_tests import decide
from clframe.utils.statistics import wilson

pytest.importorskip("h5py", reason="demonstrations are HDF5 files")

EPISODES = 24
STOP = "stream.stop_threshold=0.5"


def fit(folder: Path, *words: str) -> int:
    settings = [
        *("stream=point_robot", "stream.n_tasks=2", "stream.num_demos=10", "stream.num_envs=4"),
        *(f"stream.eval_episodes={EPISODES}", f"data_dir={folder.parent}", "progress=false"),
        *("trainer.max_epochs=10", "trainer.batch_size=32", "optimizer.lr=0.003"),
    ]
    resumed = any(word.startswith("resume=") for word in words)
    return main(["fit", *([] if resumed else [*settings, f"run_dir={folder}"]), *words])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three runs: naive on all episodes, naive stopped early, cumulative."""
    folder = tmp_path_factory.mktemp("runs")
    with contextlib.redirect_stdout(io.StringIO()):
        assert fit(folder / "all", "strategy=naive") == 0
        assert fit(folder / "stopped", "strategy=naive", STOP) == 0
        assert fit(folder / "joint", "strategy=cumulative") == 0
    return folder


def content(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def test_every_episode_is_kept_with_an_interval_in_every_cell(runs: Path) -> None:
    found = content(runs / "all")
    kept, matrix, sure = found["measured"]["rollouts"], found["matrix"], found["intervals"]
    assert "stopped" not in kept
    assert list(kept["episodes"]) == matrix["columns"]
    for i, row in enumerate(matrix["values"]):
        for j, value in enumerate(row):
            text = kept["success"][i][j]
            assert len(text) == EPISODES
            assert text.count("1") / EPISODES == value
            assert sure["count"][i][j] == EPISODES
            assert (sure["low"][i][j], sure["high"][i][j]) == wilson(value, EPISODES)
    assert (sure["method"], sure["confidence"], sure["measure"]) == ("wilson", 0.95, "success")
    assert Result.load(runs / "all").to_json()["intervals"] == sure, "read again"


def test_a_cell_stops_when_its_question_is_decided(runs: Path) -> None:
    every, stopped = content(runs / "all"), content(runs / "stopped")
    rule, fewer = StopRule(0.5), 0
    for i, row in enumerate(stopped["matrix"]["values"]):
        for j, value in enumerate(row):
            text = stopped["measured"]["rollouts"]["success"][i][j]
            whole = every["measured"]["rollouts"]["success"][i][j]
            assert whole.startswith(text), "the same episodes, whichever ended first"
            wins = np.cumsum([letter == "1" for letter in whole]).tolist()
            whys = [rule.why(k, n, EPISODES) for n, k in enumerate(wins, 1)]
            used = next((n for n, why in enumerate(whys, 1) if why), EPISODES)
            assert len(text) == used == stopped["intervals"]["count"][i][j]
            assert value == text.count("1") / used
            said = stopped["measured"]["rollouts"]["stopped"][i][j]
            if used < EPISODES:
                why = whys[used - 1]
                assert said == {"episodes": used, "of": EPISODES, "why": why, "alpha": 0.05}
                fewer += 1
            else:
                assert said is None
    assert fewer >= 4
    assert stopped["metrics"]["gem"]["acc"] == pytest.approx(
        np.mean(stopped["matrix"]["values"][-1])
    )


def test_a_run_stopped_within_an_evaluation_goes_on_to_the_bit(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure, calls = rollouts._measure, 0

    def measured(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:  # the first task of the last row
            os.kill(os.getpid(), signal.SIGTERM)
        return measure(*arguments)

    monkeypatch.setattr(rollouts, "_measure", measured)
    (tmp_path / "demos").symlink_to(runs / "demos")
    folder = tmp_path / "part"
    assert fit(folder, "strategy=naive", STOP) == 130
    assert fit(folder, f"resume={folder}") == 0
    part, straight = content(folder), content(runs / "stopped")
    for name in ("matrix", "intervals", "measured", "metrics"):
        assert part[name] == straight[name]
    assert calls == 6


def test_two_runs_are_compared_on_the_same_episodes(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = Result.load(runs / "joint"), Result.load(runs / "all")
    pairs = pairs_of(first, second)
    assert not isinstance(pairs, str)
    one = np.array([pair.successes[0] for pair in pairs]).T.ravel()
    two = np.array([pair.successes[1] for pair in pairs]).T.ravel()
    p = mcnemar(int((one & ~two).sum()), int((two & ~one).sum()))
    assert main(["compare", str(runs / "joint"), str(runs / "all"), "--sequential"]) == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("all "))
    assert line.split()[1] == str(2 * EPISODES)
    shown = float(line.split()[-1])
    assert shown == pytest.approx(p, rel=0.5)
    end = decide(one.tolist(), two.tolist())
    assert end is not None
    assert end.winner == 1
    assert f"cumulative succeeds more often, decided after {end.pairs} of {2 * EPISODES}" in out
    assert "at most 0.05 of such comparisons" in out
    # Every row, on a page; a test of fixed size is not made of cells that stopped early.
    words = ["compare", str(runs / "joint"), str(runs / "stopped"), "--cells", "--format"]
    assert main([*words, "markdown"]) == 0
    out = capsys.readouterr().out
    assert out.count("| all |") == 3
    assert "a cell was stopped early" in out


def test_rollouts_of_two_runs_end_when_it_is_decided(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(runs / "joint"), str(runs / "all")]
    assert main(["compare", *folders, "--rollouts", str(EPISODES)]) == 0
    every = capsys.readouterr().out
    # The episodes of the run itself: the same successes, in the same table.
    assert main(["compare", *folders]) == 0
    recorded = capsys.readouterr().out
    lines = [text.splitlines() for text in (every, recorded)]
    last = [next(line for line in text if line.startswith("all ")) for text in lines]
    assert last[0] == last[1]
    assert main(["compare", *folders, "--rollouts", "200", "--sequential"]) == 0
    out = capsys.readouterr().out
    assert "cumulative succeeds more often" in out
    found = re.search(r"(\d+) rollouts were run", out)
    assert found is not None
    assert int(found[1]) <= 2 * 2 * EPISODES


def test_what_is_not_the_same_is_not_paired(runs: Path) -> None:
    first, second = Result.load(runs / "joint"), Result.load(runs / "all")
    kept = second.measured["rollouts"]
    changed: list[tuple[Callable[[], None], str]] = [
        (lambda: kept["episodes"].update(turn_1_of_2="other"), "'turn_1_of_2' are not the same"),
        (lambda: second.matrix.columns.__setitem__(slice(None), ["x", "y"]), "no task in common"),
        (lambda: second.measured.clear(), "has kept no episodes"),
        (lambda: setattr(second.matrix, "measure", "accuracy"), "over seeds"),
    ]
    for change, words in changed:
        change()
        sentence = pairs_of(first, second)
        assert isinstance(sentence, str)
        assert words in sentence


def test_files_of_other_shapes_have_no_episodes(runs: Path) -> None:
    result = Result.load(runs / "all")
    kept = result.measured["rollouts"]
    assert len(outcomes_of(result)) == 6
    kept["success"][0] = "no list"
    kept["success"][1] = ["012", None, "11"]
    assert set(outcomes_of(result)) == {(2, 0), (2, 1)}
    kept["episodes"] = []
    assert outcomes_of(result) == {}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--sequential", "--format", "csv"], "not as csv"),
        (["--alpha", "0.1"], "add it"),
        (["--sequential", "--alpha", "2"], "--alpha is 2, but an error rate is between 0 and 1"),
        (["--cells", "--rollouts", "5"], "leave one out"),
        (["--rollouts", "0"], "must be a whole number from 1 up"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    words: list[str], sentence: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(runs / "all"), str(runs / "joint"), *words]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1


def test_three_runs_are_no_pair(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs), "--sequential"]) == 2
    assert "--sequential compares two runs, but 3 are given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ((None, None, 0.1, 20), "set one of them"),
        ((1.0, None, None, 20), "stop_threshold=1 must be between 0 and 1"),
        ((None, 0.0, None, 20), "stop_width=0 must be between 0 and 1"),
        ((0.5, None, 1.0, 20), "stream.stop_alpha is 1"),
        ((0.5, None, None, 7), "at least 8 are needed"),
        ((None, 0.1, None, 20), "stop_width=0.1 cannot be decided by stream.eval_episodes=20"),
    ],
)
def test_rules_that_cannot_be_are_refused(settings: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(SettingError, match=re.escape(sentence)):
        StopRule.of(*settings)


def test_cells_are_not_stopped_where_processes_share_their_episodes() -> None:
    stream = clframe.stream("point_robot", stop_threshold=0.5)
    for processes in (1, 2):
        learner: Any = SimpleNamespace(engine=SimpleNamespace(world_size=processes))
        with (
            pytest.raises(SettingError, match="2 processes share them")
            if processes == 2
            else contextlib.nullcontext()
        ):
            rollouts.Rollouts().configure(learner, stream)


def test_a_width_stops_an_interval_that_is_narrow() -> None:
    rule = StopRule(width=0.3)
    assert rule.why(20, 20, 100) == "within 0.3"
    assert rule.why(10, 20, 100) is None
    assert rule.why(20, 40, 45) == "hopeless"
