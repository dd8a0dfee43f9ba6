"""What methods ask of a model: features, and a head that they may look into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from clframe import PluginError

if TYPE_CHECKING:
    from clframe import Learner


def linear_head(learner: Learner, plugin: str) -> nn.Linear:
    """The model's head.

    Args:
        learner: With the model.
        plugin: Who asks, for the message.

    Raises:
        PluginError: The model has no features, or its head is of another kind.
    """
    head = getattr(learner.model, "head", None)
    if not hasattr(learner.model, "features") or not isinstance(head, nn.Linear):
        raise PluginError(
            f"plugin '{plugin}' needs a model that has `features` and a linear `head`; "
            f"{type(learner.model).__name__} has not"
        )
    return head
