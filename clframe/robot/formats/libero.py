"""LIBERO's files: its names for what is observed, images upside down, rows after the action.

Row t of ``obs`` is what is seen after action t, as in LIBERO's own files, so the last action of a
demonstration, after which nothing was seen, is not written.
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
"""What we call otherwise."""
WANTED = ("agentview_rgb", "eye_in_hand_rgb", "gripper_states", "joint_states", "ee_pos", "ee_ori")
"""What LIBERO's policies and loaders may ask for."""


def write(path: Path, recording: Recording) -> list[str]:
    """Write one task's file, whole or not at all; returns what of LIBERO's names it has not.

    Raises:
        DataError: A demonstration is too short.
    """
    import h5py

    absent: list[str] = []
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        data = file.create_group("data")
        cut = [_cut(demo, number, recording.name) for number, demo in enumerate(recording.demos)]
        whole = Recording(recording.name, recording.language, recording.facts, cut, ())
        robomimic.describe(data, whole, AFTER, "opengl")
        text = recording.facts.get("bddl")
        if text:
            data.attrs["bddl_file_name"] = f"{recording.name}.bddl"
            data.attrs["bddl_file_content"] = text
        for number, (demo, rows) in enumerate(zip(recording.demos, cut, strict=True)):
            group = data.create_group(f"demo_{number}")
            robomimic.write_rows(group, rows, recording, number)
            seen = _named(demo.observations)
            absent = [name for name in WANTED if name not in seen]
            for name, values in seen.items():
                robomimic.write_values(group, f"obs/{name}", values[1:])
            felt = [seen[name] for name in ("gripper_states", "joint_states") if name in seen]
            if len(felt) == 2:
                group.create_dataset("robot_states", data=np.concatenate(felt, 1)[:-1])
    robomimic.save(path, content.getvalue())
    return absent


def _cut(demo: Demonstration, number: int, task: str) -> Demonstration:
    """All but the last action, after which nothing was seen; observations are written apart."""
    if len(demo) < 2:
        raise DataError(
            f"demonstration {number} of task '{task}' has one step, and nothing is seen after it"
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
    """Observations by LIBERO's names, images as OpenGL has them, the hand's pose as one."""
    seen: Observation = {}
    for name, values in observations.items():
        if is_depth(name, values):
            values = values[..., None]
        seen[NAMES.get(name, name)] = values[:, ::-1] if values.ndim > 2 else values
    if "ee_pos" in seen and "ee_ori" in seen:
        seen["ee_states"] = np.concatenate([seen["ee_pos"], seen["ee_ori"]], 1)
    return seen
