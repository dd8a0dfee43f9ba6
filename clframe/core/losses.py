"""Distillation loss, and selection of the competing logits for custom losses."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def distillation_loss(
    outputs: Tensor, target_probabilities: Tensor, temperature: float = 2.0
) -> Tensor:
    """Return the cross-entropy with a teacher's softened probabilities (Hinton et al., 2015).

    ``T^2 * mean over samples of -sum_c p_c log softmax(outputs / T)_c``. The factor ``T^2`` keeps
    the scale of the gradient independent of the temperature.

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
    """Return a teacher's probabilities ``softmax(logits / T)``; masked outputs get exactly 0.

    >>> soft_targets(torch.tensor([[0.0, torch.finfo().min]]))
    tensor([[1., 0.]])
    """
    return torch.softmax(logits / temperature, dim=-1)


class ActiveLogits:
    """Selects the competing outputs of each sample and renumbers its label among them.

    Masked outputs hold the lowest number of their type. This makes no difference to cross-entropy,
    but other losses of logits (label smoothing, focal loss, squared error) would count them. These
    losses therefore get the competing logits only.

    Args:
        units: Which outputs compete, for each task in order or in one row for all tasks.
    """

    def __init__(self, units: Tensor) -> None:
        self._counts = units.sum(1)
        self._places = units.cumsum(1) - 1
        # Competing outputs come first, in their order.
        self._order = (~units).to(torch.int8).sort(dim=1, stable=True).indices
        self._widths = sorted(set(self._counts.tolist()))

    def groups(
        self, outputs: Tensor, labels: Tensor, task: Tensor
    ) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        """Yield logits, labels and rows of samples with the same number of competing outputs.

        There is a single group of all samples unless tasks differ in their number of outputs.
        """
        if len(self._counts) == 1:
            columns = self._order[0, : self._widths[0]]
            return [(outputs[:, columns], self._places[0][labels], None)]
        if len(self._widths) == 1:
            return [(*self._pick(outputs, labels, task, self._widths[0]), None)]
        of_sample = self._counts[task]
        found = []
        for width in self._widths:
            rows = (of_sample == width).nonzero().flatten()
            if len(rows):
                picked = self._pick(outputs[rows], labels[rows], task[rows], width)
                found.append((*picked, rows))
        return found

    def _pick(
        self, outputs: Tensor, labels: Tensor, task: Tensor, width: int
    ) -> tuple[Tensor, Tensor]:
        logits = outputs.gather(1, self._order[task, :width])
        return logits, self._places[task].gather(1, labels[:, None]).squeeze(1)
