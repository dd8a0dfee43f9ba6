"""How a check ends: well, with the contract broken, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Check: TypeAlias = "Callable[[], str]"
"""One item of a contract: returns what was seen, in words, or raises one of the below."""


class Broken(AssertionError):
    """The contract is broken; the message says what to do about it."""


class NotChecked(Exception):
    """An item does not apply or cannot be checked here; the message says why."""


def require(holds: bool, sentence: str) -> None:
    """Go on where something holds.

    Raises:
        Broken: It does not.
    """
    if not holds:
        raise Broken(sentence)
