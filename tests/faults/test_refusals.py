"""Mistakes that ended in a traceback or a wait get one message, and it names no missing folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import clframe
from clframe.cli.main import main
from clframe.training.augment_stream import augmented
from tests.helpers.processes import ProcessServer

QUICK = ["max_steps=1", "progress=false", "model=cnn"]


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "augment", ["[{Resize:{size:5}}]", "[{RandomCrop:{size:5}}]", "[{Resize:{size:40}}]"]
)
def test_an_augmentation_that_changes_the_size_is_refused(
    augment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    for model in ("mlp", "cnn"):
        words = ["fit", f"trainer.augment={augment}", f"run_dir={run}", *QUICK, f"model={model}"]
        message = refusal(words, capsys)
        assert "trainer.augment changes the images from (1, 28, 28) to (1, " in message
        assert not run.exists()


def test_an_augmentation_that_cannot_be_applied_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", "trainer.augment=[{RandomCrop:{size:50}}]", f"run_dir={tmp_path / 'run'}"]
    assert "trainer.augment cannot be applied to these images" in refusal([*words, *QUICK], capsys)


def test_the_check_of_sizes_leaves_the_random_generator_alone() -> None:
    stream = augmented(clframe.stream("split_mnist"), ["RandomHorizontalFlip"])
    before = torch.get_rng_state()
    assert len(stream.experiences[0].data)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_name_that_is_too_long_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "a" * 300
    message = refusal(["fit", f"run_dir={name}", *QUICK], capsys)
    assert "cannot be made: File name too long; give a shorter name" in message
    assert name not in message
    for words in (["eval", name], ["report", name], ["fit", f"resume={name}"], ["verify", name]):
        message = refusal(words, capsys)
        assert len(message) < 250
    assert not list(tmp_path.iterdir())


def test_machines_without_a_launcher_are_refused(
    clframe_process: ProcessServer, tmp_path: Path
) -> None:
    words = ["fit", "trainer.num_nodes=2", f"run_dir={tmp_path / 'run'}", *QUICK]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MASTER_")}
    done = clframe_process.run(
        "-m", "clframe", *words, folder=tmp_path, environment=environment, seconds=240
    )
    assert done.returncode == 2
    assert "trainer.num_nodes=2 needs a launcher" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_refusal_names_no_folder_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run is removed when it fails before its first step, so nothing can be continued."""
    plugin = tmp_path / "broken.py"
    plugin.write_text(
        "from clframe import Plugin, hookimpl\n"
        "from clframe.errors import DataError\n\n\n"
        "class Broken(Plugin):\n"
        '    """Finds no data."""\n\n'
        "    @hookimpl\n"
        "    def configure(self, learner):\n"
        '        """Fail."""\n'
        '        raise DataError("there is no data")\n'
    )
    run = tmp_path / "run"
    words = ["fit", f"plugin_path={plugin}", "strategy=broken", f"run_dir={run}", *QUICK]
    message = refusal(words, capsys)
    assert "before the first experience there is no data" in message
    assert str(run) not in message
    assert not run.exists()
