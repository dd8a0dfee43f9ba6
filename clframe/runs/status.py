"""``status.json``: what a run does now, for whoever watches its folder.

A running fit replaces the file when it turns to something else, and at most once a second while it
learns or rolls out. It is gone when the run has finished; where it stayed, the run was stopped, has
failed, or its process was killed. Nothing of the run depends on it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clframe.utils.files import write_volatile
from clframe.utils.regular import read_json

STATUS = "status.json"
FORMAT = 1
_LONGEST = 1 << 20


def read_status(folder: Path) -> dict[str, Any]:
    """What the file of a run folder says; empty where there is none that can be read."""
    try:
        content = read_json(folder / STATUS, _LONGEST)
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return {}
    return content


def note_hanging(path: Path, plugin: str, hook: str) -> None:
    """Add to a run's status that it waits for a plugin; the run's next status replaces it."""
    with contextlib.suppress(OSError):
        status = read_status(path.parent)
        if status:
            status["waiting_for"] = {"plugin": plugin, "hook": hook}
            write_volatile(path, json.dumps(status) + "\n")


def words(status: Mapping[str, Any]) -> str:
    """What the run does, as a person would say it.

    >>> words(
    ...     {
    ...         "phase": "learning",
    ...         "name": "exp1",
    ...         "experience": 1,
    ...         "experiences": 5,
    ...         "epoch": 2,
    ...         "epochs": 10,
    ...         "step": 3,
    ...         "steps": 8,
    ...         "loss": 0.25,
    ...     }
    ... )
    'learning exp1 (2 of 5), epoch 3 of 10, step 3 of 8, loss 0.25'
    >>> words(
    ...     {
    ...         "phase": "evaluating",
    ...         "name": "exp1",
    ...         "experience": 1,
    ...         "experiences": 5,
    ...         "task": "reach",
    ...         "tasks_done": 3,
    ...         "tasks": 10,
    ...         "unit": "episodes",
    ...         "done": 4,
    ...         "total": 20,
    ...     }
    ... )
    'evaluating after exp1 (2 of 5), reach (task 4 of 10), episode 5 of 20'
    """
    phase = str(status.get("phase", ""))
    name, experience = status.get("name"), status.get("experience")
    parts = [phase]
    if name is not None and isinstance(experience, int):
        after = "after " if phase == "evaluating" else ""
        parts = [f"{phase} {after}{name} ({experience + 1} of {status.get('experiences')})"]
    elif phase == "evaluating":
        parts = ["evaluating the untrained model"]
    if phase == "learning":
        for key in ("epoch", "step"):
            value, total = status.get(key), status.get(f"{key}s")
            if isinstance(value, int):
                number = value + (key == "epoch")
                parts.append(f"{key} {number}" + (f" of {total}" if total else ""))
    task = status.get("task")
    if phase == "evaluating" and isinstance(status.get("tasks"), int):
        number = status.get("tasks_done", 0) + 1
        parts.append(
            f"{task} (task {number} of {status['tasks']})" if task else f"{status['tasks']} tasks"
        )
    if isinstance(status.get("done"), int):
        unit, done, total = str(status.get("unit")), status["done"], status.get("total")
        one = unit.removesuffix("s")
        done = min(done + 1, total) if isinstance(total, int) else done + 1
        parts.append(f"{one} {done}" + (f" of {total}" if total else ""))
    waiting = status.get("waiting_for")
    if isinstance(waiting, dict):
        parts.append(
            f"waiting for plugin '{waiting.get('plugin')}' in hook '{waiting.get('hook')}'"
        )
    loss = status.get("loss")
    if phase == "learning" and isinstance(loss, int | float):
        parts.append(f"loss {loss:.3g}")
    return ", ".join(parts)
