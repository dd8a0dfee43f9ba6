"""A file of a run folder that is not what the run wrote: named, with what to do, never read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import clframe
from clframe import Experience, Plugin, hookimpl
from clframe.cli.main import main
from clframe.testing import toy_stream
from clframe.utils.checksums import SUMS, PrefixSum, problem_with

SMALL = ["n_experiences=2", "max_epochs=1", "trainer.batch_size=500", "model.hidden=[4]"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run."""
    monkeypatch.chdir(tmp_path)
    assert main(["fit", *SMALL, "logger=csv", "run_dir=run"]) == 0
    return Path("run")


def refuses(words: list[str], name: str, capfd: pytest.CaptureFixture[str]) -> str:
    """The one sentence with which a command refuses a file."""
    capfd.readouterr()
    assert main(words) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert name in lines[0]
    return lines[0]


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_sums_are_those_of_sha256sum_and_changes_are_refused(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = subprocess.run(["sha256sum", "-c", "--quiet", SUMS], cwd=run, capture_output=True)
    assert done.returncode == 0, done.stdout
    kept = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    log = run / "log/worker-default/data-log.tsv"
    changes: list[tuple[Path, Callable[[Path], None], list[list[str]]]] = [
        # Half a log is a log as well, with other metrics.
        (log, lambda path: os.truncate(path, kept[path].rindex(b"\n", 0, -1) + 1), [["l2"]]),
        (run / "results.json", lambda path: change(path, '"seed": 0', '"seed": 1'), []),
        (run / "events.jsonl", lambda path: os.truncate(path, 0), [["report"], ["compare"]]),
        (run / "config.yaml", lambda path: change(path, "lr: 0.001", "lr: 0.002"), [["eval"]]),
        (run / SUMS, lambda path: os.truncate(path, 70), [["report"], ["l2"]]),
    ]
    for path, damage, commands in changes:
        damage(path)
        for command in commands or [["report"], ["compare"]]:
            place = run / "log" if command == ["l2"] else run
            refuses([*command, str(place)], path.name, capfd)
        path.write_bytes(kept[path])
    # Who means it removes the sums.
    change(run / "results.json", '"seed": 0', '"seed": 1')
    (run / SUMS).unlink()
    assert main(["compare", str(run)]) == 0


def test_a_damaged_log_does_not_come_into_the_results(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = (run / "results.json").read_bytes()
    log = run / "log/worker-default/data-log.tsv"
    os.truncate(log, log.stat().st_size // 2)
    refuses(["fit", f"resume={run}"], str(log), capfd)
    assert (run / "results.json").read_bytes() == before


@pytest.mark.parametrize("text", ["{a: 1}", "trainer: 5", "[]", "stream: {}"])
def test_a_config_that_clframe_did_not_write_is_named(
    run: Path, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (run / "config.yaml").write_text(text)
    refuses(["eval", str(run)], "config.yaml", capfd)
    refuses(["fit", f"resume={run}"], "config.yaml", capfd)


def test_nothing_is_written_through_a_link(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = Path("other.txt")
    for name in (".lock", "events.jsonl", "csv/metrics.csv"):
        content = (run / name).read_bytes()
        other.write_text("of somebody else")
        (run / name).unlink()
        (run / name).symlink_to(other.absolute())
        refuses(["fit", f"resume={run}"], name, capfd)
        assert other.read_text() == "of somebody else"
        (run / name).unlink()
        (run / name).write_bytes(content)


def test_the_sum_of_a_growing_file_is_that_of_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    growing = PrefixSum(path)
    assert problem_with(path, growing.mark()) is None
    path.write_text("one\n")
    first = growing.mark()
    with path.open("a") as file:
        file.write("two\n")
    assert growing.mark() == PrefixSum(path).mark()
    assert problem_with(path, first) is None
    os.truncate(path, 3)
    assert problem_with(path, first) == "has 3 bytes, but the run had written 4"
    path.write_text("One\ntwo\n")
    assert problem_with(path, first) == "is not what the run had written"
    path.unlink()
    assert problem_with(path, first) == "is missing"


def fit_while(run: Path, damage: Callable[[Path], None]) -> None:
    """Run with a plugin that damages the run folder after the first experience."""

    class Damage(Plugin):
        """Damage the run folder."""

        @hookimpl
        def after_experience(self, experience: Experience) -> None:
            if experience.index == 0:
                damage(run)

    stream = toy_stream(n_experiences=2)
    clframe.fit(stream, [Damage()], max_steps=1, run_dir=run, progress=False)


def test_a_config_that_is_changed_during_the_run_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    fit_while(run, lambda run: change(run / "config.yaml", "seed: 0", "seed: 7"))
    printed = " ".join(capsys.readouterr().err.split())
    assert (
        "config.yaml' was changed during the run: the change is now in 'config.yaml.changed'"
        in printed
    )
    assert "seed: 0" in (run / "config.yaml").read_text()
    assert "seed: 7" in (run / "config.yaml.changed").read_text()
    assert main(["report", str(run), "--out", str(tmp_path / "report.html")]) == 0


def test_files_that_are_removed_during_the_run_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    fit_while(run, lambda run: (run / "config.yaml").unlink())
    printed = " ".join(capsys.readouterr().err.split())
    assert "config.yaml' was removed during the run and has been written again" in printed
    assert "seed: 0" in (run / "config.yaml").read_text()

    fit_while(tmp_path / "other", lambda run: (run / "events.jsonl").unlink())
    printed = " ".join(capsys.readouterr().err.split())
    assert "events.jsonl' was shortened or removed during the run;" in printed


def test_a_run_that_nobody_touches_reports_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit_while(tmp_path / "run", lambda run: None)
    assert "during the run" not in capsys.readouterr().err
