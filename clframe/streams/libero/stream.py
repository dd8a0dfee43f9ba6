"""The real LIBERO as streams: its 130 tasks, its initial states and its demonstrations.

Liu et al., "LIBERO: Benchmarking Knowledge Transfer for Lifelong Robot Learning", NeurIPS 2023.
Needs the package ``hf-libero`` (extra ``clframe[libero]``), and assets and demonstrations that
you download; see ``docs/libero.md``. The streams ``tabletop_*`` have the same tasks with our own
bodies and need no downloads.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clframe.errors import SettingError, nearest
from clframe.robot.observation_windows import Normalizer
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import EVALUATION, RobotTask, episode_seeds, seed_key
from clframe.streams.libero import demos as recordings
from clframe.utils.setting_checks import at_least
from clframe.worlds.libero import simulation
from clframe.worlds.libero.paths import Places, versions
from clframe.worlds.libero.state_vector import CAMERAS, IMAGE, OBSERVED, Layout
from clframe.worlds.libero.tasks import SUITES, LiberoTask, in_order, tasks_of

if TYPE_CHECKING:
    from clframe.core.registry import Registry
    from clframe.core.stream import Stream
    from clframe.robot.demonstrations import Demonstration

STARTS = 50
"""Initial states per task."""
LONGEST = 1000
"""Steps that LIBERO allows per episode."""
Instruction = Literal["name", "file"]
PARTS = {"gripper": range(2), "joint": range(2, OBSERVED)}
"""The state that policies with parts observe in addition to images."""

# Center and spread of every number, in the order of `Layout`. They are known before any task is
# seen, so that normalized inputs do not reveal later tasks.
_GRIPPER = ((0.02, 0.02), (-0.02, 0.02))
_JOINTS = ((0.0, 0.3), (0.1, 0.5), (0.0, 0.3), (-2.3, 0.5), (0.0, 0.3), (2.3, 0.5), (0.8, 0.5))
_HAND = ((-0.05, 0.12), (0.0, 0.15), (0.2, 0.12))
_OBJECT = ((0.0, 0.15), (0.0, 0.2), (0.05, 0.1), *((0.0, 0.7),) * 4)
_FIXTURE = (0.0, 0.3)


def normalizer(layout: Layout, objects_visible: bool = True) -> Normalizer:
    """Return the state's normalizer; with cameras, only what LIBERO's policies observe is visible.

    >>> normalizer(Layout(5, 4), objects_visible=False).scale[[8, 9]]
    array([0.5, inf], dtype=float32)
    """
    pairs = [*_GRIPPER, *_JOINTS, *_HAND, *_OBJECT * layout.objects, *[_FIXTURE] * layout.joints]
    return Normalizer.of_pairs(pairs, () if objects_visible else range(OBSERVED, layout.size))


def robot_task(
    task: LiberoTask,
    places: Places,
    cameras: list[str] | None = None,
    size: int = IMAGE,
    settle: int = 5,
    instruction: Instruction = "name",
) -> RobotTask:
    """Return a task for imitation; its k-th episode begins at its k-th initial state."""
    package_versions = versions()
    camera_suffix = f"-{'-'.join(cameras)}-{size}" if cameras else ""
    family = "-".join([task.suite, *(f"{name}-{at}" for name, at in package_versions.items())])
    layout = Layout.of(tasks_of(task.suite))
    make = functools.partial(
        simulation.make, task, places, layout, tuple(cameras or ()), size, settle
    )
    robot = RobotTask(
        task.name,
        f"{family}-settle-{settle}{camera_suffix}",
        task.instruction if instruction == "name" else task.language,
        make,
        simulation.no_expert,
        LONGEST,
        {"suite": task.suite, "settle": settle, **package_versions},
    )
    seeds = tuple(episode_seeds(STARTS, *seed_key(robot, 0, EVALUATION)))
    return dataclasses.replace(robot, environment=functools.partial(make, seeds=seeds))


@dataclass(frozen=True)
class LiberoSettings(ImitationSettings):
    """Imitation-learning settings without a goal seed, because LIBERO has fixed start states."""

    goal_seed: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eval_episodes > STARTS:
            raise SettingError(
                f"stream.eval_episodes must be at most {STARTS}, the initial states of a LIBERO "
                f"task, got {self.eval_episodes}"
            )
        if self.horizon > LONGEST:
            raise SettingError(f"stream.horizon must be at most {LONGEST}, got {self.horizon}")


def libero(
    name: str,
    data_dir: Path,
    seed: int = 0,
    order: int | list[int] = 0,
    cameras: list[str] | None = list(CAMERAS),  # noqa: B006  read as a setting, never changed
    size: int = IMAGE,
    instruction: Instruction = "name",
    imitation: LiberoSettings = LiberoSettings(horizon=600, task_input="language", num_envs=4),
    settle: int = 5,
    assets: str | None = None,
    init_states: str | None = None,
    demonstrations: str | None = None,
) -> Stream:
    """A suite of the real LIBERO, learned from its demonstrations one task after the other.

    Args:
        name: The suite's name.
        data_dir: The data folder.
        seed: The run's seed.
        order: LIBERO's task_order_index (0 to 20; libero_90 has only 0), or the numbers of the
            tasks to learn, possibly repeated.
        cameras: The cameras that the policy sees (agentview, eye_in_hand); of the state it then
            observes only its own joints, as in the paper. null: it observes the poses of all
            objects; choose ``model=policy`` with it.
        size: Side of an image in pixels: 128, or less to save memory.
        instruction: The instruction to use: ``name`` (the file's name, as LIBERO does) or ``file``
            (its :language).
        imitation: The settings that all robot streams share; episode k begins at LIBERO's initial
            state k, and each environment uses about a gigabyte.
        settle: Steps without motion before an episode begins.
        assets: LIBERO's folder of meshes; null is libero/assets in the data folder, or the
            package's own.
        init_states: Folder of initial states; null is libero/init_files in the data folder, or the
            package's own.
        demonstrations: Folder of LIBERO's datasets; null is libero/datasets in the data folder.
    """
    _check(cameras, size, settle)
    folders = {"assets": assets, "init_states": init_states, "demonstrations": demonstrations}
    places = Places.of(data_dir, folders)
    learned = in_order(name, order)
    columns = list(dict.fromkeys(learned))
    layout = Layout.of(tasks_of(name))
    package_versions = versions()
    at = ", ".join(f"{package} {number}" for package, number in package_versions.items())

    def read(number: int) -> list[Demonstration]:
        n = imitation.num_demos
        recordings.check_all(columns, places, n)
        return recordings.read(columns[number], places, n, layout, cameras or (), size)

    stream = imitation_stream(
        name,
        [robot_task(task, places, cameras, size, settle, instruction) for task in columns],
        [columns.index(task) for task in learned],
        imitation,
        data_dir,
        layout.size,
        simulation.ACTION_SIZE,
        normalizer(layout, objects_visible=not cameras),
        seed,
        f"{imitation.num_demos} demonstrations per task of LIBERO, instructions from the "
        f"{'file names' if instruction == 'name' else 'task files'}, {at}",
        [f"{camera}_rgb" for camera in cameras or ()],
        size,
        PARTS if cameras else None,
        read,
    )
    tasks = [
        dataclasses.replace(
            column,
            info={
                **column.info,
                "suite": name,
                "instructions": {"name": task.instruction, "file": task.language},
                "instruction": instruction,
                "versions": package_versions,
            },
        )
        for column, task in zip(stream.tasks, columns, strict=True)
    ]
    experiences = [
        dataclasses.replace(experience, tasks=(tasks[experience.tasks[0].index],))
        for experience in stream.experiences
    ]
    return dataclasses.replace(stream, experiences=experiences, tasks=tasks)


def _check(cameras: list[str] | None, size: int, settle: int) -> None:
    for camera in cameras or ():
        if camera not in CAMERAS:
            raise SettingError(
                f"LIBERO's recordings have no camera '{camera}'; {nearest(camera, CAMERAS)}"
            )
    if size < 8 or IMAGE % size:
        raise SettingError(f"stream.size must be 128, 64, 32, 16 or 8 pixels, got {size}")
    at_least(settle, 0, "stream.settle")


SUMMARIES = {
    "libero_spatial": "the real LIBERO-Spatial: which bowl, by position",
    "libero_object": "the real LIBERO-Object: which grocery",
    "libero_goal": "the real LIBERO-Goal: what to do in one scene",
    "libero_10": "the real LIBERO-Long: ten long tasks",
    "libero_90": "the real LIBERO-90: ninety tasks, for pretraining",
}


def add_streams(registry: Registry) -> None:
    """Register the suites as streams."""
    for suite in SUITES:
        factory = functools.partial(libero, suite)
        registry.add("stream", suite, factory, SUMMARIES[suite], family="libero")
