"""One small run that kept the states between its experiences."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clframe.cli.main import main

SMALL = ("n_experiences=3", "max_epochs=1", "model.hidden=[8]", "logger=none")


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder, which tests do not change."""
    folder = tmp_path_factory.mktemp("verify") / "run"
    words = ["strategy=ewc+replay", "checkpoint.every_experience=true", f"run_dir={folder}"]
    assert main(["fit", *SMALL, *words]) == 0
    return folder


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(run, tmp_path / "copy"))
