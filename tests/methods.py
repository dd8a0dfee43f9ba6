"""Every method that is registered, in a size for the toy stream; loaded by tests with runpy."""

from __future__ import annotations

from typing import Any

from clframe.core.plugin import Plugin
from clframe.core.registry import discover
from clframe.strategies import DEFAULT_PLUGINS

REGISTRY = discover()
# Only measures, and needs the folders of other runs.
NO_METHODS = (*DEFAULT_PLUGINS, "continual_world")
METHODS = [name for name in REGISTRY.names("plugin") if name not in NO_METHODS]
# A plugin that is not named here takes its defaults.
SMALL: dict[str, dict[str, Any]] = {
    "replay": {"size": 20},
    "ewc": {"weight": 10.0},
    "generative_replay": {"hidden": [8], "latent": 4},
    "feedback_replay": {"hidden": [8], "latent": 4},
    "packnet": {"post_epochs": 1},
    "gdumb": {"size": 20, "epochs": 3},
    # With steps in the first experience, so that these can be killed in one.
    "ncm": {"adapt_first": True},
    "slda": {"adapt_first": True},
    "fecam": {"adapt_first": True},
    "ranpac": {"adapt_first": True, "projection": 12},
    "randumb": {"adapt_first": True, "embedding": 12},
    "lora": {"rank": 2},
    "adapter": {"hidden": 3, "scale": 1.0},
    "l2p": {"pool": 4, "length": 2, "top": 2},
    "dualprompt": {"general": (0,), "expert": (1,), "general_length": 2, "expert_length": 3},
    "coda_prompt": {"components": 2, "length": 4, "blocks": (0, 1)},
    "inflora": {"rank": 2},
    "aper": {"hidden": 3, "scale": 1.0},
    "slca": {"samples": 16, "epochs": 2},
}
ONE_PASS = ("ncm", "slda", "fecam", "ranpac", "randumb", "aper")
"""Take no steps after the first experience, and nothing beside them that acts in steps."""


def make(name: str) -> Plugin:
    """A small plugin of that name."""
    plugin: Plugin = REGISTRY.build("plugin", name, dict(SMALL.get(name, {})))
    return plugin
