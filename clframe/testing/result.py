"""The outcomes of a check: passed, broken contract, or not checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Check: TypeAlias = "Callable[[], str]"
"""One item of a contract: returns a text about the outcome, or raises one of the errors below."""


class Broken(AssertionError):
    """Error of a broken contract; the message says how to fix it."""


class NotChecked(Exception):
    """Error of an item that does not apply or cannot be checked here; the message says why."""


def require(holds: bool, sentence: str) -> None:
    """Raise an error unless a condition holds.

    Raises:
        Broken: It does not hold.
    """
    if not holds:
        raise Broken(sentence)
