"""A run forked at an experience is, from there on, the run made straight; and says what is not."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import clframe
from clframe.checkpoint.store import CheckpointStore
from clframe.cli.main import main
from clframe.core.matrix import AccuracyMatrix
from clframe.core.results import Result
from clframe.errors import RunFolderError, SettingError
from clframe.reproduce.order_tree import learned_in, plan, read_orders
from clframe.reproduce.state_diff import deviations
from clframe.reproduce.verify import verify
from clframe.runs.folder import RunFolder
from clframe.strategies import DEFAULT_PLUGINS
from clframe.testing import toy_stream

TINY = [
    "max_epochs=1",
    "limit_train_batches=2",
    "model.hidden=[8]",
    "progress=false",
    "logger=none",
]
_NOT_LEARNED = ("timing", "files", "position", "experiences", "evaluated", "unsaved")


def state(run: Path, learned: int | None = None) -> dict[str, Any]:
    """All that a run was at its end, or after so many experiences, but how long it took."""
    store = CheckpointStore(run / "checkpoints")
    info = store.newest()
    if learned is not None:
        info = next(one for one in store.usable() if one.between and one.learned == learned)
    assert info is not None
    saved = store.read(info.number, torch.device("cpu"))
    # What records a run notes sums of lines with times in them.
    learning = {name: own for name, own in saved["plugins"].items() if name not in DEFAULT_PLUGINS}
    return {**{k: v for k, v in saved.items() if k not in _NOT_LEARNED}, "plugins": learning}


def by_name(run: Path) -> dict[str, dict[str, float]]:
    matrix = Result.load(run).matrix
    pairs = zip(matrix.rows, matrix.values.tolist(), strict=True)
    return {row: dict(zip(matrix.columns, values, strict=True)) for row, values in pairs}


def nodes(orders: Sequence[Sequence[int]]) -> int:
    """The distinct prefixes, counted one by one."""
    return len({tuple(order[:n]) for order in orders for n in range(1, len(order) + 1)})


def grow(out: Path, orders: list[list[int]], *words: str) -> list[Path]:
    """Learn a tree and return its leaves."""
    text = ";".join(",".join(map(str, order)) for order in orders)
    assert main(["fork", "--orders", text, "--out", str(out / "tree"), *TINY, *words]) == 0
    runs = [out / "tree" / f"order{number}" for number in range(1, len(orders) + 1)]
    assert sum(learned_in(run) for run in runs) == nodes(orders)
    return runs


def tree(out: Path, orders: list[list[int]], *words: str) -> None:
    """Learn a tree and look at every leaf beside the run made straight."""
    for run, order in zip(grow(out, orders, *words), orders, strict=True):
        straight = out / f"straight{''.join(map(str, order))}"
        setting = f"trainer.experience_order={order}".replace(" ", "")
        assert main(["fit", *TINY, *words, setting, f"run_dir={straight}"]) == 0
        assert list(deviations(state(straight), state(run))) == []
        assert by_name(run) == by_name(straight)
        one, other = Result.load(run), Result.load(straight)
        assert one.metrics == other.metrics
        assert one.curves == other.curves
        assert one.matrix.rows[1:] == [f"exp{number}" for number in order]


FIVE = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    [0, 1, 2, 3, 4, 5, 6, 9, 8, 7],
    [0, 1, 2, 3, 9, 5, 6, 7, 8, 4],
    [0, 1, 2, 3, 9, 5, 6, 8, 7, 4],
    [5, 1, 2, 3, 4, 0, 6, 7, 8, 9],
]


PERMUTED = ("stream=permuted_mnist", "samples=200", "strategy=naive")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five orders of ten experiences as a tree."""
    out = tmp_path_factory.mktemp("study")
    grow(out, FIVE, *PERMUTED)
    return out


@pytest.mark.slow  # five straight runs of ten experiences
def test_each_of_five_orders_of_ten_is_its_straight_run(tmp_path: Path) -> None:
    tree(tmp_path, FIVE, *PERMUTED)


def test_five_orders_of_ten_cost_what_their_prefixes_cost(study: Path) -> None:
    runs = [study / "tree" / f"order{number}" for number in range(1, 6)]
    assert [learned_in(run) for run in runs] == [10, 3, 6, 3, 10]
    assert nodes(FIVE) == 32


def test_a_buffer_and_a_penalty_go_on(tmp_path: Path) -> None:
    orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2]]
    tree(tmp_path / "er", orders, "n_experiences=3", "strategy=er", "scenario=class")
    tree(tmp_path / "ewc", orders[:2], "n_experiences=3", "strategy=ewc", "scenario=task")


@pytest.mark.slow  # two levels of branches
def test_a_buffer_and_a_penalty_go_on_twice(tmp_path: Path) -> None:
    orders = [[0, 1, 2, 3], [0, 1, 3, 2], [0, 2, 1, 3]]
    tree(tmp_path / "er", orders, "n_experiences=4", "strategy=er", "scenario=class")
    tree(tmp_path / "ewc", orders[:2], "n_experiences=4", "strategy=ewc", "scenario=task")


def test_the_states_of_the_prefix_are_not_copied(study: Path) -> None:
    parent, child = study / "tree" / "order1", study / "tree" / "order2"
    result = Result.load(child)
    assert result.fork is not None
    assert (result.fork["run"], result.fork["at"], result.fork["experience"]) == (
        *("../order1", 7),
        "exp6",
    )
    assert result.fork["learned_here"] == 3
    first = CheckpointStore(child / "checkpoints").state_file(1)
    there = {path.stat().st_ino for path in (parent / "checkpoints").glob("*.pt")}
    assert first.stat().st_ino in there
    # All that was written before is the parent's, and seconds are, too.
    lines = (child / "events.jsonl").read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if json.loads(line)["event"] == "fork")
    assert lines[:place] == (parent / "events.jsonl").read_text().splitlines()[:place]
    assert place > 14
    assert result.timing["train_seconds"] > state_seconds(parent, 7) > 0


def state_seconds(run: Path, learned: int) -> float:
    store = CheckpointStore(run / "checkpoints")
    store.newest()
    info = next(one for one in store.usable() if one.between and one.learned == learned)
    seconds = store.read(info.number, torch.device("cpu"))["timing"]["train_seconds"]
    return float(seconds)


def test_a_forked_run_is_verified_and_outlives_its_parent(study: Path, tmp_path: Path) -> None:
    copies = tmp_path / "moved"
    for name in ("order1", "order2"):
        shutil.copytree(study / "tree" / name, copies / name)
    child = copies / "order2"
    found = {finding.what: finding for finding in verify(child, 8)}
    assert all(finding.good for finding in found.values())
    assert "'../order1' has the state" in found["parent"].words
    with pytest.raises(RunFolderError, match=r"was learned by its parent '\.\./order1'"):
        verify(child, 3)
    # A parent that was made anew is told by the hash of the state.
    sha = json.loads((child / "results.json").read_text())["fork"]["sha256"]
    for note in (copies / "order1" / "checkpoints").glob("*.json"):
        note.write_text(note.read_text().replace(sha, "0" * 64))
    words = {one.what: one.words for one in verify(child, 8) if not one.good}
    assert words == {
        "parent": f"'../order1' no longer holds the state {sha[:12]} that was taken from it"
    }
    shutil.rmtree(copies / "order1")
    gone = {finding.what: finding for finding in verify(child)}
    assert all(finding.good for finding in gone.values())
    assert f"'../order1' is missing; the state {sha[:12]}" in gone["parent"].words


def test_compare_and_report_show_the_tree(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(study / "tree")]) == 0
    shown = capsys.readouterr().out
    assert "4 lifetimes, 22 experiences learned of 40" in shown
    assert "├─ order3 after 4 (exp3): exp9 exp5 exp6 exp7 exp8 exp4" in shown
    assert "│  └─ order4 after 7 (exp6): exp8 exp7 exp4" in shown
    assert "└─ order2 after 7 (exp6): exp9 exp8 exp7" in shown
    assert main(["report", str(study / "tree")]) == 0
    page = (study / "tree" / "report.html").read_text()
    assert "Lifetimes that share their beginning" in page
    assert "tree of 4 lifetimes" in page
    assert main(["report", str(study / "tree" / "order2")]) == 0
    page = (study / "tree" / "order2" / "report.html").read_text()
    assert "Where it began" in page
    assert "clframe fork ../order1 --at 7" in page


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four experiences with EWC and a memory."""
    folder = tmp_path_factory.mktemp("fork") / "parent"
    words = ["strategy=ewc+replay", "strategy.replay.size=50", "n_experiences=4", "lr=0.01"]
    kept = "checkpoint.every_experience=true"
    assert main(["fit", *TINY, *words, kept, f"run_dir={folder}"]) == 0
    return folder


def test_another_strategy_and_other_settings(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    child = tmp_path / "child"
    words = ["strategy=si+replay", "strategy.replay.size=50", f"run_dir={child}", "progress=false"]
    assert main(["fork", str(parent), "--at", "exp1", *words]) == 0
    said = capsys.readouterr().err
    assert "plugin 'si' is new at the fork and starts fresh" in said
    assert "plugin 'ewc' is gone at the fork and its state is dropped" in said
    assert "replay" not in said
    result = Result.load(child)
    assert result.strategy == "si+replay"
    assert list(by_name(child).items())[:3] == list(by_name(parent).items())[:3]
    assert by_name(child)["exp2"] != by_name(parent)["exp2"]
    # The memory of the parent is there: samples of the first two experiences.
    assert set(state(child, 3)["plugins"]["replay"]["buffer"]["columns"]["tasks"].tolist()) == {
        *(0, 1),
        2,
    }
    assert all(finding.good for finding in verify(child, "exp2"))

    other = tmp_path / "other"
    result = clframe.fork(parent, 2, lr=0.5, batch_size=64, run_dir=other, progress=False)
    assert result.fork is not None
    assert result.fork["changed"] == ["optimizer.lr=0.5", "trainer.batch_size=64"]
    groups = state(other)["optimizer"]["param_groups"]
    assert [group["lr"] for group in groups] == [0.5]
    # What Adam remembers is the parent's, so its steps go on counting.
    steps = [int(own["step"]) for own in state(other)["optimizer"]["state"].values()]
    assert set(steps) == {8}
    assert all(finding.good for finding in verify(other))


def test_a_fork_that_was_killed_goes_on(parent: Path, tmp_path: Path) -> None:
    """From its very beginning, which is the parent's state, and to the same bits."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    clframe.fork(parent, 2, run_dir=whole, progress=False)
    clframe.fork(parent, 2, run_dir=killed, progress=False)
    for path in killed.glob("checkpoints/*"):
        if path.stem != "000001":
            path.unlink()
    for name in ("results.json", "matrix.csv", "SHA256SUMS"):
        (killed / name).unlink()
    assert main(["fit", f"resume={killed}"]) == 0
    assert list(deviations(state(whole), state(killed))) == []
    assert learned_in(killed) == 2
    assert list(deviations(state(parent), state(whole))) == []


def test_more_data_after_the_end(tmp_path: Path) -> None:
    """EWC prepares nothing after the last experience of a run, so that one is learned again."""
    folder = tmp_path / "short"
    stream = ["stream=permuted_mnist", "stream.samples=200", "strategy=ewc"]
    kept = "checkpoint.every_experience=true"
    assert main(["fit", *TINY, *stream, "n_experiences=2", kept, f"run_dir={folder}"]) == 0
    longer, straight = tmp_path / "longer", tmp_path / "straight"
    words = ["n_experiences=3", f"run_dir={longer}", "progress=false"]
    # Samples are drawn after all permutations, so here they would be others.
    assert main(["fork", str(folder), "--at", "2", *words]) == 2
    stream[1] = "stream.samples=null"
    shutil.rmtree(folder)
    assert main(["fit", *TINY, *stream, "n_experiences=2", kept, f"run_dir={folder}"]) == 0
    assert main(["fork", str(folder), "--at", "2", *words]) == 0
    assert main(["fit", *TINY, *stream, "n_experiences=3", f"run_dir={straight}"]) == 0
    ours, theirs = state(longer), state(straight)
    for one in (ours, theirs):
        one["matrix"] = AccuracyMatrix.from_state(one["matrix"]).to_json()
    # The third task was not measured before the fork; all else is the same.
    assert [row[2] for row in ours["matrix"]["values"]][:2] == [None, None]
    for one in (ours, theirs):
        one["matrix"]["values"] = [row[:2] for row in one["matrix"]["values"]]
    assert list(deviations(theirs, ours)) == []


def test_what_cannot_be_is_one_sentence(
    parent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = f"run_dir={tmp_path / 'child'}"
    last_only = tmp_path / "last_only"
    shutil.copytree(parent, last_only)
    for number in ("000002", "000003"):
        for path in last_only.glob(f"checkpoints/{number}.*"):
            path.unlink()
    run = str(parent)
    wrong = {
        (run, "--at", "9"): "has learned 4 experiences; there is no number 9",
        (run, "--at", "exp7"): "has learned no experience 'exp7'",
        (str(tmp_path), "--at", "1"): "is not a run folder: it has no config.yaml",
        (str(last_only), "--at", "1"): "has not kept its state after 1 experiences",
        (run,): "name the last experience of",
        ("--at", "1"): "name the run to fork",
        (run, "--at", "4"): "after 'exp3' stream 'split_mnist' has nothing left to",
        (run, "--at", "2", "experience_order=[0,2,1,3]"): "the one of number 2 was 'exp1' and would"
        " be 'exp2'",
        (run, "--at", "2", "experience_order=[0,1,2]"): "lacks experience 3 ('exp3')",
        (run, "--at", "2", "experience_order=[0,1,2,2]"): "has 'exp2' twice",
        (run, "--at", "2", "model.hidden=[9]"): "had the shape [8, 784] and would have [9, 784]",
        (
            run,
            "--at",
            "2",
            "strategy.replay.size=20",
        ): "'replay' cannot continue from its state",
        (
            run,
            "--at",
            "2",
            "strategy.replay.size=80",
        ): "'replay' cannot continue from its state",
        (run, "--at", "2", "stream.class_order=[1,0,2,3,4,5,6,7,8,9]"): "cannot be forked so",
        (run, "--at", "2", f"resume={run}"): "a fork is a new run",
        ("--orders", "0,1;0,1", "--out", str(tmp_path / "o")): "has 0,1 twice",
        ("--orders", "0,1,2,3"): "--orders needs a folder for its runs",
    }
    for words, sentence in wrong.items():
        given = [*words, out] if words[0] == run and not words[-1].startswith("resume") else words
        assert main(["fork", *given]) == 2, words
        said = capsys.readouterr().err
        assert sentence in said, (words, said)
        assert len(said.strip().splitlines()) == 1, said
        assert not (tmp_path / "child").exists(), words
    lock = RunFolder(parent).lock
    lock.take()
    try:
        assert main(["fork", run, "--at", "2", out]) == 2
        assert "is being trained by process" in capsys.readouterr().err
    finally:
        lock.release()


def test_a_method_that_looks_ahead_keeps_its_order(tmp_path: Path) -> None:
    folder = tmp_path / "joint"
    clframe.fit(
        toy_stream(n_experiences=3),
        "multitask",
        max_epochs=1,
        run_dir=folder,
        progress=False,
        checkpoint={"every_experience": True},
    )
    words: dict[str, Any] = {"stream": toy_stream(n_experiences=3), "run_dir": tmp_path / "child"}
    with pytest.raises(RunFolderError, match="plugin 'multitask' prepared for the original"):
        clframe.fork(folder, 1, experience_order=[0, 2, 1], **words)
    with pytest.raises(RunFolderError, match="'exp0' was learned from 80 samples and has others"):
        clframe.fork(folder, 1, **{**words, "stream": toy_stream(n_experiences=3, seed=1)})
    with pytest.raises(SettingError, match="takes no resume"):
        clframe.fork(folder, 1, resume=folder)


def test_the_plan_of_any_orders_learns_each_prefix_once() -> None:
    orders = [tuple(order) for order in itertools.permutations(range(4))][::3]
    parts = plan(orders)
    assert sum(len(part.order) - part.at for part in parts) == nodes(orders)
    assert read_orders("a,b;b,a") == [("a", "b"), ("b", "a")]
    for text in ("", ";", "0,,1"):
        with pytest.raises(SettingError):
            read_orders(text)
