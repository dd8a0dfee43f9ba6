"""LIBERO's files: its observation names, images upside down, rows after the action.

Row t of ``obs`` is the observation after action t, as in LIBERO's own files. The last action of
a demonstration has no later observation and is not written.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from clframe.errors import DataError
from clframe.robot.demonstrations import AFTER, Demonstration
from clframe.robot.formats import robomimic
from clframe.robot.formats.recording import ROWS, Recording, is_depth
from clframe.robot.task import Observation

NAMES = {"wrist_rgb": "eye_in_hand_rgb", "wrist_depth": "eye_in_hand_depth"}
"""LIBERO's names that differ from ours."""
WANTED = ("agentview_rgb", "eye_in_hand_rgb", "gripper_states", "joint_states", "ee_pos", "ee_ori")
"""Names that LIBERO's policies and loaders may request."""


def write(path: Path, recording: Recording) -> list[str]:
    """Write one task's file, whole or not at all; return which of LIBERO's names are missing.

    Raises:
        DataError: A demonstration is too short.
    """
    import h5py

    absent: list[str] = []
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        data = file.create_group("data")
        cut = [_cut(demo, number, recording.name) for number, demo in enumerate(recording.demos)]
        shortened = Recording(recording.name, recording.language, recording.facts, cut, ())
        robomimic.describe(data, shortened, AFTER, "opengl")
        text = recording.facts.get("bddl")
        if text:
            data.attrs["bddl_file_name"] = f"{recording.name}.bddl"
            data.attrs["bddl_file_content"] = text
        for number, (demo, rows) in enumerate(zip(recording.demos, cut, strict=True)):
            group = data.create_group(f"demo_{number}")
            robomimic.write_rows(group, rows, recording, number)
            observations = _named(demo.observations)
            absent = [name for name in WANTED if name not in observations]
            for name, values in observations.items():
                robomimic.write_values(group, f"obs/{name}", values[1:])
            joints = [
                observations[name]
                for name in ("gripper_states", "joint_states")
                if name in observations
            ]
            if len(joints) == 2:
                group.create_dataset("robot_states", data=np.concatenate(joints, 1)[:-1])
    robomimic.save(path, content.getvalue())
    return absent


def _cut(demo: Demonstration, number: int, task: str) -> Demonstration:
    """Drop the last action, which has no later observation; observations are written elsewhere."""
    if len(demo) < 2:
        raise DataError(
            f"demonstration {number} of task '{task}' has only one step; LIBERO's format needs two"
        )
    rows = {name: getattr(demo, name) for name in ROWS}
    return Demonstration(
        demo.actions[:-1],
        {},
        demo.states[:-1],
        demo.seed,
        **{name: None if values is None else values[:-1] for name, values in rows.items()},
    )


def _named(observations: Observation) -> Observation:
    """Return observations by LIBERO's names, with OpenGL images and the hand's pose as one."""
    renamed: Observation = {}
    for name, values in observations.items():
        if is_depth(name, values):
            values = values[..., None]
        renamed[NAMES.get(name, name)] = values[:, ::-1] if values.ndim > 2 else values
    if "ee_pos" in renamed and "ee_ori" in renamed:
        renamed["ee_states"] = np.concatenate([renamed["ee_pos"], renamed["ee_ori"]], 1)
    return renamed
