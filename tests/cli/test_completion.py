"""The Tab key: what bash is told, and that the scripts can be read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clframe.cli.completion import SCRIPTS, candidates
from clframe.cli.main import main
from clframe.config.read_overrides import load_catalog


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    load_catalog()
    folder = tmp_path / "here"
    run = folder / "runs" / "split_mnist" / "20250101-120000-s0"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("")
    (folder / "mine.py").write_text("")
    monkeypatch.chdir(folder)
    return folder


def completed(line: str) -> list[str]:
    *before, current = line.split(" ")
    return sorted(set(candidates(before, current)))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fi", ["fit"]),
        ("fit strategy=online_", ["strategy=online_ewc"]),
        ("fit strategy=ewc+repl", ["strategy=ewc+replay"]),
        ("fit -m strategy=ewc,repl", ["strategy=ewc,replay"]),
        ("fit strategy=ewc fish", ["fisher="]),
        ("fit strategy=ewc strategy.ewc.fi", ["strategy.ewc.fisher="]),
        ("fit strategy=ewc fisher=pre", ["fisher=predicted"]),
        ("fit scenario=d", ["scenario=domain"]),
        ("fit trainer.prec", ["trainer.precision="]),
        ("fit resume=r", ["resume=runs/"]),
        ("fit resume=runs/split_mnist/", ["resume=runs/split_mnist/20250101-120000-s0"]),
        ("fit plugin_path=m", ["plugin_path=mine.py"]),
        ("fit --mu", ["--multirun"]),
        ("report runs/split_mnist/2", ["runs/split_mnist/20250101-120000-s0"]),
        ("compare --form", ["--format"]),
        ("compare --format m", ["markdown"]),
        ("demos pl", ["play"]),
        ("demos make stream=point", ["stream=point_robot"]),
        ("tasks generate --su", ["--suite"]),
        ("list exp", ["experiments"]),
        ("completion z", ["zsh"]),
        ("nonsense x", []),
        ("fit nonsense=x", []),
    ],
)
def test_what_a_word_may_become(line: str, expected: list[str]) -> None:
    assert completed(line) == expected


def test_settings_follow_what_was_chosen() -> None:
    assert "fisher=" not in completed("fit fi")
    assert "modality=" in completed("fit stream=openloris_illumination mod")
    assert "modality=" not in completed("fit stream=split_mnist mod")


def test_it_answers_without_torch_and_never_fails() -> None:
    code = (
        "import sys; from clframe.cli.main import main\n"
        "for words in (['fit', 'strategy=e'], ['rollout', ''], ['x', 'y'], []):\n"
        "    assert main(['__complete', 'zsh', *words]) == 0\n"
        "assert main(['__complete', 'bash', 'clframe fit \\'strategy=[ewc,re']) == 0\n"
        "sys.exit(bool({'torch', 'lightning', 'hydra'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "strategy=ewc\n" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("clframe fi", "fit"),
        ("clframe fit strategy=online_", "online_ewc"),
        ("clframe fit 'strategy=[ewc,online_", "strategy=[ewc,online_ewc"),
        ("clframe fit resume=runs/split_mnist/", "runs/split_mnist/20250101-120000-s0"),
        ("clframe compare --format ", "csv json latex markdown text"),
    ],
)
def test_bash_completes(line: str, expected: str, tmp_path: Path) -> None:
    command = tmp_path / "clframe"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m clframe "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(clframe completion bash)"\n'
        'COMP_LINE=$1 COMP_POINT=${#1}\n_clframe 2>/dev/null\nIFS=" "\necho "${COMPREPLY[*]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", line],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    words = [word for word in done.stdout.split() if not word.startswith("--")]
    assert " ".join(words) == expected, done.stderr


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_the_scripts_can_be_read(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"clframe __complete {shell}" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    assert subprocess.run([shell, "-n"], input=script, text=True).returncode == 0
