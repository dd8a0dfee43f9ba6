"""The transformer of LIBERO's policies, over the tokens of an image or of several steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

_DROPOUT = 0.1


class Attention(nn.Module):
    """Self-attention of several heads whose size does not follow from the tokens' width.

    Args:
        width: Of a token.
        heads: How many.
        head_size: Numbers of a query, key or value.
    """

    def __init__(self, width: int, heads: int, head_size: int) -> None:
        super().__init__()
        self.shape = (3, heads, head_size)
        self.qkv = nn.Linear(width, 3 * heads * head_size, bias=False)
        self.output = nn.Linear(heads * head_size, width)
        self.dropout = nn.Dropout(_DROPOUT)

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """``[n, tokens, width]``; where the mask is false a token (row) does not see another."""
        query, key, value = self.qkv(tokens).unflatten(-1, self.shape).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, mask)
        mixed: Tensor = self.dropout(self.output(seen.transpose(1, 2).flatten(2)))
        return mixed


class Layer(nn.Module):
    """Attention and a perceptron, each with a norm before it and added to what came in.

    In training the perceptron is left out for some samples (stochastic depth), as in LIBERO.
    """

    def __init__(self, width: int, heads: int, head_size: int, hidden: int) -> None:
        super().__init__()
        from torchvision.ops import StochasticDepth

        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, head_size)
        self.perceptron_norm = nn.LayerNorm(width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, hidden),
            nn.GELU(),
            nn.Dropout(_DROPOUT),
            nn.Linear(hidden, width),
            nn.Dropout(_DROPOUT),
        )
        self.skip = StochasticDepth(_DROPOUT, "row")

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """The tokens after this layer."""
        tokens = tokens + self.attention(self.attention_norm(tokens), mask)
        done: Tensor = tokens + self.skip(self.perceptron(self.perceptron_norm(tokens)))
        return done


class Transformer(nn.Module):
    """Layers in a row.

    Args:
        width: Of a token.
        layers: How many.
        heads: Of each layer.
        head_size: Numbers of a query, key or value.
        hidden: Width of the perceptrons.
    """

    def __init__(self, width: int, layers: int, heads: int, head_size: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, head_size, hidden) for _ in range(layers))

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """``[n, tokens, width]`` to the same shape."""
        for layer in self.layers:
            tokens = layer(tokens, mask)
        return tokens


def time_code(steps: int, width: int, like: Tensor) -> Tensor:
    """Sines and cosines of the step's number, ``[steps, width]``, with base 10 as in LIBERO.

    Ten steps are a window, so the base of 10000 that texts use would leave most numbers constant.
    """
    exponents = torch.arange(0, width, 2, device=like.device, dtype=like.dtype) / width
    angles = torch.arange(steps, device=like.device, dtype=like.dtype)[:, None] * 10.0**-exponents
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :width]


def block_causal(steps: int, each: int, device: torch.device) -> Tensor:
    """Which token (row) sees which, where each step has so many.

    >>> block_causal(2, 2, torch.device("cpu")).int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]
    """
    step = torch.arange(steps, device=device).repeat_interleave(each)
    return step[:, None] >= step[None]
