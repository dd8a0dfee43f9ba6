"""Meta-World's 50 tasks as streams, learned from its scripted experts by imitation.

Task lists of Yu et al., "Meta-World", 2019, as in its version 3, and of Wołczyk et al., "Continual
World: A Robotic Benchmark For Continual Reinforcement Learning", 2021 (CW10 and CW20, which they
learn by reinforcement). Needs the package ``metaworld`` (extra ``clframe[metaworld]``).
"""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.errors import SettingError, nearest
from clframe.robot.observation_windows import Normalizer
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import RobotTask, episode_seeds
from clframe.utils.setting_checks import at_least
from clframe.worlds import metaworld as simulation

if TYPE_CHECKING:
    from clframe.core.registry import Registry
    from clframe.core.stream import Stream

# The instruction of every task, in the paper's words.
LANGUAGE = {
    "assembly": "assemble nut",
    "basketball": "basketball",
    "bin-picking": "pick bin",
    "box-close": "close box",
    "button-press-topdown": "press button from top",
    "button-press-topdown-wall": "press button from top behind wall",
    "button-press": "press button",
    "button-press-wall": "press button behind wall",
    "coffee-button": "get coffee",
    "coffee-pull": "pull mug",
    "coffee-push": "push mug",
    "dial-turn": "turn dial",
    "disassemble": "disassemble nut",
    "door-close": "close door",
    "door-lock": "lock door",
    "door-open": "open door",
    "door-unlock": "unlock door",
    "hand-insert": "insert hand",
    "drawer-close": "close drawer",
    "drawer-open": "open drawer",
    "faucet-open": "turn on faucet",
    "faucet-close": "turn off faucet",
    "hammer": "hammer",
    "handle-press-side": "press handle from side",
    "handle-press": "press handle",
    "handle-pull-side": "pull handle from side",
    "handle-pull": "pull handle",
    "lever-pull": "pull lever",
    "peg-insert-side": "insert peg from side",
    "pick-place-wall": "pick and place behind wall",
    "pick-out-of-hole": "pick out of hole",
    "reach": "reach",
    "push-back": "pull back",
    "push": "push",
    "pick-place": "pick and place",
    "plate-slide": "slide plate",
    "plate-slide-side": "slide plate to side",
    "plate-slide-back": "retrieve plate",
    "plate-slide-back-side": "retrieve plate from side",
    "peg-unplug-side": "unplug peg",
    "soccer": "soccer",
    "stick-push": "push with stick",
    "stick-pull": "pull with stick",
    "push-wall": "push behind wall",
    "reach-wall": "reach behind wall",
    "shelf-place": "place onto shelf",
    "sweep-into": "sweep into hole",
    "sweep": "sweep",
    "window-open": "open window",
    "window-close": "close window",
}
ALL = tuple(LANGUAGE)
MT10 = (
    "reach",
    "push",
    "pick-place",
    "door-open",
    "drawer-open",
    "drawer-close",
    "button-press-topdown",
    "peg-insert-side",
    "window-open",
    "window-close",
)
CW10 = (
    "hammer",
    "push-wall",
    "faucet-close",
    "push-back",
    "stick-pull",
    "handle-press-side",
    "push",
    "shelf-place",
    "window-close",
    "peg-unplug-side",
)
ML10 = (
    "reach",
    "push",
    "pick-place",
    "door-open",
    "drawer-close",
    "button-press-topdown",
    "peg-insert-side",
    "window-open",
    "sweep",
    "basketball",
)
ML10_TEST = ("drawer-open", "door-close", "shelf-place", "sweep-into", "lever-pull")
ML45_TEST = ("bin-picking", "box-close", "hand-insert", "door-lock", "door-unlock")
ML45 = tuple(name for name in ALL if name not in ML45_TEST)

# Center and spread of the workspace in meters, and of the state's other numbers. They are known
# before any task is seen, so that normalized inputs do not reveal later tasks.
_PLACE = ((0.0, 0.12), (0.6, 0.12), (0.15, 0.12))
_GRIPPER = (0.5, 0.5)
_OBJECT = (*_PLACE, *((0.0, 1.0),) * 4)
_STEP = (*_PLACE, _GRIPPER, *_OBJECT, *_OBJECT)
_OBJECTS = (*range(4, 18), *range(22, 36))
# The state now, one step ago, and the goal.
_VARIATION = 3
"""Purpose of the seeds of variations, in addition to those in clframe/robot/task.py."""
_PARTS = {"hand": (0, 1, 2, 18, 19, 20), "gripper": (3, 21), "goal": (36, 37, 38)}


def normalizer(goal_visible: bool, objects_visible: bool = True) -> Normalizer:
    """Return the normalizer of the 39 numbers; it hides what the policy must not see.

    >>> normalizer(False).scale[-1]
    np.float32(inf)
    """
    hidden = (*(() if objects_visible else _OBJECTS), *(() if goal_visible else _PARTS["goal"]))
    return Normalizer.of_pairs((*_STEP, *_STEP, *_PLACE), hidden)


def robot_task(
    name: str, camera: str | None = None, size: int = 64, variation: tuple[int, int] | None = None
) -> RobotTask:
    """Return a task by name, without ``-v3``, optionally seen by a camera.

    Args:
        name: The task's name.
        camera: One of Meta-World's cameras, or None.
        size: Side of an image in pixels.
        variation: Number of the variation, and the goals' seed, for a task with a fixed goal and
            fixed positions; None: each episode draws its own.
    """
    if name not in LANGUAGE:
        raise SettingError(f"Meta-World has no task '{name}'; {nearest(name, LANGUAGE)}")
    versions = simulation.versions()
    family = f"metaworld-{versions['metaworld']}-mujoco-{versions['mujoco']}"
    make = functools.partial(simulation.make, name)
    if camera is not None:
        simulation.check_camera(camera)
        family += f"-{camera}-{size}"
        make = functools.partial(make, camera=camera, size=size)
    title = name
    if variation is not None:
        number, goals = variation
        key = (zlib.crc32(name.encode()), goals, _VARIATION)
        make = functools.partial(make, variation=episode_seeds(1, *key, start=number)[0])
        family, title = f"{family}-goals-{goals}", f"{name}-{number}"
    return RobotTask(
        title,
        family,
        LANGUAGE[name],
        make,
        simulation.expert,
        simulation.LONGEST,
        versions,
    )


def metaworld(
    name: str,
    learned: Sequence[str],
    held_out: Sequence[str],
    data_dir: Path,
    seed: int = 0,
    tasks: list[str] | None = None,
    goal_visible: bool = True,
    camera: str | None = None,
    size: int = 64,
    rounds: int = 1,
    variations: int | None = None,
    adapt: bool = False,
    imitation: ImitationSettings = ImitationSettings(),
) -> Stream:
    """Meta-World tasks, learned one after the other from demonstrations or by reward.

    Args:
        name: The stream's name.
        learned: The task of each experience; a task may occur more than once.
        held_out: Tasks that are evaluated and never learned.
        data_dir: The data folder.
        seed: The run's seed.
        tasks: Learn only these of the stream's tasks, in its order; None for all.
        goal_visible: Whether the policy observes the position of the goal.
        camera: The camera that the policy sees through (``corner``, ``topview``, ...); of the state
            it then observes only the hand. Choose a model that reads images (resnet_t, ..., or
            policy with ``image=SIZE``). None: it observes the whole state.
        size: Side of an image in pixels.
        rounds: How often to learn all tasks in turn.
        variations: Split each task into n tasks, each with one fixed goal and fixed positions of
            all objects (Meta-World's ML has 50); None: goals are new in every episode.
        adapt: Learn the held-out tasks at the end, for ``strategy=reptile``; for ML1, which has
            none, learn n further variations.
        imitation: The settings that all robot streams share.
    """
    at_least(rounds, 1, "stream.rounds")
    at_least(variations, 1, "stream.variations")
    if tasks is not None:
        for task in tasks:
            if task not in learned:
                raise SettingError(
                    f"stream '{name}' has no task '{task}'; {nearest(task, learned)}"
                )
        learned = [task for task in learned if task in tasks]
    if imitation.horizon > simulation.LONGEST:
        raise SettingError(
            f"stream.horizon must be at most {simulation.LONGEST}, Meta-World's longest episode, "
            f"got {imitation.horizon}"
        )
    taught, others = _varied(learned, held_out, variations, adapt, name)
    taught *= rounds
    columns = {task: index for index, task in enumerate(dict.fromkeys([*taught, *others]))}
    adapted = others if adapt else []
    versions = simulation.versions()
    goals = imitation.goal_seed
    stream = imitation_stream(
        name,
        [
            robot_task(task, camera, size, None if number is None else (number, goals))
            for task, number in columns
        ],
        [columns[task] for task in [*taught, *adapted]],
        imitation,
        data_dir,
        simulation.STATE_SIZE,
        simulation.ACTION_SIZE,
        normalizer(goal_visible, camera is None),
        seed,
        f"{imitation.num_demos} demonstrations per task by the scripted experts of Meta-World "
        f"{versions['metaworld']} on MuJoCo {versions['mujoco']}",
        () if camera is None else (f"{camera}_rgb",),
        size,
        _PARTS if goal_visible else {part: _PARTS[part] for part in ("hand", "gripper")},
    )
    experiences = [
        dataclasses.replace(experience, info={**experience.info, "adapts": True})
        if experience.index >= len(taught)
        else experience
        for experience in stream.experiences
    ]
    return dataclasses.replace(stream, experiences=experiences)


_Varied = tuple[str, int | None]
"""A task and its variation."""


def _varied(
    learned: Sequence[str],
    held_out: Sequence[str],
    variations: int | None,
    adapt: bool,
    stream: str,
) -> tuple[list[_Varied], list[_Varied]]:
    """Return the variations to learn, one per visit of a task, and the held-out ones."""
    if adapt and not held_out and variations is None:
        raise SettingError(
            f"stream.adapt=true: stream '{stream}' has no held-out tasks; for ML1, set "
            "stream.variations too"
        )
    if variations is None:
        return [(task, None) for task in learned], [(task, None) for task in held_out]
    numbers = range(variations)
    taught: list[_Varied] = [(task, number) for number in numbers for task in learned]
    if held_out:
        return taught, [(task, number) for task in held_out for number in numbers]
    further = range(variations, 2 * variations) if adapt else ()
    return taught, [(task, number) for task in dict.fromkeys(learned) for number in further]


def add_streams(registry: Registry) -> None:
    """Register the streams."""

    def add(
        name: str, learned: Sequence[str], held_out: Sequence[str], summary: str, **fixed: Any
    ) -> None:
        factory = functools.partial(metaworld, name, tuple(learned), tuple(held_out), **fixed)
        registry.add("stream", name, factory, summary, family="metaworld")

    add("metaworld_mt10", MT10, (), "Meta-World's ten tasks MT10 by imitation")
    add("metaworld_mt50", ALL, (), "Meta-World's fifty tasks by imitation")
    add("metaworld_cw10", CW10, (), "Continual World's ten Meta-World tasks by imitation")
    add("metaworld_cw20", (*CW10, *CW10), (), "Continual World's ten tasks, twice, by imitation")
    hidden = {"goal_visible": False}
    add("metaworld_ml10", ML10, ML10_TEST, "Meta-World's ML10: ten tasks, five held out", **hidden)
    add("metaworld_ml45", ML45, ML45_TEST, "Meta-World's ML45: 45 tasks, five held out", **hidden)
    for task in ALL:
        add(f"metaworld_ml1_{task}", (task,), (), "Meta-World's ML1: one task", **hidden)
