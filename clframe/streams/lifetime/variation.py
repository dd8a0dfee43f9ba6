"""The same data under another task index and, for images, other conditions.

A lifetime shows a task under several parameter regimes without copying data: each variant is a
task index, and a transform looks up the variant's parameters.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from clframe.data.concat import JoinedData
from clframe.data.dataset import Data, Transform
from clframe.errors import SettingError, nearest

NEUTRAL: dict[str, float] = {"brightness": 1.0, "contrast": 1.0, "noise": 0.0}
"""The parameters of a regime and the values that change nothing."""

_NOISE_VALUES = 2**20


class Variation:
    """A transform that translates task indices and changes images by their task's parameters.

    Images are in 0..1. Contrast pulls them towards (below 1) or away from (above 1) their mean,
    brightness multiplies them, and noise adds Gaussian noise of that standard deviation; then they
    are clipped to 0..1. The noise of an image depends only on its content and the seed, so a sample
    looks the same in every batch.

    Args:
        inner: The base stream's transform, called with the original task index.
        original: The original task index of each new one.
        parameters: The parameters of each new task index.
        seed: The seed of the noise.
    """

    def __init__(
        self,
        inner: Transform,
        original: Sequence[int],
        parameters: Sequence[Mapping[str, float]],
        seed: int = 0,
    ) -> None:
        self.inner = inner
        self.seed = seed
        # An additional row for task -1 leaves samples without a task unchanged.
        self._original = torch.tensor([*original, -1])
        self._tables = {
            name: torch.tensor([p.get(name, neutral) for p in [*parameters, {}]])
            for name, neutral in NEUTRAL.items()
            if any(p.get(name, neutral) != neutral for p in parameters)
        }
        self._noise = torch.empty(0)

    def __call__(self, x: Any, task: Tensor) -> Any:
        """Return the inputs of a batch under the conditions of their tasks."""
        if self._original.device != task.device:
            self._original = self._original.to(task.device)
            self._tables = {name: table.to(task.device) for name, table in self._tables.items()}
        inputs = self.inner(x, self._original[task])
        if not self._tables:
            return inputs
        if isinstance(inputs, dict):
            return {
                key: self._change(value, x.get(key, value), task)
                if value.dim() == 4 and key != "depth"
                else value
                for key, value in inputs.items()
            }
        return self._change(inputs, x, task)

    def _change(self, image: Tensor, stored: Tensor, task: Tensor) -> Tensor:
        of_sample = {name: table[task].view(-1, 1, 1, 1) for name, table in self._tables.items()}
        if "contrast" in of_sample:
            # lerp is exact at weight 1, so unchanged images stay so to the last bit.
            image = torch.lerp(image.mean((1, 2, 3), keepdim=True), image, of_sample["contrast"])
        if "brightness" in of_sample:
            image = image * of_sample["brightness"]
        if "noise" in of_sample:
            image = image + of_sample["noise"] * self._noise_for(stored, image)
        return image.clamp(0.0, 1.0)

    def _noise_for(self, stored: Tensor, image: Tensor) -> Tensor:
        """Return standard normal noise: a window of one long random sequence, chosen by content."""
        size = image[0].numel()
        if self._noise.device != image.device or len(self._noise) < _NOISE_VALUES + size:
            generator = torch.Generator().manual_seed(self.seed)
            drawn = torch.randn(_NOISE_VALUES + size, generator=generator)
            self._noise = drawn.to(image.device)
        flat = stored.flatten(1)
        integers = (flat.float().view(torch.int32) if flat.is_floating_point() else flat).long()
        # Integers wrap around, so the sum is the same on every device and in every order.
        step = torch.arange(integers.shape[1], device=integers.device) * 0x9E3779B1 + 0x85EBCA6B
        start = (integers * step).sum(1).remainder(_NOISE_VALUES)
        window = start[:, None] + torch.arange(size, device=integers.device)
        return self._noise[window].view(image.shape)


def checked_parameters(given: Mapping[str, Any], where: str) -> dict[str, float]:
    """Return the parameters of a regime as numbers.

    Raises:
        SettingError: A parameter is unknown or is not a number from 0 up.
    """
    parameters = {}
    for name, value in given.items():
        if name not in NEUTRAL:
            raise SettingError(
                f"{where}: unknown regime parameter '{name}'; {nearest(str(name), NEUTRAL)}"
            )
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0:
            raise SettingError(f"{where}: {name} must be a number from 0 up, got {value!r}")
        parameters[name] = float(value)
    return parameters


class Variations:
    """Assigns data of an original stream to the tasks of a new one, sharing all inputs.

    Args:
        original: The original task index of each new one.
        parameters: The parameters of each new task index.
        seed: The seed of the noise.
    """

    def __init__(
        self, original: Sequence[int], parameters: Sequence[Mapping[str, float]], seed: int = 0
    ) -> None:
        self.original = list(original)
        self._parameters = list(parameters)
        self._seed = seed
        self._made: list[Variation] = []

    def give(self, data: Data, index: int) -> Data:
        """Return the samples of the original task as samples of the new task with this index."""
        mine = (data.tasks == self.original[index]).nonzero().squeeze(1)
        return self._rename(data if len(mine) == len(data) else data.subset(mine), index)

    def _rename(self, data: Data, index: int) -> Data:
        if isinstance(data, JoinedData):
            return JoinedData([self._rename(part, index) for part in data.parts])
        other = copy.copy(data)
        other.tasks = torch.full_like(data.tasks, index)
        other.transform = self._around(data.transform)
        return other

    def _around(self, inner: Transform) -> Variation:
        # One object per original transform: data with an equal transform can be joined.
        for variation in self._made:
            if variation.inner == inner:
                return variation
        self._made.append(Variation(inner, self.original, self._parameters, self._seed))
        return self._made[-1]
