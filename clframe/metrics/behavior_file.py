"""Recorded BEHAVIOR episodes as JSON files, with the data of all metrics."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from clframe.errors import DataError
from clframe.metrics.behavior import Episode
from clframe.utils.files import write_json

FORMAT = "clframe-behavior-episode-1"


def write_episode(path: Path, activity: str, episode: Episode) -> None:
    """Write an episode atomically.

    Args:
        path: The file.
        activity: Name of the activity.
        episode: The recorded episode.
    """
    record = {field.name: getattr(episode, field.name) for field in dataclasses.fields(episode)}
    record["states"] = [sorted(state) for state in episode.states]
    for name in ("objects", "hands", "hand_active"):
        record[name] = {key: np.asarray(rows).tolist() for key, rows in record[name].items()}
    if episode.base is not None:
        record["base"] = np.asarray(episode.base).tolist()
    write_json(path, {"format": FORMAT, "activity": activity, **record})


def read_episode(path: Path) -> tuple[str, Episode]:
    """Return the activity and the episode of a file.

    Raises:
        DataError: It is not an episode file.
    """
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read the episode '{path}': {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"the episode '{path}' is not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"'{path}' is not an episode: its 'format' must be '{FORMAT}'")
    names = {field.name for field in dataclasses.fields(Episode)}
    unknown = sorted(set(content) - names - {"format", "activity"})
    missing = sorted(names - set(content))
    if unknown or missing:
        problem = f"unknown '{unknown[0]}'" if unknown else f"missing '{missing[0]}'"
        raise DataError(f"the episode '{path}' has wrong entries: {problem}")
    record = {name: content[name] for name in names}
    try:
        record["states"] = [
            frozenset(tuple(map(str, literal)) for literal in state) for state in record["states"]
        ]
        return str(content["activity"]), Episode(**record)
    except (KeyError, TypeError) as error:
        raise DataError(f"the episode '{path}' does not list its states as literals") from error
