"""Check that a class overrides a contract's methods with the parameters of the contract."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from clframe.errors import PluginError


def members(contract: type) -> dict[str, Any]:
    """Return the public methods and properties of a contract, including inherited ones."""
    members: dict[str, Any] = {}
    for base in reversed(contract.__mro__[:-1]):
        members |= {name: value for name, value in vars(base).items() if not name.startswith("_")}
    return members


def check_overrides(kind: type, contracts: Sequence[type], inherited: bool = True) -> None:
    """Refuse a class that overrides a method of a contract with other parameters.

    A value or property must not become a method either: it would count as true.

    Args:
        kind: The class.
        contracts: The classes that declare what can be overridden.
        inherited: Also check the contracts' inherited members.

    Raises:
        PluginError: Names the class, the method and its parameters.
    """
    for contract in contracts:
        for name, declared in members(contract).items():
            own = vars(kind).get(name)
            if own is None or own is declared or not (inherited or name in vars(contract)):
                continue
            where = f"{kind.__module__}.{kind.__name__}.{name}"
            if not inspect.isfunction(declared):
                if inspect.isfunction(own):
                    raise PluginError(f"{where} must be a value or a property, not a method")
                continue
            parameters = list(inspect.signature(declared).parameters.values())
            names = ", ".join(parameter.name for parameter in parameters)
            if not callable(own):
                raise PluginError(f"{where} must be a method with the parameters ({names})")
            try:
                inspect.signature(own).bind(
                    *(p for p in parameters if p.kind is not p.KEYWORD_ONLY),
                    **{p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY},
                )
            except TypeError as error:
                raise PluginError(f"{where} must take ({names}): {error}") from error
