"""A package that clframe has never heard of is found once pip has installed it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow(minutes=1)  # pip, and interpreters that import torch

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "outsider"
version = "1.0"
[project.entry-points."clframe.plugins"]
outsider = "outsider"
[tool.setuptools]
py-modules = ["outsider"]
"""

MODULE = '''
from clframe import Plugin, Registry, hookimpl
from clframe.testing import toy_stream


class Halve(Plugin):
    """Halves every gradient."""

    def __init__(self, factor: float = 0.5) -> None:
        self.factor = factor

    @hookimpl
    def after_backward(self, learner):
        for parameter in learner.parameters():
            parameter.grad.mul_(self.factor)


def blobs(seed: int = 0, n_experiences: int = 2):
    """Gaussian blobs."""
    return toy_stream(n_experiences=n_experiences, seed=seed)


@hookimpl
def register(registry: Registry) -> None:
    registry.add("stream", "outside_blobs", blobs)
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "outsider.py").write_text(MODULE)
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def clframe(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "clframe", *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
    )


def test_an_installed_package_is_listed_and_usable(site: Path, tmp_path: Path) -> None:
    listed = clframe(site, tmp_path, "list", "plugins")
    assert "halve" in listed.stdout
    assert "Halves every gradient." in listed.stdout
    assert "[outsider]" in listed.stdout
    done = clframe(
        site,
        tmp_path,
        "fit",
        "strategy=[halve,cumulative]",
        "strategy.halve.factor=0.25",
        "stream=outside_blobs",
        "n_experiences=3",
        "trainer.max_epochs=1",
        "logger=none",
    )
    assert done.returncode == 0, done.stderr
    assert "halve+cumulative on toy" in done.stdout
    assert (tmp_path / "runs/toy/halve+cumulative").is_dir()


def test_a_broken_package_is_passed_over_with_a_sentence(site: Path, tmp_path: Path) -> None:
    module = site / "outsider.py"
    whole = module.read_text()
    try:
        module.write_text("raise RuntimeError('half installed')\n")
        done = clframe(site, tmp_path, "fit", "trainer.max_epochs=1", "logger=none")
    finally:
        module.write_text(whole)
    assert done.returncode == 0, done.stderr
    assert "skipping installed plugin 'outsider' (outsider): half installed" in done.stderr
