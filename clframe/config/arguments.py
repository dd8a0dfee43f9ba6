"""Sort the arguments of ``clframe.fit`` into the fields of a run's description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clframe.config.setting_groups import GROUP_OF
from clframe.errors import SettingError, nearest

POSITIONAL = ("stream", "strategy", "model")


def place_arguments(
    fields: Sequence[str], positional: Sequence[Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields that arguments stand for.

    Args:
        fields: The names of all fields.
        positional: The first three.
        given: Fields, settings of trainer, evaluation and logging, and ``lr``.

    Raises:
        SettingError: An argument is unknown.
        TypeError: There are too many, or one is given twice.
    """
    values = dict(given)
    if len(positional) > len(POSITIONAL):
        raise TypeError(f"at most {', '.join(POSITIONAL)} can be given by position")
    for name, value in zip(POSITIONAL, positional, strict=False):
        if name in values:
            raise TypeError(f"{name} is given twice")
        values[name] = value
    field_names = set(fields)
    if "seeds" in values:
        raise SettingError(
            "seeds is for the command line (clframe fit seeds=0,1,2); in Python call fit with "
            "each seed, or clframe.sweep.seeds.fit_seeds(clframe.RunConfig.of(...), [0, 1, 2])"
        )
    if "lr" in values:  # by its bare name, as on the command line
        optimizer = values.get("optimizer", "adam")
        named = {"name": optimizer} if isinstance(optimizer, str) else dict(optimizer)
        values["optimizer"] = {**named, "lr": values.pop("lr")}
    stream = values.get("stream", "")
    if hasattr(stream, "__getitem__") and not isinstance(stream, str | Mapping):
        raise SettingError(
            f"the stream is {type(stream).__name__}, which is data; make a stream of it: "
            "clframe.stream_from(data, n_experiences=5)"
        )
    groups = {name: group for name, group in GROUP_OF.items() if group != "checkpoint"}
    for name in [name for name in values if name not in field_names]:
        if name not in groups:
            offered = {*field_names, "lr", *groups}
            raise SettingError(f"unknown argument '{name}'; {nearest(name, offered)}")
        group = groups[name]
        values[group] = {**(values.get(group) or {}), name: values.pop(name)}
    return values
