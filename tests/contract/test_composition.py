"""Any two compatible plugins compose, train, are saved, loaded and go on with equal results."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clframe.core.plugin import Plugin, check_composition
from clframe.errors import PluginError
from clframe.testing import interrupted_run, toy_run, toy_stream
from clframe.utils.setting_checks import defaults
from tests.helpers import methods
from tests.helpers.methods import METHODS, REGISTRY, make

# Made once, since every worker asks for all pairs when it collects; nothing is trained with these.
MADE = {name: make(name) for name in METHODS}
STREAMS = {scenario: toy_stream(scenario) for scenario in ("task", "domain", "class")}  # type: ignore[arg-type]


def compatible(names: tuple[str, ...], scenario: str) -> bool:
    try:
        check_composition([MADE[name] for name in names], STREAMS[scenario])
    except PluginError:
        return False
    return True


PAIRS = [
    (pair, scenario)
    for pair in itertools.combinations(METHODS, 2)
    for scenario in STREAMS
    if compatible(pair, scenario)
]


def each_once() -> list[tuple[tuple[str, str], str]]:
    """Pairs, in scenarios that take turns, in which every method of clframe's own occurs.

    Those of clframe_contrib are each composed with replay in tests/contrib/test_public_only.py.
    """
    chosen: list[tuple[tuple[str, str], str]] = []
    turns = itertools.cycle(STREAMS)
    left = set(itertools.chain.from_iterable(pair for pair, _ in PAIRS))
    left -= {entry.name for entry in REGISTRY.entries("plugin") if entry.origin != "clframe"}
    while left:
        scenario = next(turns)
        pair, place = max(PAIRS, key=lambda one: (len(left & {*one[0]}), one[1] == scenario))
        chosen.append((pair if len(chosen) % 2 else pair[::-1], place))
        left -= {*pair}
    return chosen


@pytest.mark.parametrize(("names", "scenario"), each_once())
def test_every_method_composes_with_another_one(names: tuple[str, str], scenario: str) -> None:
    compose(names, scenario)


def test_what_tunes_after_an_experience_composes_with_si() -> None:
    """PODNet takes steps after SI has turned its path into importance."""
    compose(("si", "podnet"), "class")


@pytest.mark.slow
@given(st.sampled_from(PAIRS), st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_any_two_compatible_plugins_compose(
    chosen: tuple[tuple[str, str], str], swapped: bool
) -> None:
    pair, scenario = chosen
    compose(pair[::-1] if swapped else pair, scenario)


def compose(names: tuple[str, str], scenario: str) -> None:
    """Train with two methods, at once and in parts."""
    stream = toy_stream(scenario, samples=20)  # type: ignore[arg-type]
    plugins = [make(name) for name in names]
    # Measured on the way, without which the best checkpoint cannot be told.
    how = {"max_epochs": 1, "check_val_every_n_epoch": 1}
    whole, learner = toy_run(copy.deepcopy(plugins), stream, **how)
    assert whole.matrix.values.shape == (4, 3)
    for key, value in learner.state_dict().items():
        assert torch.isfinite(value.float()).all(), f"{names} leave {key} not finite"
    parts = interrupted_run(plugins, stream, **how)
    assert (whole.matrix.values == parts.matrix.values).all(), f"{names} in {scenario}"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_is(name: str) -> None:
    factory = REGISTRY.get("plugin", name).factory
    assert issubclass(factory, Plugin)  # type: ignore[arg-type]
    assert factory.summary().endswith(".")
    if name not in ("cumulative", "multitask", "freeze"):
        assert factory.paper, f"{name} names no paper"
    assert factory.scenarios


@pytest.mark.parametrize("name", METHODS)
def test_every_method_holds_its_settings_as_they_were_given(name: str) -> None:
    """A run keeps what its plugins hold, and is made from that when it is resumed or verified."""
    given = methods.SMALL.get(name, {})
    plugin = make(name)
    held = {key: getattr(plugin, key) for key in defaults(type(plugin))}
    assert {key: held[key] for key in given} == {
        key: type(held[key])(value) if isinstance(value, list | tuple) else value
        for key, value in given.items()
    }
    again = type(plugin)(**held)
    assert {key: getattr(again, key) for key in held} == held


def test_most_pairs_are_compatible() -> None:
    """Conflicts are the exception; a new one must be meant."""
    # What learns in one pass takes no steps in which another could act.
    stepping = [name for name in METHODS if name not in methods.ONE_PASS]
    possible = len(list(itertools.combinations(stepping, 2)))
    composing = {pair for pair, _ in PAIRS if set(pair) <= set(stepping)}
    assert len(composing) / possible > 0.75
