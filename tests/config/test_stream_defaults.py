"""A stream may say what it is learned with; what a user says goes before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clframe.core.registry import Registry, discover
from clframe.strategies import compose
from clframe.testing import toy_stream


@pytest.fixture
def registry() -> Registry:
    found = discover()
    found.add("stream", "mine", toy_stream, plugins={"ewc": {"weight": 3.0, "fisher": "true"}})
    return found


def test_a_streams_defaults_take_the_place_of_the_plugins(registry: Registry) -> None:
    _, (ewc,) = compose("ewc", registry, "mine")
    assert (ewc.weight, ewc.fisher) == (3.0, "true")  # type: ignore[attr-defined]
    _, (other,) = compose("ewc", registry, "toy")
    assert other.weight != 3.0  # type: ignore[attr-defined]


def test_what_the_user_or_a_strategy_says_goes_before_them(registry: Registry) -> None:
    _, (ewc,) = compose({"ewc": {"weight": 8.0}}, registry, "mine")
    assert (ewc.weight, ewc.fisher) == (8.0, "true")  # type: ignore[attr-defined]
    _, (online,) = compose("online_ewc", registry, "mine")
    assert online.weight == compose("online_ewc", registry)[1][0].weight  # type: ignore[attr-defined]


def test_they_add_no_plugin(registry: Registry) -> None:
    assert compose("naive", registry, "mine")[1] == []


def test_openloris_streams_bring_a_network_and_a_strength(tmp_path: Path) -> None:
    registry = discover()
    for name in registry.names("stream"):
        if name.startswith("openloris_"):
            assert registry.model_for(name)["name"] == "cnn"
            (ewc,) = compose("ewc", registry, name)[1]
            assert ewc.fisher == "predicted"  # type: ignore[attr-defined]
