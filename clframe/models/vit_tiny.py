"""A small timm vision transformer, which trains on one CPU core."""

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
"""The name of the shipped weights."""
WEIGHTS = Path(__file__).parent / "data" / "vit_tiny_fashion.safetensors"
"""Trained on Fashion-MNIST (MIT licence) by ``scripts/train_small_vit.py``."""


def make_vit(
    input_shape: tuple[int, ...],
    patch: int = 7,
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
    mlp_ratio: float = 2.0,
) -> nn.Module:
    """Return timm's ``VisionTransformer`` without a head, for images of this shape."""
    from timm.models.vision_transformer import VisionTransformer

    for name, value in (("patch", patch), ("width", width), ("depth", depth), ("heads", heads)):
        at_least(value, 1, f"model.{name}")
    if len(input_shape) != 3:
        raise SettingError(
            f"model 'vit_tiny' needs images (channels, height, width), got {input_shape}"
        )
    channels, height, across = input_shape
    if height % patch or across % patch:
        raise SettingError(
            f"model.patch={patch} must divide the sides of images of {height} by {across} pixels"
        )
    if width % heads:
        raise SettingError(f"model.heads={heads} must divide model.width={width}")
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

    The architecture is timm's ``VisionTransformer`` (Dosovitskiy et al., 2021) with a class token.
    Inputs in 0..1 are not normalized.

    Args:
        input_shape: Channels, height and width.
        n_outputs: Output units.
        weights: ``fashion`` for the shipped weights (Fashion-MNIST; gray images of 28 pixels, with
            default settings), or a file from ``scripts/train_small_vit.py``; None for random
            weights.
        patch: Side of a patch in pixels.
        width: Length of a token.
        depth: Number of blocks.
        heads: Number of attention heads.
        mlp_ratio: Ratio of a block's hidden width to the width of a token.
    """
    body: Any = make_vit(input_shape, patch, width, depth, heads, mlp_ratio)
    if weights is not None:
        put_weights(body, WEIGHTS if weights == FASHION else weights)
    return Classifier(body, width, n_outputs)


@hookimpl
def register(registry: Registry) -> None:
    """Register the model."""
    registry.add("model", "vit_tiny", vit_tiny)
