"""What happens to files: damage, strangers, differences, two processes."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import clframe
from clframe.checkpoint.store import CheckpointStore, note_sum
from clframe.cli.main import main as clframe_main
from clframe.errors import RunFolderError

DAMAGE: dict[str, Callable[[Path, Path], Any]] = {
    "a flipped byte": lambda state, note: state.write_bytes(_flipped(state.read_bytes())),
    "truncated": lambda state, note: os.truncate(state, state.stat().st_size // 2),
    "empty": lambda state, note: os.truncate(state, 0),
    "no note": lambda state, note: note.unlink(),
    "half a note": lambda state, note: os.truncate(note, 40),
    "a changed note": lambda state, note: note.write_text(
        note.read_text().replace('"step": ', '"step": 1')
    ),
}


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def newest(run: str) -> tuple[Path, Path]:
    state = max(Path(run, "checkpoints").glob("*.pt"))
    return state, state.with_suffix(".json")


def write_note(note: Path, content: dict[str, Any]) -> None:
    """A note as clframe would have written it."""
    others = {key: value for key, value in content.items() if key != "note_sha256"}
    note.write_text(json.dumps(others | {"note_sha256": note_sum(others)}))


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over(
    fit: Any, same: Any, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=whole") == 0
    assert fit("run_dir=part", "checkpoint.every_n_steps=2", act="7:SIGTERM") == 130
    state, note = newest("part")
    DAMAGE[kind](state, note)
    capfd.readouterr()
    assert fit("resume=part") == 0
    error = capfd.readouterr().err
    assert f"'{state}' cannot be used" in error
    assert "continuing from the one before it" in error
    assert same("whole", "part")


@pytest.mark.parametrize("kind", [*list(DAMAGE)[:-1], "no state"])  # the last note has no step
def test_the_end_of_a_finished_run_is_not_taken_from_the_middle(
    fit: Any, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=whole", "checkpoint.every_n_steps=2") == 0
    state, note = newest("whole")
    state.unlink() if kind == "no state" else DAMAGE[kind](state, note)
    sentence = f"'{state}' cannot be used"
    capfd.readouterr()
    assert clframe_main(["eval", "whole"]) == 2
    error = capfd.readouterr().err
    assert len(error.splitlines()) == 1
    assert sentence in error
    assert "which resume=whole learns again" in error
    with pytest.raises(RunFolderError, match=sentence):
        clframe.load("whole")
    assert fit("run_dir=new", "pretrain=whole") == 2
    assert sentence in capfd.readouterr().err
    assert fit("resume=whole") == 0
    assert clframe_main(["eval", "whole"]) == 0


def test_nothing_left_to_continue_from(fit: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert fit("run_dir=part", act="7:SIGTERM") == 130
    for path in Path("part/checkpoints").glob("*.pt"):
        os.truncate(path, 10)
    capfd.readouterr()
    assert fit("resume=part") == 2
    error = capfd.readouterr().err
    assert len(error.splitlines()) == 1
    assert "there is none before it to continue from" in error


class Attack:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, ("touch attacked",)


@pytest.mark.parametrize("form", ["pickle", "torch"])
def test_a_checkpoint_of_a_stranger_runs_no_code(
    fit: Any, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=part", act="7:SIGTERM") == 130
    state, note = newest("part")
    if form == "pickle":
        state.write_bytes(pickle.dumps({"learner": Attack()}))
    else:
        torch.save({"learner": Attack()}, state)
    content = state.read_bytes()
    saved = json.loads(note.read_text())
    saved.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    write_note(note, saved)
    capfd.readouterr()
    assert fit("resume=part") == 2
    assert "holds more than tensors and plain values" in capfd.readouterr().err
    assert not Path("attacked").exists()


# ---------------------------------------------------------------- differences


def edit_config(key: str, value: Any) -> None:
    config = yaml.safe_load(Path("part/config.yaml").read_text())
    group, _, name = key.partition(".")
    config[group][name] = value
    Path("part/config.yaml").write_text(yaml.safe_dump(config))


def test_a_changed_setting_is_named_and_refused(
    fit: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=part", act="7:SIGTERM") == 130
    edit_config("optimizer.lr", 0.5)
    edit_config("trainer.gradient_clip_val", 1.0)
    capfd.readouterr()
    assert fit("resume=part") == 2
    error = capfd.readouterr().err
    assert "optimizer.lr was 0.001 and is 0.5" in error
    assert "resume.allow=[optimizer.lr,trainer.gradient_clip_val]" in error
    assert fit("resume=part", "resume.allow=[optimizer.lr]") == 2
    assert "optimizer.lr was" not in capfd.readouterr().err
    assert fit("resume=part", "resume.allow=[optimizer,trainer.gradient_clip_val]") == 0
    assert "optimizer.lr was 0.001 and is 0.5, as allowed by resume.allow" in capfd.readouterr().err


def test_auto_with_another_command_is_refused(fit: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert fit("run_dir=part", "resume=auto", act="7:SIGTERM") == 130
    assert fit("run_dir=part", "resume=auto", "lr=0.5") == 2
    assert "optimizer.lr was 0.001 and is 0.5" in capfd.readouterr().err
    assert fit("run_dir=part", "resume=auto", "lr=0.5", "resume.allow=[optimizer.lr]") == 0
    assert yaml.safe_load(Path("part/config.yaml").read_text())["optimizer"]["lr"] == 0.5


def test_changed_plugin_code_and_version_are_refused(
    fit: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=part", act="7:SIGTERM") == 130
    with Path("act.py").open("a") as file:
        file.write("# changed\n")
    _, note = newest("part")
    saved = json.loads(note.read_text())
    saved["identity"]["version"]["clframe"] = "0.0.1"
    write_note(note, saved)
    capfd.readouterr()
    assert fit("resume=part") == 2  # with its own copy of the plugin
    error = capfd.readouterr().err
    assert "'act.py' has changed since the run began" in error
    assert "resume.allow=[version]" in error
    assert fit("resume=part", "plugin_path=act.py") == 2
    error = capfd.readouterr().err
    assert "version.clframe was 0.0.1" in error
    assert "plugins.act was" in error
    assert "resume.allow=[version,plugins]" in error
    assert fit("resume=part", "resume.allow=[versions]") == 2
    assert "did you mean 'version'?" in capfd.readouterr().err
    allowed = "resume.allow=[version,plugins]"
    assert fit("resume=part", "plugin_path=act.py", allowed) == 0


# ---------------------------------------------------------------- two processes


def test_a_second_process_is_refused_until_the_first_is_dead(
    fit: Any, same: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=whole") == 0
    assert fit("run_dir=part", act="7:SIGTERM") == 130
    hold = (
        "import sys, pathlib; from clframe.utils.lock import Lock;"
        "lock = Lock(pathlib.Path('part/.lock')); lock.take();"
        "print('locked', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == "locked\n"
    before = {path: path.read_bytes() for path in Path("part").rglob("*") if path.is_file()}
    capfd.readouterr()
    assert fit("resume=part") == 2
    assert f"is in use by process {other.pid} on" in capfd.readouterr().err
    assert {path: path.read_bytes() for path in before} == before
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    other.stdout.close()
    other.stdin.close()
    assert fit("resume=part") == 0
    assert same("whole", "part")


@pytest.mark.parametrize("keep", [1, 3])
def test_as_many_checkpoints_are_kept_as_was_asked_for(keep: int, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=keep)
    for done in range(5):
        position = {"experiences_learned": 0, "rows": 0, "tasks_evaluated": done}
        store.write({"done": done}, position, [], {}, {})
    assert store.numbers() == [5, 4, 3][:keep]
