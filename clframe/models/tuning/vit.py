"""A frozen timm vision transformer with prompts as tokens, or before keys and values.

The query of a sample is the network's output for its class token without prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.errors import PluginError


class Trace:
    """Values that a forward pass leaves for the plugin; copies of a model start empty."""

    def __init__(self) -> None:
        self.values: dict[str, Tensor] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Trace:
        return Trace()


class PromptedViT(nn.Module):
    """Replaces a timm ``VisionTransformer`` and freezes its weights.

    Args:
        vit: The network.
    """

    def __init__(self, vit: Any) -> None:
        super().__init__()
        self.vit = vit.eval()
        self.width: int = vit.embed_dim
        self.depth = len(vit.blocks)
        self.trace = Trace()

    def train(self, mode: bool = True) -> PromptedViT:
        """Set the mode of the prompts; the network itself stays in evaluation mode."""
        super().train(mode)
        self.vit.eval()
        return self

    def embed(self, x: Tensor) -> Tensor:
        """Return class token and patches with their positions, ``[n, tokens, width]``."""
        tokens = self.vit._pos_embed(self.vit.patch_embed(x))
        embedded: Tensor = self.vit.norm_pre(self.vit.patch_drop(tokens))
        return embedded

    @torch.no_grad()
    def query(self, tokens: Tensor) -> Tensor:
        """Return the output for the class token without prompts, ``[n, width]``."""
        query: Tensor = self.vit.norm(self.vit.blocks(tokens))[:, 0]
        return query

    def run(self, tokens: Tensor, prefixes: Mapping[int, tuple[Tensor, Tensor]]) -> Tensor:
        """Run all blocks, some of them with a prefix, then the norm.

        Args:
            tokens: The input tokens.
            prefixes: Additional keys and values by block number, each ``[n, length, width]``.
        """
        for number, block in enumerate(self.vit.blocks):
            prefix = prefixes.get(number)
            if prefix is None:
                tokens = block(tokens)
            else:
                attended = attend(block.attn, block.norm1(tokens), *prefix)
                tokens = tokens + block.drop_path1(block.ls1(attended))
                tokens = tokens + block.drop_path2(block.ls2(block.mlp(block.norm2(tokens))))
        normed: Tensor = self.vit.norm(tokens)
        return normed


def attend(attention: Any, x: Tensor, key_prefix: Tensor, value_prefix: Tensor) -> Tensor:
    """Run timm's attention with additional keys and values before its own (prefix tuning).

    Args:
        attention: The attention module.
        x: Its input ``[n, tokens, width]``.
        key_prefix: ``[n, length, width]``, split into heads like the layer's own keys.
        value_prefix: The same for values.
    """
    n, length, _ = x.shape
    heads = attention.num_heads
    query, key, value = attention.qkv(x).view(n, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    query, key = attention.q_norm(query), attention.k_norm(key)
    key = torch.cat([key_prefix.unflatten(-1, (heads, -1)).transpose(1, 2), key], 2)
    value = torch.cat([value_prefix.unflatten(-1, (heads, -1)).transpose(1, 2), value], 2)
    attended = functional.scaled_dot_product_attention(query, key, value, scale=attention.scale)
    mixed = attended.transpose(1, 2).reshape(n, length, -1)
    if (norm := getattr(attention, "norm", None)) is not None:  # only in newer versions of timm
        mixed = norm(mixed)
    out: Tensor = attention.proj_drop(attention.proj(mixed))
    return out


def find_vit(model: nn.Module, who: str) -> tuple[nn.Module, str, Any]:
    """Return the parent of a timm ``VisionTransformer``, its name there, and itself.

    Raises:
        PluginError: The model has none, or one with other blocks.
    """
    from timm.layers.attention import Attention
    from timm.models.vision_transformer import Block, VisionTransformer

    for name, module in model.named_modules():
        if isinstance(module, VisionTransformer):
            if module.cls_token is None:
                raise PluginError(
                    f"plugin '{who}' needs a vision transformer with a class token, which this "
                    "one does not have; choose another, such as vit_base_patch16_224"
                )
            for block in module.blocks:
                plain = type(block) is Block and type(block.attn) is Attention
                if not plain or getattr(block.attn, "gate", None) is not None:
                    raise PluginError(
                        f"plugin '{who}' needs plain blocks of attention and perceptron for its "
                        f"prompts, but this network has {type(block).__name__} with "
                        f"{type(block.attn).__name__}"
                    )
            parent, _, child = name.rpartition(".")
            return model.get_submodule(parent), child, module
    raise PluginError(
        f"plugin '{who}' needs a timm vision transformer for its prompts, but the model is "
        f"{type(model).__name__}; choose model=vit_tiny or "
        "model=timm model.backbone=vit_base_patch16_224"
    )
