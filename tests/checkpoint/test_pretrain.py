"""A run can start from the final weights of another one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import clframe
from clframe.cli.main import main
from clframe.core.results import Result
from clframe.errors import RunFolderError
from clframe.run import set_up
from clframe.testing import Kill, Killed, prepare, toy_stream

SMALL: dict[str, Any] = {
    "model": {"name": "mlp", "hidden": [8]},
    "optimizer": {"name": "adam", "lr": 0.01},
    "max_epochs": 4,
    "batch_size": 16,
}


def fitted(folder: Path, **changes: Any) -> Result:
    given = {"stream": toy_stream("task"), "progress": False, "logger": None, **SMALL, **changes}
    return clframe.fit(**{"run_dir": folder, **given})


def weights(folder: Path, **changes: Any) -> dict[str, torch.Tensor]:
    """The model of a run as it starts, or as its folder's checkpoint left it."""
    model = changes.pop("model", SMALL["model"])
    prepared = prepare(
        toy_stream("task"), model=model, resume=folder if folder.exists() else None, **changes
    )
    if folder.exists():
        set_up(prepared.learner, prepared.stream, prepared.folder)
    return {name: value.clone() for name, value in prepared.learner.model.state_dict().items()}


@pytest.fixture
def first(tmp_path: Path) -> Path:
    fitted(tmp_path / "first", strategy="multitask")
    return tmp_path / "first"


def test_the_model_starts_where_the_other_run_ended(first: Path, tmp_path: Path) -> None:
    ended = {
        name: value.clone()
        for name, value in torch.load(max((first / "checkpoints").glob("*.pt")), weights_only=True)[
            "learner"
        ].items()
        if name.startswith("model.")
    }
    begun = weights(tmp_path / "none", pretrain=first, seed=7)
    assert ended.keys() == {f"model.{name}" for name in begun}
    assert all(torch.equal(value, ended[f"model.{name}"]) for name, value in begun.items())
    fresh = weights(tmp_path / "none", seed=7)
    assert not all(torch.equal(value, fresh[name]) for name, value in begun.items())


def test_what_was_learned_counts_and_is_recorded(first: Path, tmp_path: Path) -> None:
    result = fitted(tmp_path / "second", pretrain=first, seed=3)
    ended = json.loads((first / "results.json").read_text())["matrix"]["values"][-1]
    assert result.matrix.before.tolist() == ended
    assert min(ended) > 0.9
    assert fitted(tmp_path / "fresh", seed=3).matrix.before.mean() < 0.9
    kept = json.loads((tmp_path / "second" / "results.json").read_text())
    source = {"run": str(first), "stream": "toy", "strategy": "multitask", "seed": 0}
    assert kept["pretrain"] == result.pretrain == source
    assert "pretrain" not in json.loads((tmp_path / "fresh" / "results.json").read_text())


def test_a_resumed_run_does_not_need_the_other_folder(first: Path, tmp_path: Path) -> None:
    kwargs = {"pretrain": first, "checkpoint": {"every_n_steps": 3}}
    whole = fitted(tmp_path / "whole", **kwargs)
    with pytest.raises(Killed):
        fitted(tmp_path / "killed", strategy=[Kill(8)], **kwargs)
    shutil.rmtree(first)
    again = fitted(
        tmp_path / "killed",
        strategy=[Kill(10**6)],
        run_dir=None,
        resume=tmp_path / "killed",
        **kwargs,
    )
    assert (again.matrix.values == whole.matrix.values).all()
    assert again.pretrain == {"run": str(first)}


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ({"name": "mlp", "hidden": [9]}, r"is \[8, 8\] in run '.*first' and \[9, 8\] here"),
        ({"name": "mlp", "hidden": [8, 8]}, "lacks the weights"),
        ({"name": "mlp", "hidden": []}, "(has weights|lacks the weights|here;)"),
    ],
)
def test_another_model_is_refused(first: Path, model: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RunFolderError, match=f"pretrain: .*{sentence}"):
        prepare(toy_stream("task"), model=model, pretrain=first)


def test_a_folder_without_a_finished_run_is_refused(first: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"'.*nowhere' is not a run folder"):
        prepare(toy_stream("task"), model=SMALL["model"], pretrain=tmp_path / "nowhere")
    (first / "results.json").unlink()
    with pytest.raises(RunFolderError, match="is not finished; finish it with resume="):
        prepare(toy_stream("task"), model=SMALL["model"], pretrain=first)
    (first / "results.json").write_text('{"stream": "toy", "strategy": "x", "seed": 0}')
    shutil.rmtree(first / "checkpoints")
    with pytest.raises(RunFolderError, match="has no checkpoint to take weights from"):
        prepare(toy_stream("task"), model=SMALL["model"], pretrain=first)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "nowhere"
    code = main(["fit", f"pretrain={where}", f"run_dir={tmp_path / 'run'}", "logger=none"])
    assert code == 2
    assert capsys.readouterr().err.strip() == (
        f"clframe: '{where}' is not a run folder: it has no config.yaml"
    )
    assert not (tmp_path / "run").exists()
