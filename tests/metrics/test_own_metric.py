"""A user's metric says which direction is better, and reports know it without its code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import clframe
from clframe.cli.main import main
from clframe.metrics import MetricInfo, metric
from clframe.metrics.info import family_of
from clframe.report.metric_formats import higher_is_better
from clframe.testing import toy_stream

ROOT = Path(__file__).parents[2]


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """The metric of docs/metrics.md, and one of which nothing is said."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    (block,) = (b for b in re.findall(r"```python\n(.*?)```", text, re.S) if "@metric" in b)
    file = tmp_path / "error.py"
    plain = '    registry.add("metric", "plain", lambda result: {"value": float(result.seed)})\n'
    file.write_text(block + plain)
    return file


def fit(run: Path, plugin: Path, **more: Any) -> clframe.Result:
    settings: dict[str, Any] = {"max_steps": 3, "progress": False, "logger": None, **more}
    return clframe.fit(toy_stream(), plugin_path=plugin, run_dir=run, **settings)


def test_reports_know_the_direction_of_a_metric_of_ones_own(
    tmp_path: Path, plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "all"
    result = fit(runs / "naive", plugin, strategy="naive")
    assert result.metric_facts == {
        "error.worst": {"higher_is_better": False, "formula": "1 - min over j of R[T, j]"}
    }
    assert clframe.Result.load(runs / "naive").to_json() == result.to_json()
    fit(runs / "joint", plugin, strategy="cumulative", max_epochs=3, max_steps=None)
    arguments = [str(runs), "--metric", "error.worst", "plain.value", "--format", "json"]
    assert main(["compare", *arguments]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    worst, plain = table["metrics"]
    assert (worst["higher_is_better"], plain["higher_is_better"]) == (False, True)
    means = {cell["strategy"]: cell["mean"] for cell in worst["values"]}
    best = [cell["strategy"] for cell in worst["values"] if cell["best"]]
    assert best == [min(means, key=lambda name: means[name])]
    assert len(set(means.values())) == 2
    assert main(["compare", str(runs), "--metric", "error.worst"]) == 0
    assert "error.worst (low)" in capsys.readouterr().out
    assert main(["report", str(runs / "naive")]) == 0
    page = (runs / "naive" / "report.html").read_text()
    row = next(line for line in page.split("<tr>") if "error.worst" in line)
    assert "lower" in row
    assert "1 - min over j of R[T, j]" in row


def test_a_run_without_such_metrics_says_nothing_of_them(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_steps": 1, "progress": False, "logger": None}
    clframe.fit(toy_stream(), run_dir=tmp_path / "run", **settings)
    assert "metric_facts" not in json.loads((tmp_path / "run" / "results.json").read_text())


def test_facts_of_other_shapes_are_passed_over() -> None:
    facts: dict[str, dict[str, Any]] = {"a.x": {"higher_is_better": "no", "formula": 3}}
    assert higher_is_better("a.x", facts)
    info = MetricInfo.from_json("a.x", facts["a.x"])
    assert (info.formula, info.direction) == ("", "higher")
    assert not higher_is_better("a.x_k", {"a.x": {"higher_is_better": False}})
    assert MetricInfo.from_json("a.x", {"higher_is_better": None}).direction == "-"


def test_a_function_keeps_its_facts_under_the_name_it_is_registered_with() -> None:
    @metric(MetricInfo("loss", higher_is_better=False), paper="Nobody, 2020")
    def mine(result: clframe.Result) -> dict[str, float]:
        return {"loss": float(result.seed)}

    family = family_of(mine)
    assert family is not None
    assert list(family.catalog()) == ["mine.loss"]
    info = family.catalog("other")["other.loss"]
    assert (info.direction, info.paper, info.range) == ("lower", "Nobody, 2020", "any")
    assert family_of(len) is None


ERRORS = """
from clframe import Plugin, hookimpl
from clframe.metrics import MetricInfo


class Errors(Plugin):
    \"\"\"Errors of the last row, in percent, and two numbers that are no contest.\"\"\"

    metric_info = (
        MetricInfo("mine.error", higher_is_better=False, unit="%"),
        MetricInfo("mine.rows", higher_is_better=None),
        MetricInfo("mine.eror"),
    )

    @hookimpl
    def metrics(self, result):
        error = 100 * (1 - float(result.matrix.learned[-1].mean()))
        return {"mine": {"error": error, "rows": len(result.matrix.rows)}}
"""


def test_a_plugin_says_which_direction_of_its_own_metrics_is_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, runs = tmp_path / "errors.py", tmp_path / "all"
    file.write_text(ERRORS)
    result = fit(runs / "naive", file, strategy=["naive", "errors"])
    assert result.metric_facts["mine.error"] == {"higher_is_better": False, "unit": "%"}
    said = capsys.readouterr().err
    assert "metric 'mine.eror'" in said
    assert "did you mean 'error'" in said
    fit(runs / "joint", file, strategy=["cumulative", "errors"], max_epochs=3, max_steps=None)
    names = ["mine.error", "mine.rows"]
    assert main(["compare", str(runs), "--metric", *names, "--format", "json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    error, rows = table["metrics"]
    assert (error["higher_is_better"], error["unit"]) == (False, "%")
    means = {cell["strategy"]: cell["mean"] for cell in error["values"]}
    assert len(set(means.values())) == 2
    best = [cell["strategy"] for cell in error["values"] if cell["best"]]
    assert best == [min(means, key=lambda name: means[name])]
    assert rows["higher_is_better"] is None
    assert not any(cell["best"] for cell in rows["values"])
    assert main(["compare", str(runs), "--metric", *names]) == 0
    text = capsys.readouterr().out
    assert "mine.error [%] (low)" in text
    assert "mine.rows (-)" in text
    assert main(["report", str(runs / "naive")]) == 0
    page = (runs / "naive" / "report.html").read_text()
    line = {name: next(x for x in page.split("<tr>") if name in x) for name in names}
    assert "lower" in line["mine.error"]
    assert " %<" in line["mine.error"]
    assert "higher" not in line["mine.rows"]


def test_a_metric_is_named_in_full() -> None:
    with pytest.raises(clframe.PluginError, match=r"such as 'short\.error'"):
        type("Short", (clframe.Plugin,), {"metric_info": (MetricInfo("error"),)})
