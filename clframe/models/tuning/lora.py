"""Low-rank changes of linear layers (Hu et al., 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from clframe.core.protocols import head_of
from clframe.errors import SettingError
from clframe.models.tuning.inserts import Insert


class LoRA(Insert):
    """Adds ``alpha / rank * B A x`` to a linear layer's output; each slot has a pair A, B.

    B starts at zero, so that the network does not change initially.

    Args:
        linear: The layer.
        rank: The rank of the change.
        alpha: The strength of the change.
        dropout: Dropout of the inputs, in training.
        slots: Number of pairs.
        rows: The range of outputs to change, start and end; None for all.
    """

    def __init__(
        self,
        linear: nn.Linear,
        rank: int,
        alpha: float,
        dropout: float = 0.0,
        slots: int = 1,
        rows: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        start, end = rows or (0, linear.out_features)
        self.rank, self.scale = rank, alpha / rank
        self.rows = (start, end)
        self.padding = (start, linear.out_features - end)
        self.dropout = nn.Dropout(dropout)
        width = linear.in_features
        self.A = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(slots))
        self.B = nn.ModuleList(nn.Linear(rank, end - start, bias=False) for _ in range(slots))
        for slot in range(slots):
            self.reset(slot)

    def reset(self, slot: int = 0) -> None:
        """Reset a pair: A from Kaiming's distribution, B zero."""
        down: Tensor = self.A[slot].weight  # type: ignore[assignment]
        # Drawn on the host, so that runs on GPU and CPU start from the same numbers.
        drawn = torch.empty(down.shape, dtype=down.dtype)
        nn.init.kaiming_uniform_(drawn, a=math.sqrt(5))
        with torch.no_grad():
            down.copy_(drawn)
        nn.init.zeros_(self.B[slot].weight)  # type: ignore[arg-type]

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        """Return the low-rank part of the layer."""
        down = self.A[self.active](self.dropout(x))
        added: Tensor = self.scale * self.B[self.active](down)
        return functional.pad(added, self.padding) if any(self.padding) else added

    @torch.no_grad()
    def delta(self, slot: int = 0) -> Tensor:
        """Return the pair's change of the layer's weight, for the rows that it changes."""
        up, down = self.B[slot].weight, self.A[slot].weight
        return self.scale * (up @ down)  # type: ignore[operator]

    @torch.no_grad()
    def merge_into(self, linear: nn.Linear) -> None:
        """Add the change to the layer's own weight; the pair must be reset afterwards."""
        start, end = self.rows
        linear.weight[start:end] += self.delta(self.active)


def linears(model: nn.Module, targets: Sequence[str] | None, setting: str) -> dict[str, nn.Linear]:
    """Return linear layers outside the head, by name.

    Args:
        model: The model to search.
        targets: Endings of names (``qkv``, ``mlp.fc1``, ``blocks.0.attn.proj``); None for all.
        setting: The setting with the targets, for the message.

    Raises:
        SettingError: A target does not exist, or there is no linear layer.
    """
    head = head_of(model)
    of_head = set() if head is None else set(head.modules())
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and module not in of_head
        and not isinstance(module, NonDynamicallyQuantizableLinear)  # its forward is not called
    }
    if not layers:
        raise SettingError(
            f"{setting}: {type(model).__name__} has no linear layer outside its head"
        )
    if targets is None:
        return layers
    chosen: dict[str, nn.Linear] = {}
    for target in targets:
        ending = {n: m for n, m in layers.items() if n == target or n.endswith(f".{target}")}
        if not ending:
            suffixes = ", ".join(dict.fromkeys(".".join(n.split(".")[-2:]) for n in layers))
            raise SettingError(
                f"{setting}: no linear layer outside the head is called '{target}'; there are "
                f"{suffixes[:300]}"
            )
        chosen |= ending
    return {name: module for name, module in layers.items() if name in chosen}
