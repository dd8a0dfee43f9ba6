"""The transformer of LIBERO's policies, over the tokens of an image or of several steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

_DROPOUT = 0.1


class Attention(nn.Module):
    """Multi-head self-attention whose head size is independent of the tokens' width.

    Args:
        width: Width of a token.
        heads: Number of heads.
        head_size: Numbers in a query, key or value.
    """

    def __init__(self, width: int, heads: int, head_size: int) -> None:
        super().__init__()
        self.shape = (3, heads, head_size)
        self.qkv = nn.Linear(width, 3 * heads * head_size, bias=False)
        self.output = nn.Linear(heads * head_size, width)
        self.dropout = nn.Dropout(_DROPOUT)

    def forward(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Attend over ``[n, tokens, width]``; a row of the mask marks the tokens it attends to."""
        query, key, value = self.qkv(tokens).unflatten(-1, self.shape).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, mask)
        mixed: Tensor = self.dropout(self.output(attended.transpose(1, 2).flatten(2)))
        return mixed


class Layer(nn.Module):
    """Attention and a perceptron, each with a norm before and a residual connection.

    In training, the perceptron is skipped for some samples (stochastic depth), as in LIBERO.
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
        """Return the tokens after this layer."""
        tokens = tokens + self.attention(self.attention_norm(tokens), mask)
        output: Tensor = tokens + self.skip(self.perceptron(self.perceptron_norm(tokens)))
        return output


class Transformer(nn.Module):
    """A stack of layers.

    Args:
        width: Width of a token.
        layers: Number of layers.
        heads: Heads per layer.
        head_size: Numbers in a query, key or value.
        hidden: Width of the perceptrons.
    """

    def __init__(self, width: int, layers: int, heads: int, head_size: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, head_size, hidden) for _ in range(layers))

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[n, tokens, width]`` to the same shape."""
        for layer in self.layers:
            tokens = layer(tokens, mask)
        return tokens


def time_code(steps: int, width: int, like: Tensor) -> Tensor:
    """Return sines and cosines of the step's number, ``[steps, width]``, base 10 as in LIBERO.

    A window has ten steps, so the usual base of 10000 for texts would leave most numbers constant.
    """
    exponents = torch.arange(0, width, 2, device=like.device, dtype=like.dtype) / width
    angles = torch.arange(steps, device=like.device, dtype=like.dtype)[:, None] * 10.0**-exponents
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :width]


def block_causal(steps: int, each: int, device: torch.device) -> Tensor:
    """Return which tokens each token (row) attends to, with ``each`` tokens per step.

    >>> block_causal(2, 2, torch.device("cpu")).int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]]
    """
    step = torch.arange(steps, device=device).repeat_interleave(each)
    return step[:, None] >= step[None]
