"""``clframe tasks``: what it prints, writes and returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from clframe.cli import tasks
from clframe.errors import ClframeError
from clframe.worlds.bddl import parse

DATA = Path(__file__).parents[2] / "data" / "bddl"
SAMPLE = sorted(DATA.glob("*/*.bddl"))


def test_generate_check_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made" / "here"
    assert tasks.main(["generate", "suite=spatial", "n=10", "seed=0", f"out={out}"]) == 0
    paths = capsys.readouterr().out.splitlines()
    assert len(paths) == 10
    assert sorted(map(str, out.iterdir())) == sorted(paths)  # no temporary file is left
    first = {path: Path(path).read_bytes() for path in paths}
    tasks.generate("spatial", 10, 0, out)
    assert {path: Path(path).read_bytes() for path in paths} == first
    capsys.readouterr()
    assert tasks.main(["check", *paths]) == 0
    assert capsys.readouterr().out == "10 checked, no problems\n"
    assert tasks.main(["show", paths[0]]) == 0
    shown = capsys.readouterr().out
    assert f'Instruction: "{parse(Path(paths[0])).language}"' in shown
    assert "is on plate_1" in shown


def test_check_prints_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.bddl"
    bad.write_text(
        "(define (problem p) (:domain igibson)\n  (:objects a_1 - a)\n"
        "  (:init (dusty a_1 a_1))\n  (:goal (and (open ?b_1))))\n"
    )
    done = tmp_path / "done.bddl"
    done.write_text(
        "(define (problem p) (:domain igibson) (:objects a_1 - a)\n"
        " (:init) (:goal (not (open ?a_1))))"
    )
    never = tmp_path / "never.bddl"
    never.write_text(
        done.read_text().replace("(not (open ?a_1))", "(and (open ?a_1) (not (open ?a_1)))")
    )
    missing = tmp_path / "missing.bddl"
    assert tasks.main(["check", *map(str, (bad, done, never, missing))]) == 2
    assert capsys.readouterr().out.splitlines() == [
        f"{bad}:3:10: 'dusty' takes 1 term, not 2.",
        f"{bad}:4:21: 'b_1' is not declared; did you mean 'a_1'?",
        f"{done}:2:17: The goal already holds at the start.",
        f"{never}:2:17: Every way to reach the goal contradicts itself, so it has no score.",
        f"{missing}:1:1: There is no file '{missing}'.",
        "4 checked, problems in 4",
    ]


def test_published_files_pass_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    quirky = ("loading_the_car", "passing_out_drinks", "wash_a_baseball_cap")
    paths = [path for path in SAMPLE if not path.stem.endswith(quirky)]
    assert tasks.main(["check", *map(str, paths)]) == 0
    assert f"{len(paths)} checked, no problems" in capsys.readouterr().out


@pytest.mark.parametrize("path", SAMPLE[::4], ids=lambda path: path.stem[:40])
def test_show_any_published_file(path: Path) -> None:
    text = tasks.show(path)
    assert "At the start:" in text
    assert "Ways to reach the goal: " in text


@pytest.mark.parametrize(
    "argv",
    [[], ["make"], ["check"], ["show"], ["show", "a", "b"], ["show", "missing.bddl"],
     ["generate", "n=ten"], ["generate", "n=-1"], ["generate", "n=0"], ["generate", "seed=1e3"],
     ["generate", "suit=goal"], ["generate", "suite=gaol"], ["generate", "out="],
     ["generate", "10"],
     ["generate", "n=1", "out=/dev/null/x"]],
)  # fmt: skip
def test_wrong_use_is_one_sentence(argv: list[str]) -> None:
    with pytest.raises(ClframeError) as caught:
        tasks.main(argv)
    assert "\n" not in str(caught.value)
