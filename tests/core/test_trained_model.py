"""The trained model: from the result of a run, and from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import clframe
from clframe import Learner, Plugin, hookimpl

SETTINGS: dict[str, Any] = {
    "max_steps": 4,
    "progress": False,
    "logger": None,
    "checkpoint": {"keep": 100, "max_cost": 1.0},
}
X = torch.linspace(0, 1, 3 * 784).reshape(3, 1, 28, 28)


class Copies(Plugin):
    """Keeps what the model says after each experience."""

    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []

    @hookimpl
    def after_experience(self, learner: Learner) -> None:
        learner.eval()
        with torch.no_grad():
            self.kept.append(learner.model(X))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, clframe.Result]:
    run = tmp_path_factory.mktemp("runs") / "run"
    return run, clframe.fit("split_mnist", "naive", run_dir=run, **SETTINGS)


def test_the_model_of_a_result_and_of_its_folder(trained: tuple[Path, clframe.Result]) -> None:
    run, result = trained
    assert result.model is not None
    loaded = clframe.load(run)
    assert not loaded.training
    with torch.no_grad():
        assert torch.equal(loaded(X), result.model.eval()(X))
    assert "model" not in result.to_json()
    assert "Linear" not in repr(result)


def test_the_model_after_an_experience(tmp_path: Path) -> None:
    copies = Copies()
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    clframe.fit("split_mnist", [copies], model, run_dir=tmp_path / "run", **SETTINGS)
    for learned, after in ((1, 1), (3, "exp2"), (5, None)):
        fresh = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
        loaded = clframe.load(tmp_path / "run", after, model=fresh)
        assert loaded is fresh
        with torch.no_grad():
            assert torch.equal(loaded(X), copies.kept[learned - 1])
    with pytest.raises(clframe.ClframeError, match="after 7 experiences"):
        clframe.load(tmp_path / "run", 7, model=model)
    with pytest.raises(clframe.ClframeError, match="did you mean 'exp2'"):
        clframe.load(tmp_path / "run", "exp22", model=model)
    with pytest.raises(clframe.ClframeError, match="with a model of its own"):
        clframe.load(tmp_path / "run")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(clframe.ClframeError, match="is not a run folder"):
        clframe.load(tmp_path)
