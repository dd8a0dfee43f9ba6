from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from clframe.errors import SettingError
from clframe.report.compare import Table, compare
from clframe.report.table_files import as_csv, as_latex
from clframe.report.tables import as_json, as_markdown, as_text
from clframe.runs.reader import Run, read_run
from clframe.utils.statistics import welch

MakeRun = Callable[..., Path]


@pytest.fixture
def with_metric(make_run: MakeRun) -> Callable[..., list[Run]]:
    """Runs of one strategy whose metrics are only those given, one value per seed."""

    def make(strategy: str, metric: str, values: Sequence[float | None], **more: Any) -> list[Run]:
        family, name = metric.split(".")
        runs = []
        for seed, value in enumerate(values):

            def edit(content: dict[str, Any], value: float | None = value) -> None:
                content["metrics"] = {family: {name: value}}

            folder = f"{more.get('stream', '')}/{more.get('scenario', '')}/{strategy}/{seed}"
            runs.append(
                read_run(make_run(folder.strip("/"), edit, strategy=strategy, seed=seed, **more))
            )
        return runs

    return make


WithMetric = Callable[..., list[Run]]


def test_mean_error_test_and_marks(with_metric: WithMetric) -> None:
    best, near, far = [0.90, 0.92, 0.94], [0.89, 0.91, 0.95], [0.50, 0.52, 0.51]
    runs = [
        *with_metric("far", "gem.acc", far),
        *with_metric("best", "gem.acc", best),
        *with_metric("near", "gem.acc", near),
    ]
    (table,) = compare(runs)
    assert [group.label for group in table.groups] == ["best", "near", "far"], "best first"
    cells = dict(zip(("best", "near", "far"), table.cells["gem.acc"], strict=True))
    summary = cells["best"].summary
    assert summary is not None
    assert summary.mean == pytest.approx(0.92)
    assert summary.standard_error == pytest.approx(0.02 / math.sqrt(3))
    assert [cells[name].best for name in cells] == [True, False, False]
    assert [cells[name].not_worse for name in cells] == [False, True, False]
    assert cells["far"].test == welch(far, best)
    assert cells["best"].test is None


def test_lower_is_better_where_it_is(with_metric: WithMetric) -> None:
    runs = with_metric("a", "libero.nbt", [0.1, 0.2]) + with_metric("b", "libero.nbt", [0.5, 0.6])
    (table,) = compare(runs)
    assert [cell.best for cell in table.cells["libero.nbt"]] == [True, False]
    assert "libero.nbt (low)" in as_text([table])


def test_streams_and_scenarios_get_tables_of_their_own(make_run: MakeRun) -> None:
    runs = [
        read_run(make_run("1")),
        read_run(make_run("2", scenario="task")),
        read_run(make_run("3", stream="permuted_mnist")),
        read_run(make_run("4", strategy="ewc")),
    ]
    tables = compare(runs)
    assert [(t.stream, t.scenario, len(t.groups)) for t in tables] == [
        ("split_mnist", "class", 2),
        ("split_mnist", "task", 1),
        ("permuted_mnist", "class", 1),
    ]
    assert as_text(tables).count("strategy ") == 3
    alone = tables[1].cells["gem.acc"][0]
    assert not alone.best, "a strategy alone in its table is not the best of anything"


def test_single_seed_has_no_error_and_no_test(with_metric: WithMetric) -> None:
    runs = with_metric("one", "gem.acc", [0.7]) + with_metric("two", "gem.acc", [0.8, 0.9])
    (table,) = compare(runs)
    two, one = table.cells["gem.acc"]
    assert one.summary is not None
    assert one.summary.standard_error is None
    assert one.test is None
    assert not one.not_worse
    assert two.best
    text = as_text([table])
    assert "0.7000 (n=1)" in text
    assert "n=1: a single seed has no standard error and allows no test." in text


def test_missing_values_are_counted_out(with_metric: WithMetric) -> None:
    runs = with_metric("a", "gem.fwt", [0.1, None, 0.3]) + with_metric("b", "gem.fwt", [None])
    (table,) = compare(runs, ["gem.fwt"])
    a, b = table.cells["gem.fwt"]
    assert a.summary is not None
    assert a.summary.n == 2
    assert a.summary.mean == pytest.approx(0.2)
    assert b.summary is None
    assert "(n=2)" in as_text([table])


def test_metrics_are_chosen_by_name(make_run: MakeRun) -> None:
    runs = [read_run(make_run())]
    (table,) = compare(runs)
    assert table.metrics[:2] == ("openloris.accuracy", "openloris.bwt")
    assert "forgetting.best_minus_last" not in table.metrics
    (table,) = compare(runs, ["all"])
    assert "forgetting.best_minus_last" in table.metrics
    (table,) = compare(runs, ["timing.train_seconds", "gem.bwt", "gem.bwt"])
    assert table.metrics == ("timing.train_seconds", "gem.bwt")
    with pytest.raises(SettingError, match=r"'gem\.bwd'; did you mean 'gem\.bwt'\?"):
        compare(runs, ["gem.bwd"])


def test_repeats_are_no_new_samples(make_run: MakeRun) -> None:
    runs = [read_run(make_run(name, seed=0)) for name in ("a", "b")]
    (table,) = compare(runs)
    assert [run.folder.name for run in table.groups[0].runs] == ["b"]
    assert table.notes == ("naive: 1 repeat(s) of the same seed and settings left out.",)


def test_mixed_settings_are_noted_and_can_be_told_apart(make_run: MakeRun) -> None:
    folders = [make_run(seed=seed) for seed in range(4)]
    for folder in folders[:2]:
        path = folder / "config.yaml"
        path.write_text(path.read_text().replace("max_epochs: 2", "max_epochs: 9"))
    runs = [read_run(folder) for folder in folders]
    (table,) = compare(runs)
    assert len(table.groups) == 1
    assert "differ in more than the seed (trainer.max_epochs)" in table.notes[0]
    (table,) = compare(runs, by=["trainer.max_epochs"])
    assert {group.label for group in table.groups} == {
        "naive [trainer.max_epochs=9]",
        "naive [trainer.max_epochs=2]",
    }
    assert table.notes == ()
    with pytest.raises(SettingError, match=r"no run has a setting 'trainer\.x'"):
        compare(runs, by=["trainer.x"])


def test_different_tasks_are_noted(make_run: MakeRun) -> None:
    (table,) = compare([read_run(make_run(seed=0)), read_run(make_run(seed=1, tasks=4))])
    assert any("same experiences, tasks" in note for note in table.notes)


@pytest.fixture
def tables(sweep: Path) -> list[Table]:
    return compare([read_run(p.parent) for p in sorted(sweep.rglob("results.json"))])


def test_text_is_aligned_and_folds(tables: list[Table]) -> None:
    lines = as_text(tables).splitlines()
    assert lines[0] == "split_mnist, scenario class"
    ruler = lines[2]
    start = lines[1].index("openloris.accuracy")
    assert ruler[start - 1] == " "
    assert all(line[start - 1] == " " and line[start].isdigit() for line in lines[3:6])
    folded = as_text(tables, width=70)
    table_lines = folded.split("\n\n* best")[0].splitlines()
    assert max(map(len, table_lines)) <= 70
    for metric in tables[0].metrics:
        assert metric in folded


def test_markdown_has_even_rows_and_bold(tables: list[Table]) -> None:
    rows = [line for line in as_markdown(tables).splitlines() if line.startswith("|")]
    assert len(rows) == 5
    assert {row.count("|") for row in rows} == {len(tables[0].metrics) + 3}
    assert sum("**" in row for row in rows) >= 1
    assert any("(best)" in row for row in rows)


def test_markdown_takes_names_as_text(make_run: MakeRun) -> None:
    text = as_markdown(compare([read_run(make_run("x", strategy="a|b<i>*c*"))]))
    assert r"a\|b\<i\>\*c\*" in text


def test_json_holds_everything(tables: list[Table]) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    content = json.loads(as_json(tables), parse_constant=refuse)
    (table,) = content["tables"]
    assert [group["strategy"] for group in table["strategies"]] == ["replay", "ewc", "naive"]
    assert table["strategies"][0]["seeds"] == [0, 1, 2]
    metric = next(m for m in table["metrics"] if m["metric"] == "openloris.accuracy")
    best = [value for value in metric["values"] if value["best"]]
    assert len(best) == 1
    assert best[0]["p_value"] is None
    naive = next(value for value in metric["values"] if value["strategy"] == "naive")
    assert naive["p_value"] < 0.05
    assert naive["not_significantly_worse"] is False


def test_json_without_spread_is_still_json(with_metric: WithMetric) -> None:
    runs = with_metric("a", "gem.acc", [0.5, 0.5]) + with_metric("b", "gem.acc", [0.6, 0.6])
    values = json.loads(as_json(compare(runs)))["tables"][0]["metrics"][0]["values"]
    assert values[1]["t"] is None
    assert values[1]["p_value"] == 0.0


def test_where_all_are_equal_nobody_is_best(with_metric: WithMetric) -> None:
    runs = with_metric("a", "openloris.fwt", [0.0, 0.0])
    runs += with_metric("b", "openloris.fwt", [0.0, 0.0, 0.0])
    (table,) = compare(runs)
    assert not any(cell.best or cell.not_worse for cell in table.cells["openloris.fwt"])


def test_latex_is_a_table_of_booktabs(with_metric: WithMetric) -> None:
    runs = with_metric("a_b", "libero.nbt", [0.5, 0.7]) + with_metric("c", "libero.nbt", [0.1])
    text = as_latex(compare(runs))
    body = [line.strip() for line in text.splitlines()]
    start = body.index(r"\toprule")
    assert body[start + 1] == r"Strategy & libero.nbt $\downarrow$ \\"
    assert body[start + 3 : start + 6] == [
        r"c & $\mathbf{0.1000}$ \\",
        r"a\_b & $0.6000 \pm 0.1000$ \\",
        r"\bottomrule",
    ]
    assert "over 1 to 2 seeds" in text
    assert text.count("{") == text.count("}")


def test_csv_has_every_number_unrounded(tables: list[Table]) -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(tables))))
    assert len(lines) == 3 * len(tables[0].metrics)
    (naive,) = [
        line for line in lines if (line["strategy"], line["metric"]) == ("naive", "gem.acc")
    ]
    group = next(group for group in tables[0].groups if group.label == "naive")
    values = [run.metrics["gem.acc"] or 0.0 for run in group.runs]
    error = statistics.stdev(values) / math.sqrt(3)
    assert float(naive["mean"]) == pytest.approx(statistics.mean(values), abs=1e-12)
    assert float(naive["standard_error"]) == pytest.approx(error, abs=1e-12)
    # 4.302653: the 0.975 quantile of Student's t with two degrees of freedom.
    assert float(naive["high_95"]) - float(naive["mean"]) == pytest.approx(4.302653 * error)
    assert float(naive["p_value"]) < 0.05
    assert (naive["best"], naive["better"], naive["n"]) == ("0", "higher", "3")
