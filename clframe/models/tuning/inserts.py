"""Modules that are attached to a network's modules and change their outputs.

Each is a child of the module it changes, and a forward hook calls it. Copies of a network
(teachers) therefore have their own inserts, and the network's weights keep their names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn

_CHILD = "insert"


class Insert(nn.Module):
    """A module whose output is added to the output of another module."""

    def __init__(self) -> None:
        super().__init__()
        self.enabled = True
        self.active = 0
        """The number of the set of weights to use."""

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        """Return what to add to the output."""
        raise NotImplementedError


def put(module: nn.Module, insert: Insert) -> None:
    """Attach an insert to a module."""
    module.add_module(_CHILD, insert)
    module.register_forward_hook(_apply)


def _apply(module: Any, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
    insert = module.insert
    if not insert.enabled:
        return None
    changed: Tensor = output + insert.change(inputs[0], output)
    return changed


def inserts_of(model: nn.Module) -> dict[str, Insert]:
    """Return all inserts of a model, by the name of the module to which each is attached."""
    return {
        name.removesuffix(f".{_CHILD}"): module
        for name, module in model.named_modules()
        if isinstance(module, Insert)
    }


def activate(model: nn.Module, slot: int) -> None:
    """Select the set of weights of all inserts."""
    for insert in inserts_of(model).values():
        insert.active = slot


@contextlib.contextmanager
def without_inserts(model: nn.Module) -> Iterator[None]:
    """Disable all inserts in this context."""
    inserts = inserts_of(model).values()
    before = [insert.enabled for insert in inserts]
    try:
        for insert in inserts:
            insert.enabled = False
        yield
    finally:
        for insert, enabled in zip(inserts, before, strict=True):
            insert.enabled = enabled


class Block(NamedTuple):
    """A transformer block: its attention, its perceptron, and its tokens' width."""

    name: str
    attention: nn.Module
    perceptron: nn.Module
    width: int


def blocks_of(model: nn.Module) -> list[Block]:
    """Return the transformer blocks of timm's networks and of clframe's policies."""
    blocks = []
    for name, module in model.named_modules():
        for first, second in (("attn", "mlp"), ("attention", "perceptron")):
            attention, perceptron = getattr(module, first, None), getattr(module, second, None)
            if isinstance(attention, nn.Module) and isinstance(perceptron, nn.Module):
                linear = next((m for m in perceptron.modules() if isinstance(m, nn.Linear)), None)
                if linear is not None:
                    blocks.append(Block(name, attention, perceptron, linear.in_features))
    return blocks


def count(model: nn.Module) -> tuple[int, int]:
    """Return the number of trainable parameters and of all parameters."""
    parameters = list(model.parameters())
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    return trained, sum(p.numel() for p in parameters)
