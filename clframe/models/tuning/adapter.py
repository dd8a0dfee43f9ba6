"""Bottleneck adapters of transformer blocks (Houlsby et al., 2019; Chen et al., 2022)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from torch import Tensor, nn
from torch.nn import functional

from clframe.errors import PluginError
from clframe.models.tuning.inserts import Block, Insert, blocks_of, put

Place: TypeAlias = Literal["parallel", "serial"]


class Adapter(Insert):
    """Adds ``scale * up(f(down(h)))`` to the output of a sublayer.

    ``up`` starts at zero, so that the network does not change initially.

    Args:
        width: Width of the tokens.
        hidden: Width of the bottleneck.
        scale: Scale of the added output.
        parallel: Whether h is the sublayer's input (and f ReLU), or its output (and f GELU).
        slots: Number of sets of weights.
    """

    def __init__(
        self, width: int, hidden: int, scale: float, parallel: bool, slots: int = 1
    ) -> None:
        super().__init__()
        self.scale, self.parallel = scale, parallel
        self.down = nn.ModuleList(nn.Linear(width, hidden) for _ in range(slots))
        self.up = nn.ModuleList(nn.Linear(hidden, width) for _ in range(slots))
        for layer in self.down:
            nn.init.kaiming_uniform_(layer.weight, a=5**0.5)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        for layer in self.up:
            nn.init.zeros_(layer.weight)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        """Return the adapter's output."""
        hidden = self.down[self.active](x if self.parallel else output)
        hidden = functional.relu(hidden) if self.parallel else functional.gelu(hidden)
        added: Tensor = self.scale * self.up[self.active](hidden)
        return added


def put_adapters(
    model: nn.Module, who: str, place: Place, hidden: int, scale: float, slots: int = 1
) -> None:
    """Put adapters into every transformer block of a model.

    Args:
        model: A model with transformer blocks.
        who: The plugin, for the message.
        place: ``parallel`` to each block's perceptron, or ``serial``: after its attention and after
            its perceptron.
        hidden: Width of the bottleneck.
        scale: Scale of the added output.
        slots: Number of sets of weights.

    Raises:
        PluginError: There is no transformer block.
    """
    blocks = blocks_of(model)
    if not blocks:
        raise PluginError(
            f"plugin '{who}' needs transformer blocks for its adapters, which "
            f"{type(model).__name__} does not have; choose model=vit_tiny, a ViT of timm's, "
            "resnet_t or vit_t, or strategy=lora"
        )
    for block in blocks:
        for module in _places(block, place):
            put(module, Adapter(block.width, hidden, scale, place == "parallel", slots))


def _places(block: Block, place: Place) -> tuple[nn.Module, ...]:
    return (block.perceptron,) if place == "parallel" else (block.attention, block.perceptron)
