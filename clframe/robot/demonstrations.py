"""Demonstrations in HDF5 files, in the layout of robomimic and LIBERO.

Each task has one file: ``data/demo_0 .. demo_n``, each with ``actions [T, A]`` (the labels),
``executed_actions`` if other actions were executed, ``obs/<name> [T, ...]``, ``rewards``, ``dones``
(1 only at the last step), ``successes`` (whether the goal held after the action), ``retries`` (1
for steps of an attempt that was given up) and, if the simulator exposes it, ``states [T, ...]``,
which begin with LIBERO's ``1 + nq + nv`` numbers. ``data`` has the attributes ``env_name``,
``env_args`` and ``problem_info`` (both JSON), ``num_demos`` and ``total``; each demonstration has
``num_samples`` and the ``seed`` of its episode.
Row t is from before action t, as in robomimic; ``obs_convention`` records this. LIBERO's
own files (recognized by ``bddl_file_name``) hold observations from after action t and states from
before it: there, action t gets observation t - 1 and state t, and the first action is dropped.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot.task import Observation
from clframe.utils.files import write_bytes

BEFORE, AFTER = "before_action", "after_action"
_FRAMES, _ROWS = 32, 8


@dataclass(frozen=True)
class Demonstration:
    """One episode: ``T`` observations and the action at each.

    Args:
        actions: ``[T, A]``: the expert's intended actions, the labels.
        observations: ``[T, ...]`` by name.
        states: Simulator states, ``[T, ...]``; empty if the simulator does not expose them.
        seed: Restarts the same episode; None if unknown.
        executed: ``[T, A]``: the executed actions, if the hand was disturbed; None if they are
            ``actions``.
        rewards: ``[T]``, of each action; None if unknown.
        successes: ``[T]``: whether the goal held after the action; None if unknown.
        retries: ``[T]``: whether the step belongs to an attempt that was given up; None if
            unknown.
    """

    actions: NDArray[np.float32]
    observations: Observation
    states: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    seed: int | None = None
    executed: NDArray[np.float32] | None = None
    rewards: NDArray[np.float32] | None = None
    successes: NDArray[np.bool_] | None = None
    retries: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def done(self) -> NDArray[np.float32]:
        """The executed actions, which lead through the same states again."""
        return self.actions if self.executed is None else self.executed


@dataclass(frozen=True)
class Info:
    """The metadata of a file.

    Args:
        name: The task's name.
        language: The task's instruction.
        facts: Everything in ``env_args``: how the environment was made, and with which versions.
        demos: Number of demonstrations.
        steps: Number of steps in all demonstrations.
        convention: Whether observation t is from before action t or from after it.
    """

    name: str
    language: str
    facts: Mapping[str, Any]
    demos: int
    steps: int
    convention: str = BEFORE


def write(
    path: Path,
    name: str,
    language: str,
    facts: Mapping[str, Any],
    demos: Sequence[Demonstration],
) -> None:
    """Write a file, whole or not at all."""
    import h5py

    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        data = file.create_group("data")
        data.attrs["env_name"] = name
        data.attrs["env_args"] = json.dumps(
            {"env_name": name, "type": "clframe", "env_kwargs": dict(facts)}
        )
        problem = {"problem_name": name, "domain_name": "robot", "language_instruction": language}
        data.attrs["problem_info"] = json.dumps(problem)
        data.attrs["num_demos"] = len(demos)
        data.attrs["total"] = sum(len(demo) for demo in demos)
        data.attrs["obs_convention"] = BEFORE
        data.attrs["macros_image_convention"] = "opencv"
        for number, demo in enumerate(demos):
            write_group(data.create_group(f"demo_{number}"), demo)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content.getvalue())
    except OSError as error:
        raise DataError(
            f"cannot write demonstrations '{path}': {error.strerror}; free some space, or "
            "choose another folder with data_dir="
        ) from error


def write_group(group: Any, demo: Demonstration) -> None:
    """Write one demonstration into a group of an open file."""
    group.attrs["num_samples"] = len(demo)
    if demo.seed is not None:
        group.attrs["seed"] = demo.seed
    last = np.zeros(len(demo), np.uint8)
    last[-1] = 1
    group.create_dataset("actions", data=demo.actions)
    group.create_dataset("rewards", data=last if demo.rewards is None else demo.rewards)
    group.create_dataset("dones", data=last)
    if demo.executed is not None:
        group.create_dataset("executed_actions", data=demo.executed)
    for name, marks in (("successes", demo.successes), ("retries", demo.retries)):
        if marks is not None:
            group.create_dataset(name, data=marks.astype(np.uint8))
    if len(demo.states):
        group.create_dataset("states", data=demo.states)
    for name, values in demo.observations.items():
        group.create_dataset(f"obs/{name}", data=values, **packing(values))


def packing(values: NDArray[Any]) -> dict[str, Any]:
    """Return how to compress images: strips of some frames at a time.

    gzip looks back 32 KB. A strip then includes the previous frame, most of which has not moved.
    Bytes of depth are sorted by their position in the number.
    """
    if values.ndim < 3:
        return {}
    chunks = (min(len(values), _FRAMES), min(values.shape[1], _ROWS), *values.shape[2:])
    return {"compression": "gzip", "chunks": chunks, "shuffle": values.dtype != np.uint8}


def read_info(path: Path) -> Info:
    """Return the metadata of a file without reading its demonstrations."""
    with _opened(path) as file:
        return _info(file, path)


def read(
    path: Path, n: int | None = None, names: Sequence[str] | None = None
) -> list[Demonstration]:
    """Return the first n demonstrations of a file.

    Args:
        path: The file.
        n: Number of demonstrations; None for all.
        names: Observations to read; None for all.

    Raises:
        DataError: The file does not hold demonstrations, or too few.
    """
    with _opened(path) as file:
        info = _info(file, path)
        if n is not None and info.demos < n:
            raise DataError(f"'{path}' holds {info.demos} demonstrations, but {n} are needed")
        data = file["data"]
        keys = sorted(data, key=_number)[:n]
        after = info.convention == AFTER
        return [_read_one(data[key], f"'{path}' data/{key}", names, after) for key in keys]


def check_sizes(demos: Sequence[Demonstration], path: Path, sizes: Mapping[str, int]) -> None:
    """Check that actions and observations have the sizes of the stream.

    Args:
        demos: The demonstrations.
        path: The file they were read from.
        sizes: Numbers per row, by name: ``actions`` or an observation.
    """
    for number, demo in enumerate(demos):
        for name, expected in sizes.items():
            rows = demo.actions if name == "actions" else demo.observations[name]
            actual = rows.shape[1] if rows.ndim == 2 else list(rows.shape[1:])
            if actual != expected:
                where = "actions" if name == "actions" else f"obs/{name}"
                raise DataError(
                    f"'{path}' data/demo_{number}/{where} has {actual} numbers per step, but the "
                    f"task's robot has {expected}; delete the file to record it again"
                )


def _opened(path: Path) -> Any:
    import h5py

    if not path.is_file():
        raise DataError(f"there is no demonstration file '{path}'")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"'{path}' is not an HDF5 file, or is damaged: {error}") from error


def _number(key: str) -> int:
    digits = key.rpartition("_")[2]
    return int(digits) if digits.isdigit() else -1


def _info(file: Any, path: Path) -> Info:
    data = file.get("data")
    demos = [key for key in data or () if key.startswith("demo_")]
    if not demos:
        raise DataError(
            f"'{path}' holds no demonstrations; robomimic and LIBERO store them as data/demo_0, "
            "data/demo_1, ..."
        )
    problem = _json(data.attrs.get("problem_info", "{}"), f"'{path}': problem_info")
    facts = _json(data.attrs.get("env_args", "{}"), f"'{path}': env_args")
    language = problem.get("language_instruction", "")
    text = language if isinstance(language, str) else " ".join(map(str, language))
    return Info(
        name=str(problem.get("problem_name") or data.attrs.get("env_name", "")),
        language=text.strip('"'),
        facts=facts.get("env_kwargs", {}),
        demos=len(demos),
        steps=sum(len(data[key]["actions"]) for key in demos if "actions" in data[key]),
        convention=_convention(data.attrs, path),
    )


def _convention(attributes: Any, path: Path) -> str:
    """Return which observation a row holds; unmarked files are robomimic's or LIBERO's own."""
    convention = attributes.get("obs_convention")
    if convention is None:
        return AFTER if "bddl_file_name" in attributes else BEFORE
    if convention not in (BEFORE, AFTER):
        raise DataError(f"'{path}': obs_convention must be {BEFORE} or {AFTER}, is '{convention}'")
    return str(convention)


def _json(text: Any, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is not JSON: {error}") from error
    return value if isinstance(value, dict) else {}


def _read_one(group: Any, where: str, names: Sequence[str] | None, after: bool) -> Demonstration:
    if "actions" not in group or "obs" not in group:
        raise DataError(f"{where} must hold 'actions' and 'obs', has {', '.join(group) or 'none'}")
    actions = np.asarray(group["actions"], np.float32)
    if actions.ndim != 2 or not len(actions):
        raise DataError(f"{where}/actions must be [steps, numbers], is {actions.shape}")
    if not np.isfinite(actions).all():
        raise DataError(f"{where}/actions holds NaN or infinity")
    observations = {}
    for name in group["obs"] if names is None else names:
        if name not in group["obs"]:
            raise DataError(f"{where} has no observation '{name}', only {', '.join(group['obs'])}")
        values = np.asarray(group["obs"][name])
        if len(values) != len(actions):
            raise DataError(f"{where}/obs/{name} has {len(values)} rows for {len(actions)} actions")
        observations[name] = values if values.dtype == np.uint8 else values.astype(np.float32)
    states = np.asarray(group["states"]) if "states" in group else np.zeros((0, 0))
    seed = group.attrs.get("seed")
    rows = {
        "executed": _rows(group, "executed_actions", actions.shape, where, np.float32),
        "rewards": _rows(group, "rewards", actions.shape[:1], where, np.float32),
        "successes": _rows(group, "successes", actions.shape[:1], where, np.bool_),
        "retries": _rows(group, "retries", actions.shape[:1], where, np.bool_),
    }
    if after:
        if len(actions) < 2:
            raise DataError(f"{where} has only one step and no observation before it")
        actions, states = actions[1:], states[1:]
        observations = {name: values[:-1] for name, values in observations.items()}
        rows = {name: None if values is None else values[1:] for name, values in rows.items()}
    return Demonstration(actions, observations, states, None if seed is None else int(seed), **rows)


def _rows(group: Any, name: str, shape: tuple[int, ...], where: str, dtype: Any) -> Any:
    """Return an optional dataset with one row per step, or None."""
    if name not in group:
        return None
    values = np.asarray(group[name], dtype)
    if values.shape != shape:
        raise DataError(f"{where}/{name} has the shape {values.shape}, expected {shape}")
    return values
