"""The tabletop suites as streams, learned from the scripted expert's demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clframe.errors import SettingError, nearest
from clframe.robot.evaluation import MEASURES
from clframe.robot.observation_windows import Normalizer
from clframe.robot.perturbation import PerturbSettings
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.streams.tabletop.imitation import LIMIT, START_NOISE, robot_task
from clframe.worlds.tabletop.compiler import RobotKind
from clframe.worlds.tabletop.observation import (
    Layout,
    Proprioception,
    common_layout,
    layout_of,
    suite_layout,
)
from clframe.worlds.tabletop.suites import FILES, GENERATED, SHIPPED, ordered
from clframe.worlds.tabletop.suites import tasks as suite_tasks
from clframe.worlds.tabletop.task_files import tasks_from_files

if TYPE_CHECKING:
    from clframe.core.stream import Stream

ACTION_SIZE = 7
MOST_NOISE = 0.1

# Center and spread of every number, in the order of `Layout`. They are known before any task is
# seen, so that normalized inputs do not reveal later tasks.
_PLACE = ((-0.05, 0.12), (0.0, 0.12), (0.1, 0.1))
_HAND = (
    *_PLACE,
    *((0.0, 0.6),) * 6,
    (0.05, 0.035),
    *((0.0, 0.03),) * 3,
    *((0.0, 0.15),) * 3,
    *((0.5, 0.5),) * 2,
)
_ARM = (
    *((0.0, 0.4),) * 3,
    (-2.2, 0.4),
    (0.0, 0.5),
    (2.4, 0.4),
    (0.8, 0.7),
    (0.026, 0.018),
    (-0.026, 0.018),
)
_OBJECT = ((0.5, 0.5), *_PLACE, *((0.0, 0.4),) * 3, *((0.0, 0.6),) * 6)
_FIXTURE = ((0.5, 0.5), *_PLACE, *((0.0, 0.7),) * 2, *((0.1, 0.2), *((0.0, 0.4),) * 3) * 3)


def normalizer(layout: Layout, objects_visible: bool = True) -> Normalizer:
    """Return the state's normalizer; hide objects that must be seen in images.

    >>> normalizer(suite_layout("tabletop_goal"), objects_visible=False).scale[-1]
    np.float32(inf)
    """
    pairs = [*_HAND, *(_ARM if layout.robot == "arm" else ())]
    pairs += [pair for _ in layout.objects for pair in _OBJECT]
    pairs += [pair for _ in layout.fixtures for pair in _FIXTURE]
    return Normalizer.of_pairs(
        pairs, () if objects_visible else range(layout.robot_size, layout.size)
    )


def tabletop(
    name: str,
    data_dir: Path,
    seed: int = 0,
    tasks: list[str | int] | None = None,
    n_tasks: int = 10,
    suite_seed: int = 0,
    files: list[str] | None = None,
    order: str = "default",
    layout: Literal["suite", "common"] = "suite",
    cameras: list[str] | None = None,
    size: int = 64,
    depth: bool = False,
    start_noise: float = START_NOISE,
    robot: RobotKind = "arm",
    proprioception: Proprioception = "all",
    imitation: ImitationSettings = ImitationSettings(),
    perturbed: PerturbSettings = PerturbSettings(),
) -> Stream:
    """A tabletop suite, learned from demonstrations one task after the other.

    Args:
        name: The suite's name.
        data_dir: The data folder.
        seed: The run's seed.
        tasks: Learn only these tasks of the suite, by name or number, in its order; None for all.
        n_tasks: Number of tasks in the generated suite.
        suite_seed: The seed of the generated suite.
        files: The task files of ``tabletop_files``.
        order: The order of learning: default, reversed, odd_then_even, both_ends, shuffled1, ...
        layout: The state has a slot for each object of the ``suite``, or of all of LIBERO's suites
            in ``common``, so that a policy can move from one suite to another.
        cameras: The cameras that the policy sees (agentview, wrist); of the state it then observes
            only the hand. Choose a model that reads images (resnet_t, ..., or policy with
            ``image=SIZE``). None: it observes the whole state.
        size: Side of an image in pixels.
        depth: Whether demonstrations include the cameras' depth; no policy here uses it.
        start_noise: Largest random offset of the hand's start in meters, in demonstrations and
            evaluation; 0 is LIBERO's single start.
        robot: ``arm``, with seven joints, or ``hand``, which floats. Their demonstrations are
            stored separately.
        proprioception: What sequence models observe of the robot: ``all``, the hand's pose, target
            and touch and, of an arm, the joints; or ``libero``, only its ``joint_states`` and
            ``gripper_states``: the model must learn the hand's position.
        imitation: The settings that all robot streams share; the goals drawn are start states here.
            LIBERO uses a horizon of 600.
        perturbed: The axes of `clframe.worlds.tabletop.perturb` for additional evaluation.
    """
    import mujoco

    if imitation.horizon > LIMIT:
        raise SettingError(f"stream.horizon must be at most {LIMIT}, got {imitation.horizon}")
    if name != FILES and files is not None:
        raise SettingError(f"stream '{name}' has its own tasks; use files with stream={FILES}")
    suite = (
        tasks_from_files(files or ()) if name == FILES else suite_tasks(name, n_tasks, suite_seed)
    )
    ordered_tasks = ordered(_chosen(name, suite, tasks), order)
    if layout == "suite":
        state_layout = (
            layout_of(task.problem for task in suite)
            if name == FILES
            else suite_layout(name, n_tasks, suite_seed)
        )
    elif name in SHIPPED:
        state_layout = common_layout()
    else:
        raise SettingError(f"stream '{name}' may have its own objects; omit stream.layout")
    if not 0 <= start_noise <= MOST_NOISE:
        raise SettingError(
            f"stream.start_noise must be between 0 and {MOST_NOISE} meters, got {start_noise}"
        )
    state_layout = state_layout.of(robot)
    robots = [
        robot_task(
            task,
            cameras or (),
            size,
            layout=state_layout,
            depth=depth,
            start_noise=start_noise,
            robot=robot,
        )
        for task in ordered_tasks
    ]
    stream = imitation_stream(
        name,
        robots,
        range(len(robots)),
        imitation,
        data_dir,
        state_layout.size,
        ACTION_SIZE,
        normalizer(state_layout, objects_visible=not cameras),
        seed,
        f"{imitation.num_demos} demonstrations per task by the scripted expert on MuJoCo "
        f"{mujoco.__version__}, robot {robot}",
        [f"{camera}_rgb" for camera in cameras or ()],
        size,
        state_layout.parts(proprioception),
        measures=(*MEASURES, "progress"),
    )
    return stream.perturbed(perturbed)


def _chosen(name: str, suite: Sequence[Any], only: list[str | int] | None) -> list[Any]:
    """Return the requested tasks of a suite, in its order."""
    if only is None:
        return list(suite)
    by_name = {str(number): task for number, task in enumerate(suite)}
    by_name |= {task.name: task for task in suite}
    for task_name in only:
        if str(task_name) not in by_name:
            names = [task.name for task in suite]
            raise SettingError(
                f"stream '{name}' has no task '{task_name}'; {nearest(str(task_name), names)}"
            )
    chosen = [by_name[str(task_name)] for task_name in only]
    return [task for task in suite if task in chosen]


def summaries() -> dict[str, str]:
    """Return a one-line summary of each stream."""
    return {
        "tabletop_spatial": "LIBERO's spatial tasks on a tabletop world: which bowl, by position",
        "tabletop_object": "LIBERO's object tasks on a tabletop world: which grocery",
        "tabletop_goal": "LIBERO's goal tasks on a tabletop world: what to do in one scene",
        "tabletop_long": "LIBERO's ten long tasks (LIBERO-10) on a tabletop world",
        "tabletop_90": "LIBERO's ninety tasks on a tabletop world, for pretraining",
        GENERATED: "generated tasks on a tabletop world, any number and seed",
        FILES: "your own task files (stream.files) on a tabletop world",
    }
