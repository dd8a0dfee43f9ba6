"""Every strategy in a size for the toy stream, and what it may do on a device."""

from __future__ import annotations

from collections.abc import Sequence

from clframe.core.plugin import Plugin
from clframe.strategies import known_strategies
from tests.helpers.methods import NO_METHODS, ONE_PASS, REGISTRY, SMALL

STRATEGIES = {
    name: strategy.plugins
    for name, strategy in known_strategies(REGISTRY).items()
    if name not in NO_METHODS
}

ALLOWED = {
    "gem": {"gem.py:after_backward copy to the host"},  # its quadratic program is solved there
}
"""Places at which a strategy may wait for the GPU in every step, each with the reason."""
KEPT_ON_HOST: dict[str, set[str]] = {}
"""State that a strategy keeps in main memory on purpose."""


def plugins_of(strategy: str) -> list[Plugin]:
    """Build the plugins of a strategy in a size for the toy stream."""
    return [
        REGISTRY.build("plugin", name, {**settings, **SMALL.get(name, {})})
        for name, settings in STRATEGIES[strategy].items()
    ]


def scenarios_of(strategy: str) -> Sequence[str]:
    """Return the scenarios in which a strategy works."""
    plugins = plugins_of(strategy)
    return [s for s in ("task", "domain", "class") if all(s in p.scenarios for p in plugins)]


def steps_until_kill(strategy: str) -> int:
    """Into the second experience, or into the first where later ones have no steps."""
    return 2 if strategy in ONE_PASS else 5
