"""A user's task files as a suite: ``stream=tabletop_files stream.files=[a.bddl,b.bddl]``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clframe.errors import DataError, SettingError
from clframe.worlds.bddl import BDDLError
from clframe.worlds.tabletop.suites import FILES, TabletopTask
from clframe.worlds.tabletop.world import World


def tasks_from_files(files: Sequence[str | Path]) -> tuple[TabletopTask, ...]:
    """Read task files, and see that each can be built and started.

    Raises:
        SettingError: Two have the same name.
        DataError: None is named, or a file is not there.
        BDDLError: One cannot be built, with its file, line and column.
    """
    if not files:
        raise DataError(
            f"stream '{FILES}' has no tasks: put task files in LIBERO's dialect into "
            "stream.files=[FILE.bddl,...]"
        )
    tasks: dict[str, TabletopTask] = {}
    for file in files:
        path = Path(file).expanduser()
        if path.stem in tasks:
            raise SettingError(f"stream.files names two tasks '{path.stem}'; rename one file")
        try:
            task = TabletopTask(FILES, path.stem, path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"the task file '{path}' cannot be read: {error}") from error
        try:
            world = World(task.problem)
            world.reset(np.random.default_rng(0))
        except BDDLError as error:
            raise BDDLError(error.sentence, error.line, error.column, str(path)) from error
        if world.satisfied():
            raise BDDLError("The goal holds at the start; nothing is left to do.", path=str(path))
        tasks[path.stem] = task
    return tuple(tasks.values())
