"""BEHAVIOR's activities as streams: one after the other is learned from the planner, or by reward.

Activities of Srivastava et al., "BEHAVIOR" (2021), and Li et al., "BEHAVIOR-1K" (2022). A policy
chooses one primitive with one thing at a time; the measure is Q, the share of the goal that holds
at the end of an episode.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from clframe.errors import DataError, SettingError, nearest
from clframe.robot.observation_windows import Normalizer
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import RobotTask
from clframe.streams.behavior import robot_tasks
from clframe.streams.behavior.efficiency import METRICS, NORMALIZED
from clframe.utils.setting_checks import at_least
from clframe.worlds.behavior import corpus, features, generate
from clframe.worlds.behavior.faults import at_goal
from clframe.worlds.behavior.layout import VERBS, Primitives
from clframe.worlds.behavior.planner.search import require
from clframe.worlds.behavior.sampling import sample
from clframe.worlds.behavior.supplies import gather

if TYPE_CHECKING:
    from clframe.core.registry import Registry
    from clframe.core.stream import Stream

TWELVE = (
    "bringing_in_wood",
    "collect_misplaced_items",
    "moving_boxes_to_storage",
    "organizing_file_cabinet",
    "throwing_away_leftovers",
    "putting_dishes_away_after_cleaning",
    "putting_leftovers_away",
    "re-shelving_library_books",
    "laying_tile_floors",
    "setting_up_candles",
    "picking_up_trash",
    "storing_food",
)
"""The activities that the paper's Table 2 measures reinforcement learning on."""
ALL_MEASURES = (*robot_tasks.MEASURES, *METRICS, *NORMALIZED)
"""What can fill the matrix."""
_FORMAT = 1
"""Of the observations: demonstrations of another one are not read."""
_TABLE = 1
"""Of bodies and motions with physics; likewise."""
Physics = Literal["on", "off"] | bool
"""Files in YAML read on and off as true and false, the command line reads words."""


@dataclass(frozen=True)
class Activity:
    """One task of a stream.

    Args:
        name: Of the task.
        source: Where it comes from: (corpus, name), or (text, path).
        published: Whether it is of a corpus.
        version: What tells its demonstrations from those of another activity of the name.
    """

    name: str
    source: robot_tasks.Source
    published: bool = True
    version: str = ""


def chosen(name: str, all_of: Sequence[str], activities: list[str] | None) -> list[str]:
    """Those of a stream's activities that are asked for, in its order.

    Raises:
        SettingError: The stream does not have one.
    """
    for activity in activities or ():
        if activity not in all_of:
            raise SettingError(
                f"stream '{name}' has no activity '{activity}'; {nearest(activity, all_of)}"
            )
    return [activity for activity in all_of if activities is None or activity in activities]


def behavior_stream(
    name: str,
    activities: Sequence[Activity],
    data_dir: Path,
    seed: int,
    source: str,
    slots: int | None,
    primitives: Primitives,
    measure: str,
    efficiency: bool,
    physics: Physics,
    imitation: ImitationSettings,
) -> Stream:
    """Activities as tasks of one stream.

    Args:
        name: Of the stream.
        activities: Its tasks.
        data_dir: The data folder.
        seed: Of the run.
        source: Where the activities are from.
        slots: Things that a household may have; None for the most of any activity.
        primitives: Of the agent.
        measure: What fills the matrix.
        efficiency: Whether the efficiency metrics are measured, too.
        physics: Whether primitives are done by a hand on a table.
        imitation: What all robot streams have in common.
    """
    if primitives not in VERBS:
        raise SettingError(
            f"stream.primitives must be one of {', '.join(get_args(Primitives))}, got "
            f"'{primitives}'"
        )
    if measure not in ALL_MEASURES:
        raise SettingError(f"stream.measure has no '{measure}'; {nearest(measure, ALL_MEASURES)}")
    record = efficiency or measure not in robot_tasks.MEASURES
    measured = ALL_MEASURES if record else robot_tasks.MEASURES
    if slots is not None:
        at_least(slots, 1, "stream.slots")
    rows = slots or max(
        len(gather(robot_tasks.problem_of(activity.source, activity.published)).types)
        for activity in activities
    )
    size = features.size(rows, len(VERBS[primitives]))
    mujoco = _check_table(activities) if _is_on(physics) else None
    robots = [
        _robot(activity, rows, primitives, record, mujoco, imitation.horizon)
        for activity in activities
    ]
    others = tuple(other for other in measured if other != measure)
    n_choices = len(VERBS[primitives]) * rows
    return imitation_stream(
        name,
        robots,
        range(len(robots)),
        imitation,
        data_dir,
        size,
        n_choices,
        Normalizer(np.zeros(size, np.float32), np.ones(size, np.float32)),
        seed,
        f"{imitation.num_demos} demonstrations per activity by the planner; {source} "
        + (f"on MuJoCo {mujoco}" if mujoco else "without physics"),
        mask=slice(0, n_choices),
        measures=(measure, *others),
    )


def _is_on(physics: Physics) -> bool:
    return physics in ("on", True)


def _check_table(activities: Sequence[Activity]) -> str:
    """Refuse activities that a table cannot have; the result is MuJoCo's version."""
    import mujoco

    from clframe.streams.behavior.physics_choices import require_table

    for activity in activities:
        require_table(robot_tasks.problem_of(activity.source, activity.published))
    return str(mujoco.__version__)


def _robot(
    activity: Activity,
    rows: int,
    primitives: Primitives,
    record: bool,
    mujoco: str | None,
    horizon: int,
) -> RobotTask:
    """An activity as a task; with a version of MuJoCo, one with physics."""
    physics = mujoco is not None
    # All that decides what demonstrations look like, since files are kept by this name.
    family = f"behavior-{_FORMAT}-{primitives}-{rows}{activity.version}"
    settings = (activity.source, activity.published, horizon, rows, primitives, record, physics)
    return RobotTask(
        activity.name,
        f"{family}-table{_TABLE}-mujoco{mujoco}" if physics else family,
        activity.name.replace("_", " "),
        functools.partial(robot_tasks.environment, *settings),
        robot_tasks.physical_expert if physics else robot_tasks.expert,
        horizon,
        facts={"mujoco": mujoco} if physics else {},
        discrete=True,
        variant=f"-{horizon}{'-recorded' * record}",
    )


def of_corpus(
    name: str,
    group: str,
    all_of: Callable[[], Sequence[str]],
    data_dir: Path,
    seed: int = 0,
    activities: list[str] | None = None,
    slots: int | None = None,
    primitives: Primitives = "all",
    measure: str = "q",
    efficiency: bool = False,
    physics: Physics = "off",
    imitation: ImitationSettings = ImitationSettings(
        num_demos=20, horizon=250, num_envs=20, num_workers=0
    ),
) -> Stream:
    """Published activities, learned one after the other.

    Args:
        name: Of the stream.
        group: The corpus.
        all_of: Its activities.
        data_dir: The data folder.
        seed: Of the run.
        activities: Learn only these, in the stream's order; None for all.
        slots: Things that a household may have; None for the most of any activity.
        primitives: Of the agent: the paper's ``six``, or ``all``.
        measure: What fills the matrix: ``q``, ``success``, ``steps``, or one of the efficiency
            metrics, such as ``distance_navigated``, or ``distance_navigated_normalized`` for its
            share of the planner's.
        efficiency: Whether all efficiency metrics are measured beside it.
        physics: Whether primitives are done by a hand on a table with physics, which not every
            activity fits.
        imitation: What all robot streams have in common.
    """
    names = chosen(name, all_of(), activities)
    return behavior_stream(
        name,
        [Activity(activity, (group, activity)) for activity in names],
        data_dir,
        seed,
        f"activities of {corpus.CORPORA[group]}",
        slots,
        primitives,
        measure,
        efficiency,
        physics,
        imitation,
    )


def of_files(
    data_dir: Path,
    seed: int = 0,
    files: list[str] | None = None,
    slots: int | None = None,
    primitives: Primitives = "all",
    measure: str = "q",
    efficiency: bool = False,
    physics: Physics = "off",
    imitation: ImitationSettings = ImitationSettings(
        num_demos=20, horizon=250, num_envs=20, num_workers=0
    ),
) -> Stream:
    """Activities of your own, learned one after the other.

    Args:
        data_dir: The data folder.
        seed: Of the run.
        files: BDDL files, in the order of learning.
        slots: Things that a household may have; None for the most of any activity.
        primitives: Of the agent: the paper's ``six``, or ``all``.
        measure: What fills the matrix, as in ``behavior_12``.
        efficiency: Whether all efficiency metrics are measured beside it.
        physics: Whether primitives are done by a hand on a table with physics, which not every
            activity fits.
        imitation: What all robot streams have in common.

    Raises:
        ClframeError: A file is not there, is not BDDL, or is an activity that cannot be set up or
            that no primitives solve; with file, line and column.
    """
    if not files:
        raise DataError(
            "stream 'behavior_files' has no activities: put the paths of BDDL files into "
            "stream.files=[a.bddl,b.bddl]"
        )
    found = [_of_file(Path(file)) for file in files]
    names = [activity.name for activity in found]
    for name in names:
        if names.count(name) > 1:
            raise SettingError(f"stream.files has two files called '{name}'; rename one of them")
    settings = (slots, primitives, measure, efficiency, physics, imitation)
    source = f"{len(files)} BDDL file{'s' if len(files) > 1 else ''}"
    return behavior_stream("behavior_files", found, data_dir, seed, source, *settings)


def _of_file(path: Path) -> Activity:
    """A file's activity, of which one instance was set up and solved."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingError(f"stream.files: '{path}' cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingError(
            f"stream.files: '{path}' is not text in UTF-8 (byte {error.start})"
        ) from error
    source = (text, str(path))
    if not require(sample(robot_tasks.problem_of(source, False))).steps:
        problem = robot_tasks.problem_of(source, False)
        raise at_goal(problem, ("",), "The goal holds at the start; nothing is left to do.")
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return Activity(path.stem, source, False, f"-{digest}")


def of_generator(
    data_dir: Path,
    seed: int = 0,
    n_tasks: int = 10,
    activity_seed: int = 0,
    slots: int = 25,
    primitives: Primitives = "all",
    measure: str = "q",
    efficiency: bool = False,
    physics: Physics = "off",
    imitation: ImitationSettings = ImitationSettings(
        num_demos=20, horizon=100, num_envs=20, num_workers=0
    ),
) -> Stream:
    """Activities drawn from BEHAVIOR-100's vocabulary, as many as are wanted.

    Args:
        data_dir: The data folder.
        seed: Of the run.
        n_tasks: How many activities.
        activity_seed: Which ones.
        slots: Things that a household may have.
        primitives: Of the agent: the paper's ``six``, or ``all``.
        measure: What fills the matrix, as in ``behavior_12``.
        efficiency: Whether all efficiency metrics are measured beside it.
        physics: Whether primitives are done by a hand on a table with physics, which not every
            activity fits.
        imitation: What all robot streams have in common.
    """
    at_least(n_tasks, 1, "stream.n_tasks")
    at_least(activity_seed, 0, "stream.activity_seed")
    found = [
        Activity(f"generated_{activity_seed}_{number}", _generated(activity_seed, number), False)
        for number in range(n_tasks)
    ]
    settings = (slots, primitives, measure, efficiency, physics, imitation)
    source = "activities generated from BEHAVIOR-100's vocabulary,"
    return behavior_stream("behavior_generated", found, data_dir, seed, source, *settings)


def _generated(seed: int, number: int) -> robot_tasks.Source:
    return generate.generated(seed, number), f"generated_{seed}_{number}"


def add_streams(registry: Registry) -> None:
    """Add the streams."""

    def add(
        name: str, group: str, all_of: Callable[[], Sequence[str]], summary: str, **fixed: Any
    ) -> None:
        factory = functools.partial(of_corpus, name, group, all_of, **fixed)
        registry.add("stream", name, factory, summary, family="behavior")

    settings = ImitationSettings(num_demos=20, horizon=100, num_envs=20, num_workers=0)
    add(
        "behavior_12",
        "b100",
        lambda: TWELVE,
        "BEHAVIOR's twelve activities of the paper's Table 2",
        primitives="six",
        imitation=settings,
    )
    for name, group in (("behavior_100", "b100"), ("behavior_1k", "b1k")):
        known = functools.partial(corpus.solved, group)
        add(name, group, known, f"{corpus.CORPORA[group]}'s activities that the planner solves")
    for name, factory, summary in (
        ("behavior_generated", of_generator, "household activities generated without end"),
        ("behavior_files", of_files, "household activities of your own BDDL files"),
    ):
        registry.add("stream", name, factory, summary, family="behavior")
