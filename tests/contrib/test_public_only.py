"""The contributed methods stand for what an outsider can write: public names only."""

from __future__ import annotations

import ast
from pathlib import Path

import clframe_contrib  # type: ignore[import-not-found]
import pytest

import clframe
from clframe.testing import interrupted_run, toy_run, toy_stream
from tests.helpers.methods import REGISTRY, make

FILES = sorted(Path(clframe_contrib.__file__).parent.glob("*.py"))
PUBLIC_MODULES = {
    "clframe.core.protocols",
    "clframe.data.augment",
    "clframe.data.buffer",
    "clframe.data.class_buffer",
    "clframe.models.tuning",
    "clframe.models.tuning.adapter",
    "clframe.models.tuning.frozen",
    "clframe.models.tuning.inserts",
    "clframe.models.tuning.lora",
    "clframe.models.tuning.slots",
    "clframe.models.tuning.vit",
    "clframe.utils.setting_checks",
    "clframe.testing",
}
METHODS = [entry for entry in REGISTRY.entries("plugin") if entry.origin == "clframe_contrib"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_only_public_names_are_imported(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            assert not any(name.name.startswith("clframe.") for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            if node.module == "clframe":
                assert {name.name for name in node.names} <= set(clframe.__all__)
            elif (node.module or "").startswith("clframe."):
                assert node.module in PUBLIC_MODULES


def test_all_methods_are_found() -> None:
    assert [entry.name for entry in METHODS] == [
        "adapter", "agem", "aper", "bic", "cbp", "coda_prompt", "cwr_star", "der", "derpp",
        "dualprompt", "er_ace", "fecam", "gdumb", "gem", "gss", "hat", "icarl", "inflora", "l2p",
        "lamaml", "lora", "lucir", "mir", "ncm", "pnn", "podnet", "randumb", "ranpac", "rwalk",
        "scr", "shrink_perturb", "slca", "slda", "wa", "xder",
    ]  # fmt: skip
    assert all(entry.factory.paper for entry in METHODS)


def stream_for(plugin: clframe.Plugin) -> clframe.Stream:
    """The toy stream with classes to come, or with tasks for a method that has to know them."""
    return toy_stream("class" if "class" in plugin.scenarios else "task")


@pytest.mark.parametrize("name", [entry.name for entry in METHODS])
def test_half_precision_and_curves(name: str) -> None:
    plugin = make(name)
    result, _ = toy_run(
        [plugin], stream_for(plugin), precision="bf16-mixed", check_val_every_n_epoch=1
    )
    # Evaluated before training and after each epoch; GDumb has a number of epochs of its own.
    epochs = getattr(plugin, "epochs", 2) if plugin.capabilities.training_steps else 0
    assert len(result.curves["exp2"]["task2"]) == 1 + epochs


@pytest.mark.parametrize("name", [e.name for e in METHODS if e.name != "gdumb"])
def test_composition_with_replay_survives_interruption(name: str) -> None:
    def plugins() -> list[clframe.Plugin]:
        # Methods without steps leave replay nothing to do.
        method = make(name)
        return [make("replay"), method] if method.capabilities.training_steps else [method]

    stream = stream_for(plugins()[-1])
    whole, _ = toy_run(plugins(), stream)
    parts = interrupted_run(plugins(), stream)
    assert (whole.matrix.values == parts.matrix.values).all()
