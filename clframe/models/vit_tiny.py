"""A small vision transformer: timm's, in a size that is trained and tuned on one CPU core."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.classifier import Classifier
from clframe.models.weights import put_weights
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from torch import nn

    from clframe.core.registry import Registry

FASHION = "fashion"
"""Names the weights that are shipped."""
WEIGHTS = Path(__file__).parent / "data" / "vit_tiny_fashion.safetensors"
"""Learned on Fashion-MNIST (MIT licence) by ``scripts/train_small_vit.py``."""


def make_vit(
    input_shape: tuple[int, ...],
    patch: int = 7,
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
    mlp_ratio: float = 2.0,
) -> nn.Module:
    """Timm's ``VisionTransformer`` without a head, for images of this shape."""
    from timm.models.vision_transformer import VisionTransformer

    for name, value in (("patch", patch), ("width", width), ("depth", depth), ("heads", heads)):
        at_least(value, 1, f"model.{name}")
    if len(input_shape) != 3:
        raise SettingError(
            f"model 'vit_tiny' takes images (channels, height, width), got {input_shape}"
        )
    channels, height, across = input_shape
    if height % patch or across % patch:
        raise SettingError(
            f"model.patch={patch} does not divide images of {height} by {across} pixels"
        )
    if width % heads:
        raise SettingError(f"model.heads={heads} does not divide model.width={width}")
    body: nn.Module = VisionTransformer(
        img_size=(height, across),
        patch_size=patch,
        in_chans=channels,
        num_classes=0,
        embed_dim=width,
        depth=depth,
        num_heads=heads,
        mlp_ratio=mlp_ratio,
    )
    return body


def vit_tiny(
    input_shape: tuple[int, ...],
    n_outputs: int,
    weights: str | None = None,
    patch: int = 7,
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
    mlp_ratio: float = 2.0,
) -> Classifier:
    """A small vision transformer (139,000 weights), which can start from shipped weights.

    The architecture is timm's ``VisionTransformer`` (Dosovitskiy et al., 2021) with a class token;
    inputs are taken in 0..1 as they come.

    Args:
        input_shape: Channels, height and width.
        n_outputs: Output units.
        weights: ``fashion`` for those that are shipped (Fashion-MNIST; gray images of 28 pixels,
            all other settings as they are), or a file that ``scripts/train_small_vit.py`` made;
            None for random ones.
        patch: Side of a patch.
        width: Length of a token.
        depth: Blocks.
        heads: Of attention.
        mlp_ratio: Width of a block's hidden layer in widths of a token.
    """
    body: Any = make_vit(input_shape, patch, width, depth, heads, mlp_ratio)
    if weights is not None:
        put_weights(body, WEIGHTS if weights == FASHION else weights)
    return Classifier(body, width, n_outputs)


@hookimpl
def register(registry: Registry) -> None:
    """Add the model."""
    registry.add("model", "vit_tiny", vit_tiny)
