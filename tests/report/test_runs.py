from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clframe.errors import ClframeError, RunFolderError
from clframe.runs.reader import find_runs, read_run

MakeRun = Callable[..., Path]


def test_reads_what_a_run_writes(make_run: MakeRun) -> None:
    folder = make_run(strategy="ewc", seed=4, edit=lambda c: c.update(source="embedded"))
    run = read_run(folder)
    result = run.result
    assert (result.stream, result.strategy) == ("split_mnist", "ewc")
    assert (result.scenario, result.seed) == ("class", 4)
    assert result.matrix.rows == ["before", "exp0", "exp1", "exp2"]
    assert result.matrix.columns == ["task0", "task1", "task2"]
    written = json.loads((folder / "results.json").read_text())
    assert result.matrix.cells == written["matrix"]["values"]
    assert run.metrics["gem.bwt"] == written["metrics"]["gem"]["bwt"]
    assert result.lists()["forgetting.best_minus_last_k"][-1] is None
    assert [(e.experience, e.epoch) for e in run.epochs] == [
        (i, e) for i in range(3) for e in range(2)
    ]
    assert run.config is not None
    assert run.further == {"source": "embedded"}
    assert run.notes == ()


def test_unknown_fields_events_and_null_cells_are_tolerated(make_run: MakeRun) -> None:
    def edit(content: dict[str, Any]) -> None:
        content["matrix"]["values"][1][2] = None
        content["new_field"] = {"a": [1]}
        content["metrics"]["l2"] = {"profile": "paper", "tasks": {"a": {"pm": 1.5}}, "none": None}
        content["curves"] = {"exp0": {"task0": [0.1, 0.9], "task1": "?"}, "exp1": 3}

    folder = make_run(edit=edit)
    with (folder / "events.jsonl").open("a") as file:
        file.write(
            '{"event": "checkpoint", "bytes": 3}\n[1, 2]\n{"event": "epoch", "loss": null}\n'
        )
        file.write('{"event": "epoch", "experience": 0, "epoch": 1, "loss": 0.125, "new": 1}\n')
        file.write('{"event": "epo')
    run = read_run(folder)
    assert run.result.matrix.cells[1][2] is None
    assert run.metrics["l2.tasks.a.pm"] == 1.5
    assert run.metrics["l2.none"] is None
    assert "l2.profile" not in run.metrics
    assert run.result.curves == {"exp0": {"task0": [0.1, 0.9]}}
    assert run.epochs[1].loss == 0.125, "the last of a repeated epoch counts"
    lines = len((folder / "events.jsonl").read_text().splitlines())
    assert run.notes == (f"events.jsonl: 1 unreadable line(s) left out ({lines}).",)


def test_only_results_are_needed(make_run: MakeRun) -> None:
    folder = make_run()
    (folder / "events.jsonl").unlink()
    (folder / "config.yaml").unlink()
    run = read_run(folder)
    assert run.epochs == ()
    assert run.config is None
    assert run.notes == ("events.jsonl is missing, so there is no loss curve.",)


def _drop(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda content: content.pop(key)


def _put(value: Any, *keys: str | int) -> Callable[[dict[str, Any]], None]:
    def edit(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (_drop("schema"), "'schema' is missing"),
        (_put("1", "schema"), "'schema' is \"1\""),
        (_put(True, "schema"), "'schema' is true"),
        (_put(2, "schema"), "schema version 2, but this clframe reads version 1"),
        (_drop("stream"), "'stream' is missing"),
        (_put("", "strategy"), "'strategy' is \"\""),
        (_put(None, "scenario"), "'scenario' is null"),
        (_put(1.5, "seed"), "'seed' is 1.5; it must be a whole number"),
        (_put([], "matrix"), "'matrix' is a list of 0"),
        (_put([], "matrix", "rows"), "'matrix.rows' is a list of 0"),
        (_put([1], "matrix", "columns"), "'matrix.columns' is a list of 1"),
        (_put([[0.5]], "matrix", "values"), "'matrix.values' is a list of 1; it must be a list of"),
        (_put([0.5], "matrix", "values", 2), "'matrix.values[2]' is a list of 1"),
        (_put("x", "matrix", "values", 1, 2), "'matrix.values[1][2]' is \"x\""),
        (_put(97.0, "matrix", "values", 1, 2), "a fraction in 0..1 or null"),
        (_put(10**400, "matrix", "values", 1, 2), "'matrix.values[1][2]'"),
        (_put(3, "matrix", "measure"), "'matrix.measure' is 3"),
        (_put(3, "metrics"), "'metrics' is 3"),
        (_put("cpu", "environment"), "'environment' is \"cpu\""),
    ],
)
def test_ill_formed_results_are_one_sentence(
    make_run: MakeRun, edit: Callable[[dict[str, Any]], None], expected: str
) -> None:
    folder = make_run(edit=edit)
    with pytest.raises(RunFolderError) as caught:
        read_run(folder)
    message = str(caught.value)
    assert str(folder / "results.json") in message
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "not valid JSON (line 1)"),
        (b'{"schema": 1,\n "stream"', "not valid JSON (line 2)"),
        (b"[]", "must hold one JSON object, not a list of 0"),
        (b'{"schema": NaN}', "holds NaN, which is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_damaged_files_are_one_sentence(make_run: MakeRun, content: bytes, expected: str) -> None:
    folder = make_run()
    (folder / "results.json").write_bytes(content)
    with pytest.raises(RunFolderError) as caught:
        read_run(folder)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_finds_runs_below_any_folder_once(sweep: Path) -> None:
    one = sweep / "split_mnist" / "ewc" / "s0"
    (sweep / "link").symlink_to(one)
    runs = find_runs([sweep, one, one / "results.json", sweep / "link"])
    assert len(runs.finished) == 9
    assert runs.unfinished == ()


def test_unfinished_runs_are_told_apart(make_run: MakeRun, tmp_path: Path) -> None:
    finished, stopped = make_run(seed=0), make_run(seed=1)
    (stopped / "results.json").unlink()
    runs = find_runs([tmp_path])
    assert runs.finished == (finished,)
    assert runs.unfinished == (stopped,)
    with pytest.raises(
        ClframeError, match="has not finished; continue it with 'clframe fit resume="
    ):
        find_runs([stopped])
    with pytest.raises(ClframeError, match="has not finished"):
        read_run(stopped)


def test_places_without_runs(tmp_path: Path) -> None:
    with pytest.raises(ClframeError, match="does not exist"):
        find_runs([tmp_path / "nowhere"])
    with pytest.raises(ClframeError, match="holds no finished run"):
        find_runs([tmp_path])
    file = tmp_path / "file.txt"
    file.write_text("")
    with pytest.raises(ClframeError, match="is a file"):
        find_runs([file])
