"""robomimic's files: our own layout, plus the entries that robomimic's readers need.

These are ``next_obs`` for methods that learn values, ``mask/train`` and ``mask/valid`` for
``hdf5_filter_key``, ``env_args`` with an integer ``type`` (2, a Gym environment), and the
``model_file`` of every demonstration if the environment provides it. Depth images have a channel.
A demonstration has no observation after the last action: the last row of ``next_obs`` repeats the
one before it (``dones`` is 1 there, so no value is learned from it), and ``next_obs_last`` records
this.
"""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot import demonstrations
from clframe.robot.demonstrations import BEFORE, Demonstration
from clframe.robot.formats.recording import DEPTH, Recording, is_depth
from clframe.utils.files import write_bytes

GYM = 2
"""robomimic's number for environments of Gym (``EnvType.GYM_TYPE``)."""
VALID = 0.1
"""Share of the demonstrations in ``mask/valid``, as robomimic's own script splits them."""


def write(path: Path, recording: Recording) -> None:
    """Write one task's file, whole or not at all."""
    import h5py

    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        data = file.create_group("data")
        describe(data, recording, BEFORE, "opencv")
        for number, demo in enumerate(recording.demos):
            group = data.create_group(f"demo_{number}")
            write_rows(group, demo, recording, number)
            for name, values in demo.observations.items():
                if is_depth(name, values):
                    values = values[..., None]
                write_values(group, f"obs/{name}", values)
                write_values(group, f"next_obs/{name}", _next(values))
        for name, numbers in masks(len(recording.demos)).items():
            keys = np.array([f"demo_{number}" for number in numbers], "S")
            file.create_dataset(f"mask/{name}", data=keys)
    save(path, content.getvalue())


def describe(data: Any, recording: Recording, convention: str, images: str) -> None:
    """Write the attributes of robomimic and LIBERO that describe a file.

    Args:
        data: The group of all demonstrations.
        recording: The recording to describe.
        convention: Which observation a row holds.
        images: Their orientation: ``opencv``, or ``opengl`` for upside down.
    """
    data.attrs["env_name"] = recording.name
    data.attrs["env_args"] = json.dumps(
        {"env_name": recording.name, "type": GYM, "env_kwargs": dict(recording.facts)}
    )
    problem = {
        "problem_name": recording.name,
        "domain_name": "robot",
        "language_instruction": recording.language,
    }
    data.attrs["problem_info"] = json.dumps(problem)
    data.attrs["num_demos"] = len(recording.demos)
    data.attrs["total"] = sum(len(demo) for demo in recording.demos)
    data.attrs["obs_convention"] = convention
    data.attrs["next_obs_last"] = "repeated"
    data.attrs["macros_image_convention"] = images


def write_rows(group: Any, demo: Demonstration, recording: Recording, number: int) -> None:
    """Write all of a demonstration except its observations."""
    demonstrations.write_group(group, dataclasses.replace(demo, observations={}))
    if recording.models:
        group.attrs["model_file"] = recording.models[number]
    if len(demo.states):
        group.attrs["init_state"] = demo.states[0]


def masks(n: int) -> dict[str, list[int]]:
    """Split n demonstrations into training and validation; the last tenth is for validation.

    >>> masks(3)
    {'train': [0, 1], 'valid': [2]}
    """
    valid = max(1, round(VALID * n)) if n > 1 else 0
    return {"train": list(range(n - valid)), "valid": list(range(n - valid, n))}


def save(path: Path, content: bytes) -> None:
    """Write a file and create its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
    except OSError as error:
        raise DataError(f"cannot write '{path}': {error.strerror}") from error


def _next(values: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([values[1:], values[-1:]])


def write_values(group: Any, name: str, values: NDArray[Any]) -> None:
    """Write one observation; compress images."""
    group.create_dataset(name, data=values, **demonstrations.packing(values))


def read(path: Path) -> Recording:
    """Read a robomimic or LIBERO file; remove the channel of depth, and turn images upright."""
    import h5py

    info = demonstrations.read_info(path)
    demos = demonstrations.read(path)
    with h5py.File(path, "r") as file:
        upside_down = file["data"].attrs.get("macros_image_convention") == "opengl"
    return Recording(
        info.name or path.stem.removesuffix("_demo"),
        info.language,
        info.facts,
        [_upright(demo, upside_down) for demo in demos],
    )


def _upright(demo: Demonstration, upside_down: bool) -> Demonstration:
    observations = {}
    for name, values in demo.observations.items():
        if name.endswith(DEPTH) and values.ndim == 4 and values.shape[-1] == 1:
            values = values[..., 0]
        if upside_down and values.ndim > 2:
            values = np.ascontiguousarray(values[:, ::-1])
        observations[name] = values
    return dataclasses.replace(demo, observations=observations)
