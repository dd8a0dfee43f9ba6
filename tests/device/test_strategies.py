"""Every strategy in every scenario runs on a virtual GPU as it does on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from clframe.build import Built
from clframe.strategies import known_strategies
from clframe.testing import prepare_toy, toy_stream
from tests.helpers import methods
from tests.helpers.device_runs import assert_same, killed_on_card, on_cpu
from tests.helpers.device_strategies import (
    ALLOWED,
    STRATEGIES,
    plugins_of,
    scenarios_of,
    steps_until_kill,
)

CASES = [(name, scenario) for name in STRATEGIES for scenario in scenarios_of(name)]


def diagonal() -> set[tuple[str, str]]:
    """Each strategy once, in scenarios that take turns."""
    chosen = set()
    for number, name in enumerate(STRATEGIES):
        scenarios = scenarios_of(name)
        chosen.add((name, scenarios[number % len(scenarios)]))
    return chosen


QUICK = diagonal()


def test_every_method_is_here() -> None:
    run = {plugin for name, _ in CASES for plugin in STRATEGIES[name]}
    assert set(methods.METHODS) <= run, "make a strategy of each method that is registered"
    left_out = {"continual_world", *methods.MEASURES}
    assert {name for name, _ in CASES} == set(known_strategies(methods.REGISTRY)) - left_out


def test_each_scenario_is_among_the_quick_cases() -> None:
    assert {scenario for _, scenario in QUICK} == {"task", "domain", "class"}
    assert {name for name, _ in QUICK} == set(STRATEGIES)


@pytest.mark.parametrize(
    ("strategy", "scenario"),
    [pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow) for case in CASES],
)
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

    cpu = on_cpu(prepare)
    # Killed in the middle of the second experience and resumed, or of the one that has steps.
    card = killed_on_card(prepare, tmp_path, steps=steps_until_kill(strategy))
    assert_same(card, cpu)
    assert not card.astray
    assert set(card.waits) <= ALLOWED.get(strategy, set())
