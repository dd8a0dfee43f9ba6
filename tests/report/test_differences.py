"""A table says what its rows differ in besides the strategy: memory and settings."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clframe
from clframe.cli.main import main
from clframe.core.registry import discover
from clframe.report.compare import Table, compare
from clframe.report.table_files import as_csv, as_latex
from clframe.report.tables import as_json, as_markdown, as_text
from clframe.runs.reader import read_run
from clframe.strategies import compose
from clframe.testing import toy_run, toy_stream

MakeRun = Callable[..., Path]
MEMORIES = {"er": (1000, 816_000), "derpp": (500, 1_600_000), "ewc": (0, 3_830_000)}


def table_of(make_run: MakeRun) -> Table:
    runs = []
    for strategy, (samples, size) in MEMORIES.items():
        for seed in (0, 1):

            def edit(content: dict[str, Any], kept: tuple[int, int] = (samples, size)) -> None:
                content["memory"] = dict(zip(("samples", "bytes"), kept, strict=True))

            run = make_run(f"{strategy}/{seed}", edit, strategy=strategy, seed=seed)
            if strategy == "ewc":
                config = run / "config.yaml"
                config.write_text(config.read_text().replace("max_epochs: 2", "max_epochs: 9"))
            runs.append(read_run(run))
    (table,) = compare(runs)
    return table


def test_memory_and_differing_settings_are_columns(make_run: MakeRun) -> None:
    table = table_of(make_run)
    rows = {group.label: i for i, group in enumerate(table.groups)}
    memory, epochs = table.differences["memory"], table.differences["trainer.max_epochs"]
    assert set(table.differences) == {"memory", "trainer.max_epochs"}
    assert memory[rows["er"]] == "1,000 samples (816 kB)"
    assert memory[rows["derpp"]] == "500 samples (1.6 MB)"
    assert memory[rows["ewc"]] == "3.83 MB"
    assert [epochs[rows[name]] for name in ("er", "derpp", "ewc")] == ["2", "2", "9"]
    note = next(note for note in table.notes if "different memories" in note)
    assert "er 1,000 samples (816 kB)" in note
    assert "derpp 500 samples" in note
    assert "ewc" not in note


def test_every_format_has_them(make_run: MakeRun) -> None:
    table = table_of(make_run)
    for written in (as_text([table]), as_markdown([table]), as_latex([table]), as_json([table])):
        assert "1,000 samples (816 kB)" in written
        assert "max_epochs" in written.replace("\\", "")
        assert "keep different memories" in written
    lines = list(csv.DictReader(io.StringIO(as_csv([table]))))
    assert {line["memory"] for line in lines} == set(table.differences["memory"])
    assert {line["other_settings"] for line in lines} == {
        "trainer.max_epochs=2",
        "trainer.max_epochs=9",
    }
    latex = as_latex([table])
    columns = latex.split(r"\begin{tabular}{")[1].partition("}")[0]
    row = next(line for line in latex.splitlines() if line.strip().startswith("er "))
    assert row.count("&") == len(columns) - 1


def test_equal_memories_and_settings_have_no_note(make_run: MakeRun) -> None:
    runs = [read_run(make_run(f"{name}/0", strategy=name, seed=0)) for name in ("er", "naive")]
    (table,) = compare(runs)
    assert not table.differences
    assert not table.notes


def test_memory_can_be_compared_as_a_metric(make_run: MakeRun) -> None:
    runs = [run for group in table_of(make_run).groups for run in group.runs]
    (table,) = compare(runs, ["memory.samples", "memory.bytes"])
    assert table.better["memory.bytes"] is False
    means = {
        group.label: cell.summary.mean
        for group, cell in zip(table.groups, table.cells["memory.samples"], strict=True)
        if cell.summary is not None
    }
    assert means == {"er": 1000, "derpp": 500, "ewc": 0}


@pytest.mark.parametrize(
    ("strategy", "samples"),
    [("naive", 0), ("ewc", 0), (clframe.plugins.Replay(size=30), 30), ("cumulative", 240)],
)
def test_a_run_records_what_its_strategy_keeps(strategy: Any, samples: int) -> None:
    stream = toy_stream()
    assert sum(len(experience.data) for experience in stream) == 240
    _, plugins = compose(strategy, discover())
    result, learner = toy_run(plugins, stream, max_epochs=1)
    assert result.memory["samples"] == samples
    parameters = sum(p.nbytes for p in learner.model.parameters())
    one = stream.experiences[0].data.gather(stream.experiences[0].data.labels[:1] * 0)
    if strategy == "naive":
        assert result.memory["bytes"] == 0
    elif strategy == "ewc":  # the importances and the weights they hold to
        assert result.memory["bytes"] >= 2 * parameters
    elif strategy == "cumulative":
        assert result.memory["bytes"] == samples * (one.nbytes + 8)
    else:
        assert result.memory["bytes"] >= samples * one.nbytes


def test_the_commands_show_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["max_steps=1", "hidden=[8]", "progress=false"]
    for strategy in ("er", "derpp", "ewc"):
        run = tmp_path / "runs" / strategy
        assert main(["fit", f"strategy={strategy}", f"run_dir={run}", *quick]) == 0
    assert json.loads((run / "results.json").read_text())["memory"]["samples"] == 0
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "runs"), "--metric", "gem.acc"]) == 0
    printed = capsys.readouterr().out
    assert "1,000 samples (" in printed
    assert "The strategies keep different memories: " in printed
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "runs"), "--out", str(page)]) == 0
    text = page.read_text()
    assert "What differs besides the strategy" in text
    assert "1,000 samples (" in text
