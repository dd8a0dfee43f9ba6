from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clframe.cli.main import main
from clframe.report.rendering import template_names

MakeRun = Callable[..., Path]


@pytest.fixture
def own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Copies of the templates, as the command writes them."""
    folder = tmp_path / "own"
    assert main(["report", "--write-templates", str(folder)]) == 0
    written = capsys.readouterr().out.split()
    assert written == [str(folder / name) for name in template_names()]
    return folder


def test_an_edited_template_takes_the_place_of_clframes(
    own: Path, make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run()
    assert main(["report", str(run)]) == 0
    plain = (run / "report.html").read_text()
    for name in template_names():
        if name != "run.html":
            (own / name).unlink()
    words = ["report", str(run), "--templates", str(own)]
    assert main(words) == 0
    assert (run / "report.html").read_text() == plain, "a copy changes nothing"
    (own / "run.html").write_text(
        '{% extends "page.html" %}{% block title %}Our lab: {{ page.title }}{% endblock %}'
    )
    assert main(words) == 0
    assert "<h1>Our lab: naive on split_mnist</h1>" in (run / "report.html").read_text()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("run.html", "{% if %}", "run.html, line 1: Expected an expression"),
        ("run.html", "\n{{ page.titel }}", "run.html, line 2: "),
        ("style.css", "{{ nothing.here }}", "style.css, line 1: 'nothing' is undefined"),
        ("run.html", '{% extends "else.html" %}', "else.html"),
        ("run.html", "{{ 1 / 0 }}", "run.html, line 1: division by zero"),
    ],
)
def test_a_broken_template_is_one_sentence(
    name: str,
    content: str,
    expected: str,
    make_run: MakeRun,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / name).write_text(content)
    assert main(["report", str(make_run()), "--templates", str(tmp_path / "own")]) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1


def test_folders_that_are_none(
    own: Path, make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(make_run())
    (tmp_path / "empty").mkdir()
    for words, expected in (
        (["report", run, "--templates", str(tmp_path / "nowhere")], "is not a folder"),
        (["report", run, "--templates", str(tmp_path / "empty")], "holds none of the templates"),
        (["report", "--write-templates", str(own)], "already exists"),
        (["report", run, "--ste", str(tmp_path / "nowhere")], "is not a folder"),
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert expected in said
        assert said.count("\n") == 1
