"""The experiments of the three scenarios: what is published for each."""

from __future__ import annotations

from typing import Any

import pytest

from clframe.config.compose import compose
from clframe.errors import SettingError

PUBLISHED: dict[str, dict[str, dict[str, Any]]] = {
    "ewc": {
        "task": {"weight": 1e7, "fisher": "predicted"},
        "domain": {"weight": 1e6, "fisher": "predicted"},
        "class": {"weight": 1e8, "fisher": "predicted"},
    },
    "online_ewc": {
        "task": {"weight": 1e8, "gamma": 0.8},
        "domain": {"weight": 1e8, "gamma": 0.7},
        "class": {"weight": 1e9, "gamma": 0.8},
    },
    "si": {
        "task": {"c": 50.0, "damping": 0.1},
        "domain": {"c": 500.0, "damping": 0.1},
        "class": {"c": 0.5, "damping": 0.1},
    },
    "ewc_2022": {
        "task": {"weight": 1e5, "fisher": "exact"},
        "domain": {"weight": 1e10, "fisher": "exact"},
        "class": {"weight": 1e9, "fisher": "exact"},
    },
    "si_2022": {
        "task": {"c": 10.0, "damping": 0.1},
        "domain": {"c": 50000.0, "damping": 0.1},
        "class": {"c": 5000.0, "damping": 0.1},
    },
    "lwf_2022": {name: {"reduction": "sum"} for name in ("task", "domain", "class")},
}


@pytest.mark.parametrize("method", PUBLISHED)
@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_a_scenario_has_the_strength_that_was_found_for_it(method: str, scenario: str) -> None:
    config = compose([f"experiment=three_scenarios/{method}", f"scenario={scenario}"])
    assert (config.scenario, config.strategy_name) == (scenario, method.removesuffix("_2022"))
    (plugin,) = config.strategy.values()  # type: ignore[union-attr]
    assert plugin.items() >= PUBLISHED[method][scenario].items()
    all_compete = method.endswith("_2022") and scenario == "class"
    assert config.active_outputs == ("all" if all_compete else "seen")
    assert config.trainer["max_steps"] == 2000  # type: ignore[index]


def test_the_command_line_goes_before_what_is_published() -> None:
    experiment = ["experiment=three_scenarios/ewc", "scenario=task"]
    assert compose([*experiment, "weight=3"]).strategy["ewc"]["weight"] == 3  # type: ignore
    assert compose([*experiment, "strategy=naive"]).strategy == {}
    both = compose([*experiment, "strategy=ewc+replay"])
    assert both.strategy["ewc"]["weight"] == 1e7  # type: ignore
    assert both.strategy_name == "ewc+replay"


def test_a_scenario_must_be_named_and_published() -> None:
    with pytest.raises(SettingError, match="'three_scenarios/er' needs a scenario: scenario=task"):
        compose(["experiment=three_scenarios/er"])
    with pytest.raises(SettingError, match="is for scenario=class, not for scenario=task"):
        compose(["experiment=three_scenarios/icarl", "scenario=task"])
    assert compose(["experiment=three_scenarios/icarl"]).scenario == "class"
    with pytest.raises(SettingError, match="is for scenario=task, not for scenario=class"):
        compose(["experiment=three_scenarios/xdg", "scenario=class"])
