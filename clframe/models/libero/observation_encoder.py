"""How the observation of one step is encoded: images, parts of the state, the instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clframe.data.observations import TASK, ObservationLayout
from clframe.models.libero.augment import Augment


class Parts(NamedTuple):
    """What a batch of sequences is made of: ``[n, vector]``, and lists of ``[n, steps, ...]``."""

    condition: Tensor
    states: list[Tensor]
    seen: list[Tensor]


class States(nn.Module):
    """The parts of the robot's state in a batch of sequences, blurred a little in training.

    Few demonstrations can be told apart by the last digits of the robot's pose; noise hides these.

    Args:
        layout: Of the sequences.
        noise: Deviation of the noise, in units of the normalized state.
    """

    def __init__(self, layout: ObservationLayout, noise: float) -> None:
        super().__init__()
        self.layout, self.noise = layout, noise

    def forward(self, x: dict[str, Tensor]) -> list[Tensor]:
        """``[n, steps, numbers]`` of each part."""
        states = [x[name] for name in self.layout.states]
        if not self.training or self.noise == 0:
            return states
        return [state + self.noise * torch.randn_like(state) for state in states]


class Reader(nn.Module):
    """Takes a batch of sequences apart and looks at its images.

    Args:
        states: Reads the robot's state.
        image_encoder: Looks at images.
        augment: Changes them in training.
    """

    def __init__(self, states: States, image_encoder: nn.Module, augment: Augment) -> None:
        super().__init__()
        self.layout, self.states = states.layout, states
        self.image_encoder, self.augment = image_encoder, augment

    def forward(self, x: dict[str, Tensor]) -> Parts:
        """The parts of a batch."""
        images = [x[name].to(torch.float32) / 255.0 for name in self.layout.images]
        n, steps = images[0].shape[:2]
        condition = x[TASK] if self.layout.task else images[0].new_ones(n, 1)
        images = self.augment(images)
        seen = self.image_encoder(
            [image.flatten(0, 1) for image in images],
            condition.repeat_interleave(steps, 0),
        )
        return Parts(condition, self.states(x), [one.unflatten(0, (n, steps)) for one in seen])


class ConcatEncoder(nn.Module):
    """A step as one vector: what is seen, the state as it is, and the instruction.

    Args:
        reader: Takes batches apart.
        n_condition: Length of the instruction's vector.
        text: Numbers that stand for the instruction.
    """

    def __init__(self, reader: nn.Module, n_condition: int, text: int) -> None:
        super().__init__()
        self.reader = reader
        self.text = nn.Linear(n_condition, text)

    def forward(self, x: Any) -> Tensor:
        """``[n, steps, numbers]``."""
        condition, states, seen = self.reader(x)
        steps = seen[0].shape[1]
        text = self.text(condition)[:, None].expand(-1, steps, -1)
        return torch.cat([*seen, *states, text], 2)


class TokenEncoder(nn.Module):
    """A step as tokens: the instruction first, then the parts of the state, then what is seen.

    Args:
        reader: Takes batches apart.
        n_condition: Length of the instruction's vector.
        states: Sizes of the parts of the state.
        width: Of a token.
    """

    def __init__(
        self, reader: nn.Module, n_condition: int, states: Sequence[int], width: int
    ) -> None:
        super().__init__()
        self.reader = reader
        self.text = nn.Linear(n_condition, width)
        self.states = nn.ModuleList(nn.Linear(size, width) for size in states)

    def forward(self, x: Any) -> Tensor:
        """``[n, steps, tokens, width]``."""
        condition, states, seen = self.reader(x)
        text = self.text(condition)[:, None].expand_as(seen[0])
        parts = [layer(part) for layer, part in zip(self.states, states, strict=True)]
        return torch.stack([text, *parts, *seen], 2)
