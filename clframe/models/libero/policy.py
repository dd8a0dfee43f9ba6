"""A policy that trains on sequences and has a memory while it acts."""

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
    """Everything before the head: the encoder of single steps, then the temporal encoder.

    Args:
        encode: Maps sequences to encoded steps ``[n, steps, ...]``.
        temporal: Maps encoded steps to one vector per step, ``[n, steps, width]``.
    """

    def __init__(self, encode: ConcatEncoder | TokenEncoder, temporal: TemporalEncoder) -> None:
        super().__init__()
        self.encode, self.temporal = encode, temporal
        self.memory: Memory | None = None

    def forward(self, x: Any) -> Tensor:
        """Return one vector per step; while acting, only for the newest step."""
        encoded = self.encode(x)
        if self.memory is None:
            features: Tensor = self.temporal(encoded)
            return features
        return self.memory.step(encoded[:, -1])


class SequencePolicy(Acting):
    """Predicts an action at every step of a sequence; acts step by step with a memory.

    The loss is the mean over all steps of the window, each of which depends on the previous ones,
    as in LIBERO. (LIBERO's recurrent policy resets its hidden state at every step of an evaluation,
    so that it acts on one observation; ours keeps it.)

    Args:
        features: Everything before the head.
        head: Computes the decoder's inputs.
        window: Steps of a sequence in training.
        decoder: Interprets the head's outputs.
    """

    def __init__(
        self, features: Body, head: nn.Module, window: int, decoder: ActionDecoder
    ) -> None:
        super().__init__()
        self.features, self.head = features, head
        self.window = window
        self.decoder = decoder

    def forward(self, x: Any) -> Tensor:
        """Return the decoder's inputs ``[n, steps, numbers]``; while acting, ``[n, numbers]``."""
        outputs: Tensor = self.head(self.features(x))
        return outputs

    def prepare_stream(self, stream: Stream, device: torch.device) -> Stream:
        """Return the stream with sequences instead of single observations."""
        reader = self.features.encode.reader
        encode = reader.encode_frames if isinstance(reader, FeatureReader) else None
        return robot_stream(stream, "a policy of sequences").sequences(
            self.window, self.decoder.chunk, None if encode is None else partial(encode, device)
        )

    @contextlib.contextmanager
    def acting(self) -> Iterator[None]:
        """Remember from one call to the next in this context; each call has one step."""
        self.features.memory = self.features.temporal.remember(self.window)
        try:
            with super().acting():
                yield
        finally:
            self.features.memory = None

    def reset(self, begun: Tensor) -> None:
        """Forget the episodes of the rows that begin a new one."""
        super().reset(begun)
        if self.features.memory is not None:
            self.features.memory.forget(begun)
