"""Whether a run is what it says is found out by learning one of its experiences again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from clframe.checkpoint.store import CheckpointStore, note_sum
from clframe.cli.main import main
from clframe.errors import RunFolderError, SettingError
from clframe.reproduce.verify import Finding, verify
from clframe.utils.checksums import SUMS

SMALL = ["n_experiences=3", "max_epochs=1", "model.hidden=[8]", "logger=none"]


def failures(found: list[Finding]) -> dict[str, str]:
    return {finding.what: finding.words for finding in found if not finding.good}


def test_every_experience_comes_out_to_the_bit(run: Path) -> None:
    for number in (1, 2, 3):
        found = verify(run, number)
        assert not failures(found)
        assert found[-1].what.startswith(f"experience {number}")
        assert "equal to the bit" in found[-1].words
    assert verify(run)[-1].what == "experience 3 (exp2)"
    assert verify(run, "exp1")[-1].what == "experience 2 (exp1)"


def test_the_command(run: Path, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(run)]) == 0
    assert f"verified: {run}" in capsys.readouterr().out
    (copy / "results.json").write_text("{}")
    assert main(["verify", str(copy)]) == 1
    assert "FAILED  files: " in capsys.readouterr().out
    assert main(["verify", str(run), "--experience", "9"]) == 2
    assert main(["verify", str(copy / "nothing")]) == 2


def _number(store: CheckpointStore, learned: int) -> int:
    store.newest()
    return next(info.number for info in store.usable() if info.learned == learned)


def test_a_flipped_bit_in_a_checkpoint_is_found(copy: Path) -> None:
    store = CheckpointStore(copy / "checkpoints")
    path = store.state_file(_number(store, 2))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert f"'{path}' cannot be used: it is damaged" in failures(verify(copy))["checkpoints"]


def _forge(folder: Path, learned: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a checkpoint and put right every sum that would tell."""
    store = CheckpointStore(folder / "checkpoints")
    number = _number(store, learned)
    state = store.read(number, torch.device("cpu"))
    change(state)
    torch.save(state, store.state_file(number))
    content = store.state_file(number).read_bytes()
    note = json.loads(store.note_file(number).read_text())
    note |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    note.pop("note_sha256")
    store.note_file(number).write_text(json.dumps(note | {"note_sha256": note_sum(note)}))


@pytest.mark.parametrize(
    ("what", "experience", "expected"),
    [
        ("weight", 2, "1 of 6272 numbers differ"),
        ("fisher", 2, "plugins.ewc."),
        ("random", 2, "random."),
        ("weight", 3, "numbers differ"),  # the next experience began from other weights
    ],
)
def test_a_forged_state_does_not_come_out(
    copy: Path, what: str, experience: int, expected: str
) -> None:
    def change(state: dict[str, Any]) -> None:
        if what == "weight":
            name = next(name for name in state["learner"] if name.endswith("weight"))
            bits = state["learner"][name].view(torch.int32)
            bits[0, 0] ^= 1
        elif what == "fisher":
            tensors = _tensors(state["plugins"]["ewc"])
            next(tensor for tensor in tensors if tensor.is_floating_point()).flatten()[0] += 1
        else:
            state["random"]["torch"][100] ^= 1

    _forge(copy, 2, change)
    found = failures(verify(copy, experience))
    assert list(found) == [f"experience {experience} (exp{experience - 1})"]
    assert expected in next(iter(found.values()))


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [tensor for item in items for tensor in _tensors(item)]


def test_a_changed_cell_is_found_with_and_without_its_sum(copy: Path) -> None:
    path = copy / "results.json"
    content = json.loads(path.read_text())
    content["matrix"]["values"][2][1] += 0.01
    path.write_text(json.dumps(content))
    assert "results.json' is not what the run wrote" in failures(verify(copy))["files"]
    (copy / SUMS).unlink()
    assert "for task task1 after exp1, but the checkpoint has" in failures(verify(copy))["matrix"]


def test_a_changed_setting_is_found(copy: Path) -> None:
    (copy / SUMS).unlink()
    path = copy / "config.yaml"
    text = path.read_text()
    assert "size: " in text
    path.write_text(
        text.replace("size: 1000", "size: 999").replace("max_epochs: 1", "max_epochs: 2")
    )
    assert "is not what the run was made with" in failures(verify(copy))["settings"]


def test_a_tolerance_is_for_small_deviations_only(copy: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        name = next(name for name in state["learner"] if name.endswith("weight"))
        state["learner"][name] *= 1 + 1e-6

    _forge(copy, 2, change)
    assert failures(verify(copy, 2))
    found = verify(copy, 2, tolerance=1e-4)
    assert not failures(found)
    assert "within the tolerance of 0.0001" in found[-1].words
    assert failures(verify(copy, 2, tolerance=1e-9))


def test_what_cannot_be_verified_says_why(run: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="has learned no experience 'exp9'"):
        verify(run, "exp9")
    reward = tmp_path / "reward"
    reward.mkdir()
    for name in ("config.yaml", "results.json"):
        shutil.copy(run / name, reward / name)
    text = (reward / "config.yaml").read_text()
    (reward / "config.yaml").write_text(f"{text}learner: {{name: sac}}\n")
    with pytest.raises(RunFolderError, match=r"own actions \(learner=sac\)"):
        verify(reward)
    folder = tmp_path / "run"
    keeping = ["checkpoint.every_experience=false", "checkpoint.max_cost=0.000001"]
    keeping += ["checkpoint.keep=1", f"run_dir={folder}"]
    assert main(["fit", *SMALL, "strategy=naive", *keeping]) == 0
    with pytest.raises(RunFolderError, match=r"not kept the states .*every_experience=true"):
        verify(folder)
