"""Every method that is registered, in a size for the toy stream."""

from __future__ import annotations

from typing import Any

from clframe.core.plugin import Plugin
from clframe.core.registry import discover
from clframe.strategies import DEFAULT_PLUGINS

REGISTRY = discover()
MEASURES = tuple(
    name
    for name, plugin in REGISTRY.plugin_classes().items()
    if plugin.capabilities.evaluator and name not in DEFAULT_PLUGINS
)
"""Evaluators that are chosen beside a method; tests/plugins/test_measures.py is about them."""
# The last one measures, too, and needs the folders of other runs.
NO_METHODS = (*DEFAULT_PLUGINS, *MEASURES, "continual_world")
METHODS = [name for name in REGISTRY.names("plugin") if name not in NO_METHODS]
# A plugin that is not named here takes its defaults.
SMALL: dict[str, dict[str, Any]] = {
    "replay": {"size": 20},
    "ewc": {"weight": 10.0},
    "generative_replay": {"hidden": [8], "latent": 4},
    "feedback_replay": {"hidden": [8], "latent": 4},
    "packnet": {"post_epochs": 1},
    "gdumb": {"size": 20, "epochs": 3},
    "podnet": {"per_class": 4, "proxies": 3, "finetune_epochs": 1},
    # Its own step is large for the toy stream, and its inner steps are many.
    "lamaml": {"size": 20, "parts": 2, "alpha": 0.01},
    "cbp": {"rate": 0.05, "maturity": 2},
    "mir": {"size": 20, "candidates": 12, "batch_size": 5},
    "gss": {"size": 20, "subset": 5},
    "scr": {"size": 20, "batch_size": 8, "projection": 8},
    "xder": {"size": 20},
    "bic": {"size": 30, "validation": 0.2, "bias_steps": 20},
    "wa": {"size": 20},
    "lucir": {"per_class": 3},
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
