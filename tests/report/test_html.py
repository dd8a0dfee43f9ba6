from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from clframe.cli.main import main
from clframe.report.compare import compare
from clframe.report.comparison_figures import factors
from clframe.report.html import report_html
from clframe.runs.reader import read_run

MakeRun = Callable[..., Path]
VOID = {"meta", "br", "img", "link"}
NO_ICON = "data:,"


class Page(HTMLParser):
    """Collects tags, attributes and text, and checks that tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def check_self_contained(page: Page) -> None:
    assert not {"script", "iframe", "object", "embed"} & set(page.tags)
    # A browser asks for an icon unless the page says that it has one.
    assert page.tags.count("link") == 1
    assert ("href", NO_ICON) in page.attributes
    for name, value in page.attributes:
        assert not name.startswith("on")
        if name in ("src", "href", "xlink:href"):
            assert value.startswith(("#", "data:")), value
    assert "@import" not in page.text
    assert "url(http" not in page.text


def test_page_of_a_run(make_run: MakeRun) -> None:
    folder = make_run(strategy="ewc", edit=lambda c: c["curves"].update(exp0={"task0": [0.1, 0.9]}))
    run = read_run(folder)
    text = report_html([run])
    assert text == report_html([read_run(folder)]), "the same folder gives the same page"
    page = Page(text)
    check_self_contained(page)
    # Matrix, tasks and loss; what was measured while learning is drawn for phones, too.
    assert page.tags.count("svg") == 5
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids)), "each id is on the page once"
    targets = {value for name, value in page.attributes if name == "href" and value[0] == "#"}
    assert {target[1:] for target in targets} <= set(ids)
    for word in ("openloris.bwt", "gem.bwt", "2.9.0", "512.0 MiB", "max_epochs: 2"):
        assert word in page.text
    assert f"{run.metrics['gem.bwt']:.4f}" in page.text
    assert "clframe fit stream=split_mnist model=mlp" in page.text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_names_cannot_become_markup(make_run: MakeRun) -> None:
    evil = "<script>alert(1)</script>"

    def edit(content: dict[str, Any]) -> None:
        content["matrix"]["columns"][0] = evil
        content["matrix"]["rows"][1] = '"><img src=x onerror=1>'
        content["matrix"]["measure"] = evil
        content["environment"][evil] = evil
        content["timing"][evil] = 1.0
        content["metrics"][evil] = {evil: 0.5, "list": [0.1, 0.2, 0.3]}
        content["curves"] = {evil: {evil: [0.5]}}
        content[evil] = evil

    folder = make_run("run", edit, strategy=evil, stream=f"{evil}&amp;", scenario=evil)
    (folder / "config.yaml").write_text(f"a: '{evil}'\n'{evil}': 1\n")
    other = make_run("other", edit, strategy="b", stream=f"{evil}&amp;", scenario=evil)
    for runs in ([read_run(folder)], [read_run(folder), read_run(other)]):
        text = report_html(runs, [evil])
        assert "<script" not in text
        page = Page(text)
        check_self_contained(page)
        assert "img" not in page.tags
        assert f"{evil}&amp;" in page.text


def test_page_of_a_sweep(sweep: Path) -> None:
    runs = [read_run(path.parent) for path in sorted(sweep.rglob("results.json"))]
    page = Page(report_html(runs))
    check_self_contained(page)
    # Tasks seen so far, spider and bars (wide and narrow) of the stream; matrix, curves and loss of
    # each of three strategies.
    assert page.tags.count("svg") == 4 + 3 * 3
    assert "9 runs" in page.text
    assert "Welch" in page.text
    for strategy in ("naive", "ewc", "replay"):
        assert f"{strategy} on split_mnist" in " ".join(page.text.split())


def test_streams_become_spokes(make_run: MakeRun) -> None:
    runs = [
        read_run(make_run(f"{stream}/{strategy}", stream=stream, strategy=strategy))
        for stream in ("illumination", "occlusion", "clutter")
        for strategy in ("naive", "ewc")
    ]
    runs.append(read_run(make_run("more", stream="sequence", strategy="naive")))
    spokes, panels = next(iter(factors(compare(runs)))).drawings  # type: ignore[union-attr]
    page = Page(spokes.svg)
    assert {"illumination", "occlusion", "clutter"} <= {word.strip() for word in page.words}
    assert "sequence" not in page.text, "a stream without all strategies would leave gaps"
    page = Page(panels.svg)
    assert {"illumination", "Accuracy", "BWT", "Over-all"} <= {word.strip() for word in page.words}
    (only,) = next(iter(factors(compare(runs[:4])))).drawings  # type: ignore[union-attr]
    assert only.name == "factors", "two streams are two panels, but no spider of two spokes"
    assert not list(factors(compare(runs[:2])))


def test_runs_that_do_not_fit_together_are_still_reported(make_run: MakeRun) -> None:
    runs = [read_run(make_run(seed=0)), read_run(make_run(seed=1, tasks=4))]
    page = Page(report_html(runs))
    assert "No mean matrix" in page.text


def test_lists_are_named_by_what_they_are_of(make_run: MakeRun) -> None:
    def edit(content: dict[str, Any]) -> None:
        content["metrics"]["average_over_run"] = {"average_over_run_k": [0.9, 0.8, 0.7]}

    page = " ".join(Page(report_html([read_run(make_run(edit=edit))])).text.split())
    tasks, experiences = page.split("Per task ")[1].split("Per experience ")
    assert "task0 task1 task2 forgetting.best_minus_last_k" in tasks
    assert experiences.strip().startswith(
        "metric exp0 exp1 exp2 average_over_run.average_over_run_k 0.9000 0.8000 0.7000"
    )


def test_many_experiences_while_learning_are_cut_and_said(make_run: MakeRun) -> None:
    curves = {f"exp{i}": {"task0": [0.1, 0.9]} for i in range(23)}
    folder = make_run(edit=lambda content: content.update(curves=curves))
    page = Page(report_html([read_run(folder)]))
    assert "3 later experiences are not shown." in page.text


def test_run_with_the_least(make_run: MakeRun) -> None:
    def edit(content: dict[str, Any]) -> None:
        content.update(metrics={}, curves=None)
        content["matrix"].update(rows=["exp0"], columns=["task0"], values=[[None]])
        del content["timing"], content["environment"]

    folder = make_run("least", edit)
    (folder / "events.jsonl").unlink()
    (folder / "config.yaml").unlink()
    page = Page(report_html([read_run(folder)]))
    assert "The run has no metrics." in page.text
    assert "There is no config.yaml" in page.text
    assert "there is no loss curve" in page.text


def test_report_command_writes_beside_the_run(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = sweep / "split_mnist" / "ewc" / "s0"
    assert main(["report", str(run), str(run / "results.json")]) == 0
    assert capsys.readouterr().out.splitlines() == [str(run / "report.html")] * 2
    assert (run / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert not [path for path in run.iterdir() if path.name.endswith(".tmp")]


def test_report_command_of_a_folder_of_runs(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(seed=0)
    (make_run(seed=1) / "results.json").unlink()
    out = tmp_path / "pages" / "all.html"
    assert main(["report", str(tmp_path), "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{out}\n"
    assert "1 unfinished run(s) left out" in captured.err
    assert "unfinished run(s) left out" in out.read_text("utf-8")


def test_compare_command(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(sweep), "--metric", "gem.bwt", "openloris.accuracy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["strategy", "n", "gem.bwt", "openloris.accuracy"]
    assert [line.split()[:2] for line in lines[3:6]] == [
        ["replay", "3"],
        ["ewc", "3"],
        ["naive", "3"],
    ], "the best by the first metric comes first"
    out = tmp_path / "table.md"
    assert main(["compare", str(sweep), "--format", "markdown", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text("utf-8").startswith("### split")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["report"], "RUN"),
        (["report", "nowhere"], "nowhere does not exist"),
        (["report", "."], "holds no finished run"),
        (["report", "run", "--out", "."], "is a folder; name the file"),
        (["report", "run", "--out", "both.pdf"], "ends in .html, such as both.html"),
        (["report", "run", "--out", "run/results.json/x.html"], "cannot be written"),
        (["report", "run", "--nonsense"], "--nonsense"),
        (["compare", "run", "--metric", "gem.bwd"], "did you mean 'gem.bwt'?"),
        (["compare", "run", "--by", "model.x"], "no run has a setting 'model.x'"),
        (["compare", "run", "--format", "xml"], "invalid choice"),
        (["compare", "--metric", "gem.bwt", "run"], "RUN"),
        (["compare", "damaged"], "'schema' is missing"),
    ],
)
def test_mistakes_exit_2_with_one_sentence(
    arguments: list[str],
    expected: str,
    make_run: MakeRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "run" in arguments:
        make_run("run")
    if "damaged" in arguments:
        make_run("damaged", lambda content: content.pop("schema"))
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert expected in captured.err
    assert captured.err.count("\n") == 1


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from clframe.errors import ClframeError

    monkeypatch.setenv("CLFRAME_DEBUG", "1")
    with pytest.raises(ClframeError):
        main(["report", str(tmp_path)])


def test_help_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--help"]) == 0
    assert main(["compare", "--help"]) == 0
    assert "--metric" in capsys.readouterr().out
