"""The supervised contrastive loss, and the views of samples that it compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clframe import SettingError
from clframe.data.augment import make_steps

if TYPE_CHECKING:
    from clframe import Stream

DEFAULT = ("crop", "flip", "jitter")
"""The augmentations of images that clframe implements itself."""


def contrastive_loss(z: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Return the loss of Khosla et al., "Supervised Contrastive Learning" (2020), eq. 2.

    For a sample i, with A(i) all others and P(i) those of them that have its label::

        -1/|P(i)| sum_{p in P(i)} log( exp(z_i.z_p / t) / sum_{a in A(i)} exp(z_i.z_a / t) )

    mean over the samples that have a P(i); zero if none has.

    Args:
        z: Vectors of length 1, ``[..., samples, width]``; there is a loss for each leading index.
        labels: One label per sample.
        temperature: t.
    """
    n = len(labels)
    itself = torch.eye(n, dtype=torch.bool, device=z.device)
    positive = (labels[:, None] == labels) & ~itself
    with torch.autocast(z.device.type, enabled=False):  # divided by a small number below
        likeness = z @ z.mT
    likeness = (likeness / temperature).masked_fill(itself, torch.finfo(z.dtype).min)
    log_share = likeness - likeness.logsumexp(-1, keepdim=True)
    count = positive.sum(1)
    of_each = -log_share.masked_fill(~positive, 0).sum(-1) / count.clamp(min=1)
    return of_each.sum(-1) / (count > 0).sum().clamp(min=1)


def make_views(
    augment: Sequence[Any] | None, stream: Stream, plugin: str
) -> list[Callable[[Any], Any]]:
    """Return the random changes that make a view of a sample; none if there can be no view.

    Args:
        augment: The user's setting, as in ``trainer.augment``; None is the stream's default.
        stream: The stream of the inputs.
        plugin: Name of the plugin, for the message.

    Raises:
        SettingError: The stream has no images.
    """
    images = len(stream.input_shape) == 3
    if augment is None:
        return make_steps(DEFAULT) if images else []
    if augment and not images:
        raise SettingError(
            f"{plugin}.augment needs images (channels, height, width), but stream "
            f"'{stream.name}' has inputs of shape {tuple(stream.input_shape)}: set it to []"
        )
    return make_steps(augment)


def view_of(x: Any, steps: Sequence[Callable[[Any], Any]]) -> Any:
    """Return another view of the inputs of a batch."""
    for step in steps:
        x = step(x)
    return x
