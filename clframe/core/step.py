"""One training step, as the per-step hooks see it."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from clframe.data.dataset import Batch


class Term(NamedTuple):
    """A loss term that joins the weighted mean over the parts of a step.

    Example:
        >>> import torch
        >>> Term(torch.tensor(2.0), 0.5).weight  # returned by ``penalty`` in place of a tensor
        0.5
    """

    value: Tensor
    weight: float


class Step:
    """One training step so far: the argument of the per-step hooks.

    Example:
        >>> from clframe import Plugin, Step, hookimpl
        >>> from clframe.testing import toy_run, toy_stream
        >>> class Shown(Plugin):
        ...     '''Count all training samples, including replayed ones.'''
        ...
        ...     state = ("samples",)
        ...     samples = 0
        ...
        ...     @hookimpl
        ...     def after_step(self, step: Step):
        ...         self.samples += sum(len(part.y) for part in step.parts)
        >>> shown = Shown()
        >>> _ = toy_run([shown], toy_stream(samples=40), max_epochs=1)
        >>> shown.samples
        240
    """

    __slots__ = ("features", "loss", "losses", "outputs", "parts", "term_names", "terms")

    def __init__(self, parts: list[Batch], outputs: list[Any], features: list[Any]) -> None:
        self.parts = parts
        self.outputs = outputs
        self.features = features
        self.loss: Tensor | None = None
        self.losses: list[Tensor] = []
        """The loss of each part, if there are several; detached."""
        self.terms: list[Tensor] = []
        """The plugins' answers to ``penalty``, in order; detached."""
        self.term_names: list[str] = []
        """The plugin of each of these terms."""

    @property
    def batch(self) -> Batch:
        """The samples of the current experience."""
        return self.parts[0]
