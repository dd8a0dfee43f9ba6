"""Experiments on permuted and rotated MNIST: what their papers' programs have for each stream."""

from __future__ import annotations

from typing import Any

import pytest

from clframe.config.compose import compose
from clframe.errors import SettingError

DER: dict[tuple[str, str], tuple[float, dict[str, Any]]] = {
    ("si", "permuted"): (0.1, {"si": {"c": 0.5, "damping": 1.0}}),
    ("si", "rotated"): (0.1, {"si": {"c": 1.0, "damping": 1.0}}),
    ("gem", "permuted"): (0.1, {"gem": {"per_task": 10, "margin": 0.5}}),
    ("gem", "rotated"): (0.01, {"gem": {"per_task": 10, "margin": 0.5}}),
    ("derpp", "permuted"): (0.1, {"derpp": {"alpha": 1.0, "beta": 1.0, "size": 200}}),
    ("derpp", "rotated"): (0.1, {"derpp": {"alpha": 1.0, "beta": 0.5, "size": 200}}),
}


@pytest.mark.parametrize(("method", "stream"), DER)
def test_a_stream_has_the_settings_that_were_found_for_it(method: str, stream: str) -> None:
    config: Any = compose([f"experiment=der_mnist/{method}", f"stream={stream}_mnist"])
    rate, plugins = DER[method, stream]
    assert config.optimizer["lr"] == rate
    assert config.optimizer["name"] == "sgd"
    for plugin, settings in plugins.items():
        assert config.strategy[plugin].items() >= settings.items()
    assert config.scenario == "domain"
    assert config.stream["n_experiences"] == 20
    if stream == "rotated":
        assert (config.stream["angles"], config.stream["interpolation"]) == ("drawn", "nearest")
        assert "first_identity" not in config.stream
    else:
        assert config.stream["first_identity"] is False


def test_a_stream_must_be_one_of_the_experiments() -> None:
    with pytest.raises(
        SettingError,
        match="is for stream=permuted_mnist or stream=rotated_mnist, not for stream=split_mnist",
    ):
        compose(["experiment=gem_mnist/gem", "stream=split_mnist"])


def test_the_command_line_goes_before_what_a_stream_has() -> None:
    config: Any = compose(["experiment=der_mnist/gem", "stream=rotated_mnist", "optimizer.lr=0.3"])
    assert config.optimizer["lr"] == 0.3


@pytest.mark.parametrize(
    ("method", "scenario", "plugin", "settings"),
    [
        ("ewc", "task", "ewc", {"weight": 500.0, "fisher": "predicted"}),
        ("ewc", "class", "ewc", {"weight": 1.0, "fisher": "predicted"}),
        ("online_ewc", "domain", "ewc", {"weight": 1000.0, "gamma": 0.9, "online": True}),
        ("si", "class", "si", {"c": 0.1, "damping": 0.1}),
        ("dgr", "task", "generative_replay", {"hidden": [1000, 1000], "lr": 1e-4}),
        ("xdg", "task", "xdg", {"gating": 0.55}),
    ],
)
def test_permuted_mnist_has_the_published_strengths(
    method: str, scenario: str, plugin: str, settings: dict[str, Any]
) -> None:
    config: Any = compose([f"experiment=permuted_mnist/{method}", f"scenario={scenario}"])
    assert config.strategy[plugin].items() >= settings.items()
    assert (config.stream["pad"], config.trainer["max_steps"]) == (2, 5000)
