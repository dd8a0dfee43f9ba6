"""Modules that hang at the modules of a network and change what these give.

Each is a child of the module it changes and is found there by a forward hook, so that copies of a
network (teachers) have inserts of their own, and the network keeps the names of its weights.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn

_CHILD = "insert"


class Insert(nn.Module):
    """What is added to the output of a module, from its input and its output."""

    def __init__(self) -> None:
        super().__init__()
        self.enabled = True
        self.active = 0
        """Which of its sets of weights is used."""

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        """What is added to the output."""
        raise NotImplementedError


def put(module: nn.Module, insert: Insert) -> None:
    """Hang an insert at a module."""
    module.add_module(_CHILD, insert)
    module.register_forward_hook(_apply)


def _apply(module: Any, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
    insert = module.insert
    if not insert.enabled:
        return None
    changed: Tensor = output + insert.change(inputs[0], output)
    return changed


def inserts_of(model: nn.Module) -> dict[str, Insert]:
    """All inserts of a model, by the name of the module at which each hangs."""
    return {
        name.removesuffix(f".{_CHILD}"): module
        for name, module in model.named_modules()
        if isinstance(module, Insert)
    }


def activate(model: nn.Module, slot: int) -> None:
    """Let all inserts use this one of their sets of weights."""
    for insert in inserts_of(model).values():
        insert.active = slot


@contextlib.contextmanager
def without_inserts(model: nn.Module) -> Iterator[None]:
    """The network as it was before anything was put into it."""
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
    """A transformer block: where its attention and its perceptron are, and its tokens' width."""

    name: str
    attention: nn.Module
    perceptron: nn.Module
    width: int


def blocks_of(model: nn.Module) -> list[Block]:
    """The transformer blocks of timm's networks and of clframe's policies."""
    found = []
    for name, module in model.named_modules():
        for first, second in (("attn", "mlp"), ("attention", "perceptron")):
            attention, perceptron = getattr(module, first, None), getattr(module, second, None)
            if isinstance(attention, nn.Module) and isinstance(perceptron, nn.Module):
                linear = next((m for m in perceptron.modules() if isinstance(m, nn.Linear)), None)
                if linear is not None:
                    found.append(Block(name, attention, perceptron, linear.in_features))
    return found


def count(model: nn.Module) -> tuple[int, int]:
    """How many numbers are trained, and how many there are."""
    parameters = list(model.parameters())
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    return trained, sum(p.numel() for p in parameters)
