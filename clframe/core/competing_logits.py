"""The logits that compete, without the others: what a loss of one's own is given.

In a step's outputs those that do not compete hold the lowest number of their type, for which a
cross-entropy is exactly what it is without them. Other losses of logits (label smoothing, focal
loss, squared errors) would count them, so they get the competing ones alone.
"""

from __future__ import annotations

import torch
from torch import Tensor


class ActiveLogits:
    """Picks the competing outputs of each sample and renumbers its label among them.

    Args:
        units: For each task in order, or for all in one row, which outputs compete.
    """

    def __init__(self, units: Tensor) -> None:
        self._counts = units.sum(1)
        self._places = units.cumsum(1) - 1
        # The competing outputs first, in their order.
        self._order = (~units).to(torch.int8).sort(dim=1, stable=True).indices
        self._widths = sorted(set(self._counts.tolist()))

    def groups(
        self, outputs: Tensor, labels: Tensor, task: Tensor
    ) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        """Logits and labels of samples with equally many competing outputs, and which they are.

        There is one group, of all samples, unless tasks differ in their number of outputs.
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
