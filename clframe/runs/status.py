"""``status.json``: what a run is doing now, for programs that watch its folder.

A running fit replaces the file when it starts something else, and at most once a second while it
learns or rolls out. A finished run removes it. If it is still there, the run was stopped, has
failed, or its process was killed. The run itself does not depend on it.
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
    """Return the status in a run folder; empty if there is none or it cannot be read."""
    try:
        content = read_json(folder / STATUS, _LONGEST)
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return {}
    return content


def note_hanging(path: Path, plugin: str, hook: str) -> None:
    """Add a plugin that hangs to a run's status; the run's next status replaces it."""
    with contextlib.suppress(OSError):
        status = read_status(path.parent)
        if status:
            status["waiting_for"] = {"plugin": plugin, "hook": hook}
            write_volatile(path, json.dumps(status) + "\n")


def words(status: Mapping[str, Any]) -> str:
    """Describe what the run is doing.

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
    phrases = [phase]
    if name is not None and isinstance(experience, int):
        after = "after " if phase == "evaluating" else ""
        phrases = [f"{phase} {after}{name} ({experience + 1} of {status.get('experiences')})"]
    elif phase == "evaluating":
        phrases = ["evaluating the untrained model"]
    if phase == "learning":
        for key in ("epoch", "step"):
            value, total = status.get(key), status.get(f"{key}s")
            if isinstance(value, int):
                number = value + (key == "epoch")
                phrases.append(f"{key} {number}" + (f" of {total}" if total else ""))
    task = status.get("task")
    if phase == "evaluating" and isinstance(status.get("tasks"), int):
        number = status.get("tasks_done", 0) + 1
        phrases.append(
            f"{task} (task {number} of {status['tasks']})" if task else f"{status['tasks']} tasks"
        )
    if isinstance(status.get("done"), int):
        unit, done, total = str(status.get("unit")), status["done"], status.get("total")
        singular = unit.removesuffix("s")
        done = min(done + 1, total) if isinstance(total, int) else done + 1
        phrases.append(f"{singular} {done}" + (f" of {total}" if total else ""))
    waiting = status.get("waiting_for")
    if isinstance(waiting, dict):
        phrases.append(
            f"waiting for plugin '{waiting.get('plugin')}' in hook '{waiting.get('hook')}'"
        )
    loss = status.get("loss")
    if phase == "learning" and isinstance(loss, int | float):
        phrases.append(f"loss {loss:.3g}")
    return ", ".join(phrases)
