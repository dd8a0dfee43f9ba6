"""Check settings against the signature of their factory.

The keyword arguments of a factory (a plugin class, a stream function, ...) are its settings: their
names, types and defaults are the single source for configs, checks and the listing.

Settings that several factories share are a frozen dataclass. A parameter with one as its default
stands for its fields: users set each by its name, and :func:`pack` makes the dataclass.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from clframe.errors import SettingError, nearest

_MOST = 2**63 - 1
"""The largest number that tensors and files can hold."""
_MOST_FLOAT = 3e38
"""About the largest number that 32-bit weights and losses can hold."""
REQUIRED = "???"
"""The mark of a setting without a default in a config (Hydra's own)."""


@functools.cache
def _parameters(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return keyword parameters of a factory with resolved annotations; of a group, its fields."""
    signature = inspect.signature(factory).parameters
    hints: dict[str, Any] = {}
    for written, names in _annotations(factory):
        # Only of the parameters: the return type often has a name for the type checker alone.
        annotations = {name: type_ for name, type_ in written.items() if name in signature}
        # Some annotations exist only for the type checker.
        with contextlib.suppress(NameError, TypeError):
            hints |= typing.get_type_hints(
                types.SimpleNamespace(__annotations__=annotations), names
            )
    groups = _groups(factory)
    flat: list[inspect.Parameter] = []
    for name, parameter in signature.items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if name in groups:
            flat += [
                field.replace(default=getattr(parameter.default, field.name))
                for field in groups[name].values()
            ]
        else:
            flat.append(parameter.replace(annotation=hints.get(name, Any)))
    parameters = {parameter.name: parameter for parameter in flat}
    if len(parameters) < len(flat):
        raise TypeError(f"{factory} has a setting twice: {[parameter.name for parameter in flat]}")
    return parameters


def _annotations(factory: Callable[..., Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return annotations of a factory's parameters, with the namespaces they are written in."""
    target = factory.func if isinstance(factory, functools.partial) else factory
    if dataclasses.is_dataclass(target) and inspect.isclass(target):
        # A field may be inherited from a module with its own namespace.
        return [
            (
                inspect.get_annotations(base),
                getattr(sys.modules.get(base.__module__), "__dict__", {}),
            )
            for base in reversed(target.__mro__)
        ]
    target = target.__init__ if inspect.isclass(target) else target
    return [(getattr(target, "__annotations__", {}), getattr(target, "__globals__", {}))]


def _groups(factory: Callable[..., Any]) -> dict[str, dict[str, inspect.Parameter]]:
    """Return the parameters that stand for a dataclass, each with the dataclass's fields."""
    return {
        name: _parameters(type(parameter.default))
        for name, parameter in inspect.signature(factory).parameters.items()
        if dataclasses.is_dataclass(parameter.default) and not inspect.isclass(parameter.default)
    }


def pack(factory: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked settings as keyword arguments of the factory.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Window:
    ...     width: int = 4
    ...     height: int = 3
    >>> def house(doors: int = 1, window: Window = Window(height=2)): ...
    >>> defaults(house)
    {'doors': 1, 'width': 4, 'height': 2}
    >>> pack(house, {"doors": 2, "width": 5})
    {'doors': 2, 'window': Window(width=5, height=2)}
    """
    packed = dict(values)
    for name, fields in _groups(factory).items():
        default = inspect.signature(factory).parameters[name].default
        chosen = {field: packed.pop(field) for field in fields if field in packed}
        packed[name] = dataclasses.replace(default, **chosen)
    return packed


def defaults(factory: Callable[..., Any], given: Collection[str] = ()) -> dict[str, Any]:
    """Return the settings of a factory with their defaults, without the ones core passes.

    >>> def mlp(input_shape, hidden: int = 400): ...
    >>> defaults(mlp, given=["input_shape"])
    {'hidden': 400}
    """
    values = {}
    for name, parameter in _parameters(factory).items():
        if name not in given:
            empty = parameter.default is parameter.empty
            value = REQUIRED if empty else parameter.default
            values[name] = list(value) if isinstance(value, tuple) else value
    return values


def types_of(factory: Callable[..., Any], given: Collection[str] = ()) -> dict[str, str]:
    """Return the type of each setting of a factory, as text.

    >>> def mlp(input_shape, hidden: int = 400, kind: Literal["a", "b"] | None = None): ...
    >>> types_of(mlp, given=["input_shape"])
    {'hidden': 'a whole number', 'kind': 'one of a, b or null'}
    """
    return {
        name: "anything" if parameter.annotation is Any else _type_text(parameter.annotation)
        for name, parameter in _parameters(factory).items()
        if name not in given
    }


def choices_of(factory: Callable[..., Any]) -> dict[str, list[str]]:
    """Return the values of each setting that has only a few, as they are typed.

    >>> def mlp(hidden: int = 400, bias: bool = True, kind: Literal["a", "b"] | None = None): ...
    >>> choices_of(mlp)
    {'bias': ['true', 'false'], 'kind': ['a', 'b', 'null']}
    """
    choices = {}
    for name, parameter in _parameters(factory).items():
        values = _choices(parameter.annotation)
        if any(value != "null" for value in values):
            choices[name] = values
    return choices


def _choices(annotation: Any) -> list[str]:
    if get_origin(annotation) in (Union, types.UnionType):
        return [value for argument in get_args(annotation) for value in _choices(argument)]
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return {bool: ["true", "false"], type(None): ["null"]}.get(annotation, [])


def accepts(factory: Callable[..., Any], name: str) -> bool:
    """Return whether a factory has a parameter of this name."""
    return name in _parameters(factory)


def check(
    factory: Callable[..., Any],
    settings: Mapping[str, Any],
    where: str,
    given: Collection[str] = (),
) -> dict[str, Any]:
    """Check names and types of settings; return them by name (see :func:`pack`).

    Args:
        factory: The function or class to call.
        settings: The user's settings.
        where: The user's name for this group of settings, for the message.
        given: Parameters that core passes and a user may not set.

    Raises:
        SettingError: A name is unknown, a value is missing or has the wrong type.
    """
    parameters = {k: v for k, v in _parameters(factory).items() if k not in given}
    checked = {}
    for name, value in settings.items():
        if name not in parameters:
            raise SettingError(f"unknown setting '{name}' for {where}; {nearest(name, parameters)}")
        if value == REQUIRED and isinstance(value, str):
            continue
        checked[name] = convert(value, parameters[name].annotation, f"{where}: '{name}'")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in checked:
            raise SettingError(f"{where} needs a value for '{name}'")
    return checked


def convert(value: Any, annotation: Any, what: str) -> Any:
    """Return the value as the annotated type, or raise an error that names both.

    >>> convert(1, float, "lr")
    1.0
    >>> convert("x", int, "epochs")
    Traceback (most recent call last):
    ...
    clframe.errors.SettingError: epochs must be a whole number, got 'x'
    """
    fits, converted = _fit(value, annotation)
    if not fits:
        odd = _odd_number(value)
        if odd is not None:
            raise SettingError(f"{what} must be {odd[1]}, got {odd[0]}")
        raise SettingError(f"{what} must be {_type_text(annotation)}, got {value!r}")
    return converted


def _odd_number(value: Any) -> tuple[str, str] | None:
    """Return an impossible number in a value, and the permitted range; None if there is none."""
    if isinstance(value, list | tuple):
        return next((odd for odd in map(_odd_number, value) if odd is not None), None)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value), "finite"
    if isinstance(value, float) and abs(value) > _MOST_FLOAT:
        return str(value), f"at most {_MOST_FLOAT:g} in size"
    if isinstance(value, int) and abs(value) > _MOST:
        digits = len(str(value)) if abs(value) < 10**400 else 400
        return f"one of {digits} digits or more", "a number of at most 64 bits"
    return None


def _fit(value: Any, annotation: Any) -> tuple[bool, Any]:
    if annotation is Any or annotation is inspect.Parameter.empty:
        return True, value
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        # An exact match comes before a conversion: 1 for `float | int` stays 1.
        for exact in (True, False):
            for argument in arguments:
                fits, converted = _fit(value, argument)
                if fits and (not exact or type(converted) is type(value)):
                    return True, converted
        return False, value
    if origin is Literal:
        return value in arguments and type(value) in {type(a) for a in arguments}, value
    if annotation is type(None):
        return value is None, value
    if annotation is bool:
        return isinstance(value, bool), value
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST, value
    if annotation is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        number = number and _odd_number(value) is None
        return number, float(value) if number else value
    if annotation is str:
        return isinstance(value, str), value
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping), value
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        if isinstance(value, str) or not isinstance(value, Sequence):
            return False, value
        item = arguments[0] if arguments else Any
        pairs = [_fit(v, item) for v in value]
        return all(fits for fits, _ in pairs), origin_of(origin)(v for _, v in pairs)
    if inspect.isclass(annotation):
        return isinstance(value, annotation), value
    return True, value


def origin_of(origin: type) -> Callable[..., Any]:
    """Return the concrete type for a sequence annotation."""
    return tuple if origin is tuple else list


def _type_text(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type_text(a) for a in arguments))
    if origin is Literal:
        return "one of " + ", ".join(str(a) for a in arguments)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        return (
            f"a list of which each entry is {_type_text(arguments[0])}" if arguments else "a list"
        )
    plain = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        type(None): "null",
    }
    return plain.get(annotation, getattr(annotation, "__name__", str(annotation)))


def at_least(value: float | None, bound: float, what: str) -> None:
    """Refuse a number below a bound (None passes)."""
    if value is not None and not value >= bound:
        raise SettingError(f"{what} must be at least {bound:g}, got {value!r}")


def at_most(value: float | None, bound: float, what: str) -> None:
    """Refuse a number above a bound (None passes)."""
    if value is not None and not value <= bound:
        raise SettingError(f"{what} must be at most {bound:g}, got {value!r}")


def check_at_least(holder: object, where: str, **bounds: float) -> None:
    """Refuse stored settings that are below their bounds (None passes).

    Args:
        holder: Object with each setting as an attribute.
        where: The user's name for this group of settings, for the message.
        **bounds: The least value of each setting.

    >>> check_at_least(types.SimpleNamespace(weight=-1.0, samples=None), "ewc", samples=1, weight=0)
    Traceback (most recent call last):
    ...
    clframe.errors.SettingError: ewc.weight must be at least 0, got -1.0
    """
    for name, bound in bounds.items():
        at_least(getattr(holder, name), bound, f"{where}.{name}")
