"""LeRobot datasets as a stream: an experience for every task, or for every dataset.

There is no simulator, so the measure is how close a policy's actions are to those of held-out
episodes; see :mod:`clframe.robot.offline_evaluation`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from clframe.data.holding_out import held_out as choose_held_out
from clframe.errors import DataError, SettingError, nearest
from clframe.hookspecs import hookimpl
from clframe.robot.demonstrations import Demonstration
from clframe.robot.evaluation import episodes_of
from clframe.robot.formats.lerobot.checks import reading
from clframe.robot.formats.lerobot.read import Episode, LerobotFolder, task_name
from clframe.robot.formats.recording import RGB
from clframe.robot.offline_evaluation import HeldOut
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import STATE, RobotTask
from clframe.robot.workers import RolloutPlace
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry
    from clframe.core.stream import Stream

Place = tuple[LerobotFolder, Episode]


@dataclass(frozen=True)
class RecordingSettings(ImitationSettings):
    """Imitation-learning settings without those for rollouts."""

    num_demos: int = field(default=1, init=False)
    eval_episodes: int = field(default=1, init=False)
    horizon: int = field(default=1, init=False)
    goal_seed: int = field(default=0, init=False)
    num_envs: int = field(default=1, init=False)
    num_workers: int | None = field(default=0, init=False)
    record_ahead: bool | None = field(default=None, init=False)
    stop_threshold: float | None = field(default=None, init=False)
    stop_width: float | None = field(default=None, init=False)
    stop_alpha: float | None = field(default=None, init=False)
    rollouts: RolloutPlace = field(default="local", init=False)


@dataclass(frozen=True)
class Column:
    """A task of the stream: a name, an instruction, and episodes."""

    name: str
    language: str
    episodes: Sequence[Place]


@dataclass(frozen=True)
class Reader:
    """Reads episodes as inputs and actions of a policy.

    Args:
        states: Names of the observations that form the state.
        images: Names of the image observations.
        size: Side of an image in pixels.
        center: The center of the actions, per number.
        half: Half the range of the actions, which is their unit.
    """

    states: tuple[str, ...]
    images: tuple[str, ...]
    size: int
    center: NDArray[np.float32]
    half: NDArray[np.float32]

    def __call__(self, places: Sequence[Place]) -> list[Demonstration]:
        """Return the demonstrations of some episodes, in order."""
        demo_of: dict[tuple[int, int], Demonstration] = {}
        folders = {id(folder): folder for folder, _ in places}
        for key, folder in folders.items():
            episodes = [episode for other, episode in places if other is folder]
            demos = folder.read(episodes, (*self.states, *self.images), self._resized)
            for episode, demo in zip(episodes, demos, strict=True):
                demo_of[key, episode.index] = demo
        return [
            self._demonstration(demo_of[id(folder), episode.index]) for folder, episode in places
        ]

    def _demonstration(self, demo: Demonstration) -> Demonstration:
        observations = demo.observations
        state = np.concatenate([observations[name] for name in self.states], 1).astype(np.float32)
        images = {name: observations[name] for name in self.images}
        actions = (demo.actions - self.center) / self.half
        return Demonstration(actions, {STATE: state, **images})

    def _resized(self, image: NDArray[Any]) -> NDArray[Any]:
        from PIL import Image

        if image.shape[:2] == (self.size, self.size):
            return image
        pil_image = Image.fromarray(image)
        return np.asarray(pil_image.resize((self.size, self.size), Image.Resampling.BOX))


def lerobot(
    data_dir: Path,
    path: str | list[str],
    seed: int = 0,
    by: Literal["task", "dataset"] = "task",
    cameras: list[str] | None = None,
    size: int = 64,
    max_episodes: int | None = None,
    held_out: float = 0.1,
    tolerance: float = 0.1,
    imitation: RecordingSettings = RecordingSettings(),
) -> Stream:
    """LeRobot datasets (v3.0), evaluated by the actions of held-out episodes.

    Args:
        data_dir: The data folder; a relative path that does not exist is searched there.
        path: The folder of a dataset, or a list of folders.
        seed: The run's seed.
        by: The unit of an experience: every ``task`` (instruction), or every ``dataset``.
        cameras: Cameras that the policy sees in addition to the state, by the dataset's names, such
            as ``top``; choose a model that reads images (resnet_t, ...). null: only the state.
        size: Side of an image in pixels; larger images are scaled down.
        max_episodes: Use at most this many episodes per experience; null uses all.
        held_out: Share of an experience's episodes to evaluate on instead of training, at least
            one. A hash of the seed and an episode's number decides, so additional episodes do not
            move others.
        tolerance: Largest error of every number of an action for ``within``, in half ranges.
        imitation: The settings that all robot streams share.
    """
    at_least(size, 8, "stream.size")
    at_least(max_episodes, 2, "stream.max_episodes")
    if not 0 < held_out < 1 or not tolerance > 0:
        raise SettingError("stream.held_out must be between 0 and 1, stream.tolerance above 0")
    paths = [path] if isinstance(path, str) else path
    folders = [LerobotFolder(_resolved(Path(folder).expanduser(), data_dir)) for folder in paths]
    if not folders:
        raise SettingError("stream.path must name at least one folder")
    with reading(folders[0].root):
        reader = _reader(folders, cameras, size)
        columns = _columns(folders, by, max_episodes)
    sides = [_sides(column.episodes, folders, held_out, seed) for column in columns]

    @functools.lru_cache(maxsize=1)
    def learned(index: int) -> list[Demonstration]:
        return reader(sides[index][0])

    @functools.cache
    def measured(index: int) -> list[Demonstration]:
        return reader(sides[index][1])

    stream = imitation_stream(
        "lerobot",
        [RobotTask(column.name, "lerobot", column.language, _no_simulator) for column in columns],
        range(len(columns)),
        imitation,
        data_dir,
        sum(_size(folders[0], name) for name in reader.states),
        len(reader.center),
        seed=seed,
        source=f"{sum(len(kept) for kept, _ in sides)} episodes of "
        f"{', '.join(folder.root.name for folder in folders)}; "
        f"{sum(len(others) for _, others in sides)} more are measured on",
        images=reader.images,
        image_size=size,
        read=learned,
    )
    tasks = []
    for task in stream.tasks:
        inputs = episodes_of(task).inputs
        evaluation = HeldOut(inputs, functools.partial(measured, task.index), tolerance)
        tasks.append(dataclasses.replace(task, evaluation=evaluation))
    experiences = [
        dataclasses.replace(experience, tasks=(tasks[experience.index],))
        for experience in stream.experiences
    ]
    return dataclasses.replace(stream, experiences=experiences, tasks=tasks)


def _sides(
    episodes: Sequence[Place], folders: Sequence[LerobotFolder], share: float, seed: int
) -> tuple[list[Place], list[Place]]:
    """Return training and evaluation episodes; additional episodes do not move others."""
    keys = [f"{folders.index(folder)}/{episode.index}" for folder, episode in episodes]
    tested, _ = choose_held_out(keys, [None] * len(keys), share, seed)
    pairs = list(zip(episodes, tested.tolist(), strict=True))
    return [one for one, out in pairs if not out], [one for one, out in pairs if out]


def _no_simulator() -> NoReturn:
    raise SettingError("a recorded dataset has no simulator to act in")


def _resolved(path: Path, data_dir: Path) -> Path:
    return path if path.exists() or path.is_absolute() else data_dir / path


def _columns(folders: Sequence[LerobotFolder], by: str, max_episodes: int | None) -> list[Column]:
    """Group the episodes by task or dataset, in order of appearance."""
    groups: dict[str, list[Place]] = {}
    for number, folder in enumerate(folders):
        for episode in folder.episodes:
            key = episode.language if by == "task" else str(number)
            groups.setdefault(key, []).append((folder, episode))
    columns: list[Column] = []
    for number, (key, group) in enumerate(groups.items()):
        language, name = key, task_name(key, number)
        if by == "dataset":
            folder = group[0][0]
            language, name = "; ".join(folder.by_task()), folder.root.resolve().name
        if any(column.name == name for column in columns):
            name = f"{name}_{number}"
        chosen = group[:max_episodes]
        if len(chosen) < 2:
            raise DataError(
                f"'{name}' has only one episode, but needs one for training and one for evaluation"
                + ("; try stream.by=dataset" if by == "task" else "")
            )
        columns.append(Column(name, language, chosen))
    return columns


def _reader(folders: Sequence[LerobotFolder], cameras: list[str] | None, size: int) -> Reader:
    """Return a reader that is the same for all datasets.

    Raises:
        DataError: The datasets differ in observations or actions, or lack one.
    """
    first = folders[0]
    states = _states(first)
    images = tuple(_image(first, camera) for camera in cameras or ())
    for folder in folders:
        for name in (*states, *images):
            if name not in folder.observations:
                raise DataError(
                    f"'{folder.root}' has no '{first.observations[name]}', which '{first.root}' "
                    "has; all datasets of a stream must have the same features"
                )
        for feature in ("action", *(first.observations[name] for name in states)):
            shapes = [list(dataset.features[feature]["shape"]) for dataset in (first, folder)]
            if shapes[0] != shapes[1] or len(shapes[1]) != 1:
                raise DataError(
                    f"'{feature}' has the shape {shapes[1]} in '{folder.root}', but {shapes[0]} in "
                    f"'{first.root}'; all datasets of a stream must have the same shape"
                )
    center, half = _range(folders)
    return Reader(states, images, size, center, half)


def _states(folder: LerobotFolder) -> tuple[str, ...]:
    """Return the observations of the state: robot's and environment's, or all vectors."""
    vectors = [
        name
        for name, feature in folder.observations.items()
        if folder.features[feature]["dtype"] not in ("image", "video")
    ]
    usual = tuple(name for name in (STATE, "environment_state") if name in vectors)
    if not vectors:
        raise DataError(
            f"'{folder.root}' has no vector observation such as observation.state, only "
            f"{', '.join(folder.features)}"
        )
    return usual or tuple(sorted(vectors))


def _size(folder: LerobotFolder, name: str) -> int:
    return int(folder.features[folder.observations[name]]["shape"][0])


def _image(folder: LerobotFolder, camera: str) -> str:
    cameras = [
        name.removesuffix(RGB)
        for name, feature in folder.observations.items()
        if name.endswith(RGB) and folder.features[feature]["dtype"] in ("image", "video")
    ]
    if camera not in cameras:
        raise SettingError(f"'{folder.root}' has no camera '{camera}'; {nearest(camera, cameras)}")
    return camera + RGB


def _range(folders: Sequence[LerobotFolder]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return center and half range of all actions from the statistics; 0 and 1 within -1..1."""
    lows: list[NDArray[np.float64]] = []
    highs: list[NDArray[np.float64]] = []
    for folder in folders:
        stats = folder.stats.get("action", {})
        size = folder.features["action"]["shape"][0]
        if not isinstance(stats, dict):
            stats = {}
        for name, values in (("min", lows), ("max", highs)):
            with reading(folder.root / "meta/stats.json"):
                bound = np.asarray(stats.get(name, ()), np.float64)
            if bound.shape != (size,) or not np.isfinite(bound).all():
                raise DataError(
                    f"'{folder.root / 'meta/stats.json'}' must have the {name} of the {size} "
                    "numbers of 'action'"
                )
            values.append(bound)
    low, high = np.min(lows, 0), np.max(highs, 0)
    if low.min() >= -1 and high.max() <= 1:
        return np.zeros(len(low), np.float32), np.ones(len(low), np.float32)
    half = np.maximum((high - low) / 2, 1e-6)
    return ((high + low) / 2).astype(np.float32), half.astype(np.float32)


@hookimpl
def register(registry: Registry) -> None:
    """Register the stream."""
    registry.add("stream", "lerobot", lerobot, family="lerobot")
