"""Losses that several methods share."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def distillation_loss(
    outputs: Tensor, target_probabilities: Tensor, temperature: float = 2.0
) -> Tensor:
    """Cross-entropy with a teacher's softened probabilities (Hinton et al., 2015).

    ``T^2 * mean over samples of -sum_c p_c log softmax(outputs / T)_c``. The factor ``T^2`` keeps
    the gradient's size the same for every temperature.

    Args:
        outputs: The student's logits, one row per sample; outputs that do not compete hold the
            lowest number of their type.
        target_probabilities: The teacher's probabilities at the same temperature
            (:func:`soft_targets`); exactly 0 where the student's output does not compete.
        temperature: ``T``.

    >>> logits = torch.tensor([[0.0, 0.0]])
    >>> distillation_loss(logits, torch.tensor([[0.5, 0.5]]), temperature=1.0)
    tensor(0.6931)
    """
    scaled = outputs / temperature
    if temperature < 1:
        # A masked output would become minus infinity, and 0 * inf is not a number.
        scaled = scaled.clamp(min=torch.finfo(outputs.dtype).min)
    return functional.cross_entropy(scaled, target_probabilities) * temperature**2


def soft_targets(logits: Tensor, temperature: float = 2.0) -> Tensor:
    """A teacher's probabilities ``softmax(logits / T)``; masked outputs get exactly 0.

    >>> soft_targets(torch.tensor([[0.0, torch.finfo().min]]))
    tensor([[1., 0.]])
    """
    return torch.softmax(logits / temperature, dim=-1)
