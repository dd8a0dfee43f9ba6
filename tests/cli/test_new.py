"""What ``clframe new`` writes works as it is written, and nothing is ever overwritten."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clframe.cli import new
from clframe.cli.main import main

RULES = "E,F,W,I,UP,B,SIM,RET,RUF,PT,T20,D"
NO_RULES = "D100,D103,D104,D107,D203,D213,D413"
QUICK = ["max_epochs=1", "run_dir=run"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ruff(folder: Path) -> None:
    for words in (["check", "--select", RULES, "--ignore", NO_RULES], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", words[0], "--isolated", "--no-cache", *words[1:], "."],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def run_tests(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the tests of a module that was written; without another process, which takes long."""
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    module = importlib.import_module(name)
    tests = [value for key, value in vars(module).items() if key.startswith("test_")]
    assert len(tests) >= 2
    for test in tests:
        test()


@pytest.mark.parametrize("kind", ["plugin", "stream", "model", "metric"])
def test_a_file_works_as_it_is_written(
    kind: str, here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"my_new_{kind}"
    assert main(["new", kind, f"My-New-{kind}"]) == 0
    shown = capfd.readouterr().out
    written = {path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file()}
    assert written == {new.fill(path, new.names(name)) for path in new.FILES[kind]}
    ruff(here)
    run_tests(here, f"test_{name}", monkeypatch)
    # The commands that were shown do what they say.
    lines = re.findall(r"clframe fit .*", shown)
    assert len(lines) == (1 if kind == "metric" else 2)
    assert main([*shlex.split(lines[-1])[1:], *QUICK]) == 0
    if kind == "metric":
        assert f'"{name}"' in (here / "run" / "results.json").read_text()
    capfd.readouterr()
    before = {path: path.read_bytes() for path in here.glob("*.py")}
    assert main(["new", kind, name]) == 2
    assert capfd.readouterr().err == (
        f"clframe: '{name}.py' exists already; choose another name or remove it\n"
    )
    assert {path: path.read_bytes() for path in here.glob("*.py")} == before


def test_a_package_has_all_it_needs(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["new", "package", "clframe-own-thing"]) == 0
    folder = here / "clframe-own-thing"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "clframe-own-thing"
    assert project["entry-points"]["clframe.plugins"] == {
        "own_thing": "clframe_own_thing.own_thing"
    }
    assert "license" not in project
    ruff(folder)
    monkeypatch.syspath_prepend(str(folder / "src"))
    run_tests(folder / "tests", "test_own_thing", monkeypatch)
    assert main(["new", "package", "own_thing"]) == 2
    assert "'clframe-own-thing' exists already" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("3d", "starting with a letter"),
        ("a b", "letters, digits and single underscores"),
        ("class", "letters, digits"),
        ("../up", "letters, digits"),
        ("x" * 31, "at most 30"),
        ("random", "would hide the module of that name; choose another, such as my_random"),
    ],
)
def test_a_name_that_cannot_be_used_is_one_sentence(
    name: str, words: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "plugin", name]) == 2
    error = capfd.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not list(here.iterdir())


def test_all_files_are_written_or_none(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "configs").write_text("no folder")
    assert main(["new", "plugin", "whole"]) == 2
    assert "cannot be written here" in capfd.readouterr().err
    assert [path.name for path in here.iterdir()] == ["configs"]


def test_templates_are_installed_with_the_package() -> None:
    content = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = content["tool"]["setuptools"]["package-data"]["clframe.cli"]
    folder = Path(new.__file__).parent
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    assert found == {path for path in (folder / "templates").rglob("*") if path.is_file()}
