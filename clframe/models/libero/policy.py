"""A policy that reads sequences while it learns and remembers while it acts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from clframe.core.protocols import robot_stream
from clframe.models.actions.acting import Acting
from clframe.models.actions.decoder import ActionDecoder
from clframe.models.libero.frozen_reader import FeatureReader
from clframe.models.libero.observation_encoder import ConcatEncoder, TokenEncoder
from clframe.models.libero.temporal import Memory, TemporalEncoder

if TYPE_CHECKING:
    from clframe.core.stream import Stream


class Body(nn.Module):
    """Everything before the head: the encoder of single steps, then what goes over time.

    Args:
        encode: Sequences to encoded steps ``[n, steps, ...]``.
        temporal: Encoded steps to what is known at each, ``[n, steps, width]``.
    """

    def __init__(self, encode: ConcatEncoder | TokenEncoder, temporal: TemporalEncoder) -> None:
        super().__init__()
        self.encode, self.temporal = encode, temporal
        self.memory: Memory | None = None

    def forward(self, x: Any) -> Tensor:
        """What is known at each step; while acting, now, from this step and what is remembered."""
        encoded = self.encode(x)
        if self.memory is None:
            features: Tensor = self.temporal(encoded)
            return features
        return self.memory.step(encoded[:, -1])


class SequencePolicy(Acting):
    """Answers at every step of a sequence; acts step by step, remembering its episode.

    The loss is the mean over all steps of the window, each of which sees those before it, as in
    LIBERO. (LIBERO's own recurrent policy forgets its hidden state at every step of an evaluation,
    so that it acts on one observation; ours keeps it.)

    Args:
        features: Everything before the head.
        head: Gives the decoder's numbers.
        window: Steps of a sequence in training.
        decoder: Says what the head's outputs mean.
    """

    def __init__(
        self, features: Body, head: nn.Module, window: int, decoder: ActionDecoder
    ) -> None:
        super().__init__()
        self.features, self.head = features, head
        self.window = window
        self.decoder = decoder

    def forward(self, x: Any) -> Tensor:
        """What the decoder reads, ``[n, steps, numbers]``; while acting, ``[n, numbers]``."""
        outputs: Tensor = self.head(self.features(x))
        return outputs

    def prepare_stream(self, stream: Stream, device: torch.device) -> Stream:
        """The same stream, learned from sequences instead of single observations."""
        reader = self.features.encode.reader
        encode = reader.encode_frames if isinstance(reader, FeatureReader) else None
        return robot_stream(stream, "a policy of sequences").sequences(
            self.window, self.decoder.chunk, None if encode is None else partial(encode, device)
        )

    @contextlib.contextmanager
    def acting(self) -> Iterator[None]:
        """Remember from one call to the next, each of which brings one step."""
        self.features.memory = self.features.temporal.remember(self.window)
        try:
            with super().acting():
                yield
        finally:
            self.features.memory = None

    def reset(self, begun: Tensor) -> None:
        """Forget the episodes of those rows that begin a new one."""
        super().reset(begun)
        if self.features.memory is not None:
            self.features.memory.forget(begun)
