"""Checks of a model's features and head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from clframe import PluginError
from clframe.core.protocols import linear_head as linear_head_of

if TYPE_CHECKING:
    from clframe import Learner


def linear_head(learner: Learner, plugin: str) -> nn.Linear:
    """Return the model's head.

    Args:
        learner: The learner with the model.
        plugin: Name of the plugin, for the message.

    Raises:
        PluginError: The model has no features, or its head is of another kind.
    """
    head = linear_head_of(learner.model)
    if head is None:
        raise PluginError(
            f"plugin '{plugin}' needs a model with 'features' and a linear 'head', which "
            f"{type(learner.model).__name__} lacks"
        )
    return head
