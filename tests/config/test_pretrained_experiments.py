"""Experiments on a ViT-B with weights of the user: they compose, and their settings are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clframe.cli.main import main
from clframe.config.compose import compose

METHODS = ("l2p", "dualprompt", "coda_prompt", "inflora", "aper", "slca")


@pytest.mark.parametrize("method", METHODS)
def test_an_experiment_composes(method: str) -> None:
    config: Any = compose([f"experiment=pretrained/{method}"])
    assert list(config.strategy) == [method]
    assert config.model["backbone"] == "vit_base_patch16_224"
    assert config.model["size"] == 224
    assert config.stream["n_experiences"] == 10
    assert config.scenario == "class"
    assert config.trainer["reset_optimizer"] is True


def test_every_experiment_is_here() -> None:
    folder = Path(__file__).parents[2] / "configs" / "experiment" / "pretrained"
    assert {path.stem for path in folder.glob("[a-z]*.yaml")} == set(METHODS)


def test_a_missing_file_of_weights_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["stream=split_mnist", "model=vit_tiny", "model.weights=none.safetensors"]
    assert main(["fit", *words, "strategy=lora", "run_dir=false"]) == 2
    assert "model.weights: there is no file 'none.safetensors'" in capsys.readouterr().err


def test_strategies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "strategies"]) == 0
    listed = capsys.readouterr().out
    for name in (*METHODS, "lora", "lora_merged", "adapter"):
        assert f"{name} " in listed
