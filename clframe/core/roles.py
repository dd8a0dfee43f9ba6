"""What a plugin decides about learning, so that plugins conflict without naming each other.

A plugin declares its ``roles``, and in ``excludes`` the roles that it cannot work with in another
plugin, each with the reason. Two plugins conflict if they share an exclusive role, or if one of
them excludes a role of the other. A new method therefore says in its own file what it can be
combined with, and no other file changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from clframe.errors import PluginError, nearest


class Role(NamedTuple):
    """One entry of the table.

    Args:
        meaning: What a plugin with this role does, as the rest of a sentence about it.
        exclusive: Whether a run can have one plugin with this role only.
    """

    meaning: str
    exclusive: bool


ROLES: dict[str, Role] = {
    # A run can have one plugin with each of these.
    "training data": Role("chooses the samples that an experience is trained on", True),
    "task loss": Role("replaces the loss of the current batch", True),
    "gradient": Role("projects the gradient of each step", True),
    "parameters": Role("decides which parameters are trained, or how fast each one is", True),
    "units": Role("gates hidden units by task, or starts single units again", True),
    "head": Role("replaces the head, or rewrites or corrects it after training", True),
    "prediction": Role("predicts in place of the model, or corrects what it predicts", True),
    "first weights": Role("sets the weights from which an experience starts", True),
    "generator": Role("trains a generator and replays its inputs", True),
    "stored logits": Role("holds samples to their logits in the step that stored them", True),
    # Several plugins may have these; others may exclude them.
    "joint training": Role("trains on the whole stream in the first experience", False),
    "task weights": Role("gives each task weights that stay as its training left them", False),
    "tuning": Role("tunes a pretrained model", False),
    "fixed weights": Role("relies on weights or features that stay (nearly) as they are", False),
    "new head": Role("replaces the linear head with another classifier", False),
    "untrained head": Role("trains features only, so outputs have no loss", False),
    "replayed samples": Role("adds stored or generated samples to the steps", False),
    "weight penalty": Role("holds parameters near the values after earlier experiences", False),
}
"""Every role by name."""


class HasRoles(Protocol):
    """A plugin or its class, as far as this module is concerned."""

    @property
    def name(self) -> str:
        """The name in messages."""

    @property
    def roles(self) -> Collection[str]:
        """What it decides."""

    @property
    def excludes(self) -> Mapping[str, str]:
        """Roles that it cannot work with in another one, each with the reason."""


def check_roles(plugin: HasRoles, where: str) -> None:
    """Refuse a class with roles that are not in the table.

    Args:
        plugin: The class of a plugin.
        where: Its name in messages.
    """
    for attribute, given, kinds, right in (
        ("roles", plugin.roles, Collection, 'a tuple of names, such as ("head",)'),
        ("excludes", plugin.excludes, Mapping, 'a reason for each role, as {"head": "..."}'),
    ):
        if isinstance(given, str) or not isinstance(given, kinds):
            raise PluginError(f"{where}.{attribute} is {given!r}: write {right}")
        for name in given:
            if name not in ROLES:
                raise PluginError(
                    f"{where}.{attribute} names the unknown role '{name}'; {nearest(name, ROLES)}"
                )


def conflict(one: HasRoles, other: HasRoles) -> str:
    """Return why two plugins, or their classes, cannot be combined; empty if they can."""
    for role in one.roles:
        if role in other.roles and ROLES[role].exclusive:
            return (
                f"plugin '{one.name}' cannot be combined with '{other.name}': both have the role "
                f"'{role}' ({ROLES[role].meaning}); choose one of them"
            )
    for this, that in ((one, other), (other, one)):
        for role, reason in this.excludes.items():
            if role in that.roles:
                return (
                    f"plugin '{this.name}' cannot be combined with '{that.name}', which has the "
                    f"role '{role}' ({ROLES[role].meaning}): {reason}; choose one of them"
                )
    return ""
