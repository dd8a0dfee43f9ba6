"""Every example and the notebook run, in small."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import clframe

EXAMPLES = Path(__file__).parents[2] / "examples"

SMALL: dict[str, dict[str, Any]] = {
    "own_data": {"max_epochs": 2},
    "own_plugin": {"max_epochs": 1},
    "own_model": {"max_epochs": 1},
    "own_policy": {"max_steps": 20, "eval_episodes": 2},
    "own_stream": {"max_epochs": 1, "samples": 100},
    "own_learner": {"max_epochs": 1},
    "own_logger": {"max_epochs": 1},
    "replay_and_ewc": {"max_epochs": 1, "out": "matrix.png"},
    "robot_imitation": {"max_steps": 20, "eval_episodes": 2},
    "robot_reward": {"steps": 60, "start_steps": 30, "eval_episodes": 2},
}


def test_all_examples_are_run_and_named() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    assert scripts == set(SMALL)
    page = (EXAMPLES / "README.md").read_text()
    for path in [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.ipynb")]:
        assert f"[{path.name}]({path.name})" in page


@pytest.mark.parametrize("name", SMALL)
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = importlib.import_module(f"examples.{name}").main(**SMALL[name])
    if name == "own_data":
        assert answer.metrics["gem"]["acc"] > 0.7
        assert "ant" in capsys.readouterr().out
    if name == "own_plugin":
        assert answer["drift+replay"] > answer["naive"]
    if name == "replay_and_ewc":
        assert (tmp_path / "matrix.png").stat().st_size > 10_000


def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cells in order, each ending with a value as a notebook shows it; no kernel is needed."""
    monkeypatch.chdir(tmp_path)
    content = json.loads((EXAMPLES / "tour.ipynb").read_text())
    assert content["nbformat"] == 4
    names: dict[str, Any] = {}
    for cell in content["cells"]:
        assert not cell.get("outputs"), "the notebook is committed without outputs"
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            exec(compile(source, f"tour.ipynb {cell['id']}", "exec"), names)
    assert names["replay"].metrics["gem"]["acc"] > names["naive"].metrics["gem"]["acc"]


def test_python_says_what_it_does_not_take() -> None:
    """What newcomers try: a data set as stream, seeds, a policy with the wrong outputs."""
    data = torch.utils.data.TensorDataset(torch.zeros(4, 2), torch.zeros(4).long())
    with pytest.raises(clframe.SettingError, match=r"clframe\.stream_from"):
        clframe.fit(data, "ewc")
    with pytest.raises(clframe.SettingError, match="fit_seeds"):
        clframe.fit("split_mnist", seeds=[0, 1])
    robot = {"name": "point_robot", "n_tasks": 1, "eval_episodes": 1, "num_workers": 0}
    short = {"max_steps": 1, "run_dir": False, "progress": False}
    with pytest.raises(clframe.SettingError, match=r"has 5 outputs, but an action .* has 2"):
        clframe.fit(robot, model=nn.LazyLinear(5), lr=0.01, **short)
