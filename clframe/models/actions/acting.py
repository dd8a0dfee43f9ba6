"""A policy whose outputs a decoder converts to losses and actions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from clframe.core.protocols import Policy
from clframe.models.actions.chunks import ChunkQueue
from clframe.models.actions.decoder import ActionDecoder


class Acting(Policy, nn.Module):
    """A mixin for policies with a head for actions: the loss, and acting with chunks."""

    decoder: ActionDecoder
    chunks: ChunkQueue | None = None
    """Earlier predictions, while the policy acts."""

    @property
    def acts(self) -> dict[str, Any]:
        """A description of how the policy acts, for the results."""
        return self.decoder.acts

    @property
    def steers(self) -> bool:
        """Whether outputs only condition further layers, so that stored outputs hold no actions."""
        return self.decoder.settings.head == "flow"

    def action_loss(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Return the loss of demonstrated actions, mean over samples and steps."""
        return self.decoder.loss(outputs, actions)

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the next actions."""
        chunks = self.decoder.act(outputs, generator)
        return chunks[:, 0] if self.chunks is None else self.chunks.step(chunks)

    def single_gaussian(self, outputs: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the Gaussian for exact Fisher information; see :mod:`clframe.plugins._fisher`."""
        return self.decoder.single_gaussian(outputs)

    @contextlib.contextmanager
    def acting(self) -> Iterator[None]:
        """Remember from one call to the next in this context; each call has one step."""
        settings = self.decoder.settings
        if settings.chunk > 1:
            self.chunks = ChunkQueue(settings.chunk, settings.execute, settings.ensemble)
        try:
            yield
        finally:
            self.chunks = None

    def reset(self, begun: Tensor) -> None:
        """Forget the episodes of the rows that begin a new one."""
        if self.chunks is not None:
            self.chunks.forget(begun)
