"""Encode the observation of one step: images, parts of the state, the instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clframe.data.observations import TASK, ObservationLayout
from clframe.models.libero.augment import Augment


class Parts(NamedTuple):
    """The parts of a batch of sequences: ``[n, vector]``, and lists of ``[n, steps, ...]``."""

    condition: Tensor
    states: list[Tensor]
    seen: list[Tensor]


class States(nn.Module):
    """The parts of the robot's state in a batch of sequences, with some noise in training.

    The last digits of the robot's pose identify each of a few demonstrations; noise hides them.

    Args:
        layout: The layout of the sequences.
        noise: Deviation of the noise, in units of the normalized state.
    """

    def __init__(self, layout: ObservationLayout, noise: float) -> None:
        super().__init__()
        self.layout, self.noise = layout, noise

    def forward(self, x: dict[str, Tensor]) -> list[Tensor]:
        """Return ``[n, steps, numbers]`` of each part."""
        states = [x[name] for name in self.layout.states]
        if not self.training or self.noise == 0:
            return states
        return [state + self.noise * torch.randn_like(state) for state in states]


class Reader(nn.Module):
    """Splits a batch of sequences into parts and encodes its images.

    Args:
        states: Reads the robot's state.
        image_encoder: Encodes images.
        augment: Augments images in training.
    """

    def __init__(self, states: States, image_encoder: nn.Module, augment: Augment) -> None:
        super().__init__()
        self.layout, self.states = states.layout, states
        self.image_encoder, self.augment = image_encoder, augment

    def forward(self, x: dict[str, Tensor]) -> Parts:
        """Return the parts of a batch."""
        images = [x[name].to(torch.float32) / 255.0 for name in self.layout.images]
        n, steps = images[0].shape[:2]
        condition = x[TASK] if self.layout.task else images[0].new_ones(n, 1)
        images = self.augment(images)
        encoded = self.image_encoder(
            [image.flatten(0, 1) for image in images],
            condition.repeat_interleave(steps, 0),
        )
        return Parts(
            condition, self.states(x), [features.unflatten(0, (n, steps)) for features in encoded]
        )


class ConcatEncoder(nn.Module):
    """Encodes a step as one vector: images, the unchanged state, and the instruction.

    Args:
        reader: Splits batches into parts.
        n_condition: Length of the instruction's vector.
        text: Numbers that represent the instruction.
    """

    def __init__(self, reader: nn.Module, n_condition: int, text: int) -> None:
        super().__init__()
        self.reader = reader
        self.text = nn.Linear(n_condition, text)

    def forward(self, x: Any) -> Tensor:
        """Return ``[n, steps, numbers]``."""
        condition, states, images = self.reader(x)
        steps = images[0].shape[1]
        text = self.text(condition)[:, None].expand(-1, steps, -1)
        return torch.cat([*images, *states, text], 2)


class TokenEncoder(nn.Module):
    """Encodes a step as tokens: the instruction, then the parts of the state, then images.

    Args:
        reader: Splits batches into parts.
        n_condition: Length of the instruction's vector.
        states: Sizes of the parts of the state.
        width: Width of a token.
    """

    def __init__(
        self, reader: nn.Module, n_condition: int, states: Sequence[int], width: int
    ) -> None:
        super().__init__()
        self.reader = reader
        self.text = nn.Linear(n_condition, width)
        self.states = nn.ModuleList(nn.Linear(size, width) for size in states)

    def forward(self, x: Any) -> Tensor:
        """Return ``[n, steps, tokens, width]``."""
        condition, states, images = self.reader(x)
        text = self.text(condition)[:, None].expand_as(images[0])
        parts = [layer(part) for layer, part in zip(self.states, states, strict=True)]
        return torch.stack([text, *parts, *images], 2)
