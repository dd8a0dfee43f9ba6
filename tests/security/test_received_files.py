"""Runs and data files received from others: nothing in them is executed or leads elsewhere."""

from __future__ import annotations

import ast
import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import clframe
from clframe.cli.main import main
from clframe.errors import DataError
from clframe.streams.images.image_arrays import load_images
from clframe.testing import toy_stream

ROOT = Path(__file__).parents[2]
PLUGIN = "from clframe import Plugin\nclass Quiet(Plugin):\n    'Does nothing.'\n"
SETTINGS: dict[str, Any] = {"max_steps": 1, "progress": False, "logger": None}


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("made") / "run"
    clframe.fit("split_mnist", "naive", run_dir=run, **SETTINGS)
    return run


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def said(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


@pytest.mark.parametrize("name", ["results.json", "config.yaml", "checkpoints", "events.jsonl"])
def test_links_out_of_a_run_are_not_followed(
    name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    (run / name).rename(outside)
    (run / name).symlink_to(outside)
    before = sorted(path.name for path in outside.iterdir()) if outside.is_dir() else None
    for command in (["report", str(run)], ["eval", str(run)], ["fit", f"resume={run}"]):
        assert main(command) == 2, command
        assert f"{name}' is a link out of the run folder" in said(capsys)
    with pytest.raises(clframe.ClframeError, match="is a link out of"):
        clframe.Result.load(run)
    if before is not None:
        assert sorted(path.name for path in outside.iterdir()) == before


def test_links_within_a_run_do_no_harm(run: Path) -> None:
    (run / "again.json").symlink_to(run / "results.json")
    assert clframe.Result.load(run).strategy == "naive"


def test_a_checkpoint_that_would_run_code_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import hashlib

    bomb = tmp_path / "bomb"
    for file in (run / "checkpoints").glob("*.pt"):
        torch.save({"learner": Bomb(bomb)}, file)
        note = json.loads(file.with_suffix(".json").read_text())
        content = file.read_bytes()
        note |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        file.with_suffix(".json").write_text(json.dumps(note))
    assert main(["eval", str(run)]) == 2
    assert said(capsys).count("\n") == 1
    assert not bomb.exists()


def test_code_inside_a_run_folder_is_not_executed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bomb = tmp_path / "bomb"
    (run / "evil.py").write_text(f"import os\nos.mkdir({str(bomb)!r})\n{PLUGIN}")
    text = (run / "config.yaml").read_text()
    assert "plugin_path: null" in text
    changed = text.replace("plugin_path: null", f"plugin_path: ['{run / 'evil.py'}']")
    (run / "config.yaml").write_text(changed)
    for command in (["eval", str(run)], ["fit", f"resume={run}"]):
        assert main(command) == 2
        assert "which is not executed" in said(capsys)
    (run / "config.yaml").write_text(f"!!python/object/apply:os.mkdir ['{bomb}']\n")
    assert main(["eval", str(run)]) == 2
    assert "is not valid YAML" in said(capsys)
    assert not bomb.exists()


@pytest.mark.parametrize(
    ("dataset", "file"),
    [("cifar10", "cifar-10-batches-py/data_batch_1"), ("cifar100", "cifar-100-python/train")],
)
def test_a_data_file_that_would_run_code_is_refused(
    dataset: str, file: str, tmp_path: Path
) -> None:
    bomb = tmp_path / "bomb"
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_bytes(pickle.dumps({"data": Bomb(bomb)}))
    with pytest.raises(DataError, match="cannot read cifar"):
        load_images(dataset, tmp_path, download=False)
    assert not bomb.exists()


def test_the_environment_does_not_get_into_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.chdir(tmp_path)
    lines = (
        ["logger=wandb", "logger.wandb.project=${oc.env:SECRET_TOKEN}"],
        ["strategy_name=${oc.env:SECRET_TOKEN}"],
        ["data_dir=${oc.env:SECRET_TOKEN,x}"],
    )
    for line in lines:
        assert main(["fit", "max_steps=1", "run_dir=run", *line]) == 2, line
        error = said(capsys)
        assert "hunter2" not in error
        assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("WANDB_MODE", "offline")
    clframe.fit(toy_stream(), strategy_name="${oc.env:SECRET_TOKEN}", run_dir="run", **SETTINGS)
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert b"hunter2" not in path.read_bytes(), path


FORBIDDEN = {"extractall", "unpack_archive"}
FORBIDDEN_BUILT_IN = {"exec", "eval"}
ALLOWED = {("training/schedulers.py", "eval")}  # annotations of torch's own classes
UNSAFE_UNLESS = {
    ("torch", "load"): ("weights_only", True),
    ("np", "load"): ("allow_pickle", False),
}
MAY_UNPICKLE = {"utils/processes.py", "utils/worker.py"}  # pipes to processes of our own


def test_no_code_that_executes_files_or_unpacks_archives() -> None:
    """All that could: each call is one that says it does not."""
    for path in sorted((ROOT / "clframe").rglob("*.py")):
        name = path.relative_to(ROOT / "clframe").as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            called = getattr(function, "attr", getattr(function, "id", ""))
            owner = getattr(getattr(function, "value", None), "id", "")
            where = f"{name}:{node.lineno}: {owner}.{called}"
            built_in = isinstance(function, ast.Name)
            if called in (FORBIDDEN_BUILT_IN if built_in else FORBIDDEN):
                assert (name, called) in ALLOWED, where
            if owner == "pickle" and called in ("load", "loads"):
                assert name in MAY_UNPICKLE, where
            if owner == "yaml" and called == "load":
                pytest.fail(where)
            if (owner, called) in UNSAFE_UNLESS:
                keyword, value = UNSAFE_UNLESS[owner, called]
                given = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
                assert given.get(keyword) is value, where
