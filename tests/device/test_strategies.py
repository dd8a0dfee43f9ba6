"""Every strategy in every scenario runs on a virtual GPU as it does on the CPU."""

from __future__ import annotations

import runpy
from collections.abc import Sequence
from pathlib import Path

import pytest

from clframe.build import Built
from clframe.core.plugin import Plugin
from clframe.strategies import known_strategies
from clframe.testing import prepare_toy, toy_stream

RUNS = runpy.run_path(str(Path(__file__).with_name("lifetimes.py")))
METHODS = runpy.run_path(str(Path(__file__).parents[1] / "methods.py"))
REGISTRY = METHODS["REGISTRY"]
STRATEGIES = {
    name: strategy.plugins
    for name, strategy in known_strategies(REGISTRY).items()
    if name not in METHODS["NO_METHODS"]
}

ALLOWED = {
    "gem": {"gem.py:after_backward copy to the host"},  # its quadratic program is solved there
}
"""Places at which a strategy may wait for the GPU in every step, each with the reason."""
KEPT_ON_HOST: dict[str, set[str]] = {}
"""State that a strategy keeps in main memory on purpose."""


def plugins_of(strategy: str) -> list[Plugin]:
    small = METHODS["SMALL"]
    return [
        REGISTRY.build("plugin", name, {**settings, **small.get(name, {})})
        for name, settings in STRATEGIES[strategy].items()
    ]


def scenarios_of(strategy: str) -> Sequence[str]:
    plugins = plugins_of(strategy)
    return [s for s in ("task", "domain", "class") if all(s in p.scenarios for p in plugins)]


CASES = [(name, scenario) for name in STRATEGIES for scenario in scenarios_of(name)]


def test_every_method_is_here() -> None:
    run = {plugin for name, _ in CASES for plugin in STRATEGIES[name]}
    assert set(METHODS["METHODS"]) <= run, "make a strategy of each method that is registered"
    left_out = {"continual_world", *METHODS["MEASURES"]}
    assert {name for name, _ in CASES} == set(known_strategies(REGISTRY)) - left_out


def steps_until_kill(strategy: str) -> int:
    """Into the second experience, or into the first where later ones have no steps."""
    return 2 if strategy in METHODS["ONE_PASS"] else 5


@pytest.mark.parametrize(("strategy", "scenario"), CASES)
def test_lifetime(strategy: str, scenario: str, tmp_path: Path) -> None:
    def prepare(accelerator: str) -> Built:
        stream = toy_stream(scenario, n_experiences=3, samples=6)  # type: ignore[arg-type]
        every = 1 if strategy == "best_checkpoint" else None
        return prepare_toy(
            plugins_of(strategy),
            stream,
            accelerator=accelerator,
            max_epochs=1,
            batch_size=4,
            check_val_every_n_epoch=every,
        )

    cpu = RUNS["on_cpu"](prepare)
    # Killed in the middle of the second experience and resumed, or of the one that has steps.
    card = RUNS["killed_on_card"](prepare, tmp_path, steps=steps_until_kill(strategy))
    RUNS["assert_same"](card, cpu)
    assert not card.astray
    assert set(card.waits) <= ALLOWED.get(strategy, set())
