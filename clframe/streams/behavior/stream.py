"""BEHAVIOR's activities as streams, learned one after the other from the planner or by reward.

Activities of Srivastava et al., "BEHAVIOR" (2021), and Li et al., "BEHAVIOR-1K" (2022). A policy
chooses one primitive with one object at a time. The measure is Q, the share of the goal that holds
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
"""The activities of the paper's Table 2, which evaluates reinforcement learning."""
ALL_MEASURES = (*robot_tasks.MEASURES, *METRICS, *NORMALIZED)
"""The measures that can fill the matrix."""
_FORMAT = 1
"""Version of the observations: demonstrations of other versions are not read."""
_TABLE = 1
"""Version of bodies and motions with physics: demonstrations of other versions are not read."""
Physics = Literal["on", "off"] | bool
"""YAML files read on and off as true and false; the command line keeps the text."""


@dataclass(frozen=True)
class Activity:
    """One task of a stream.

    Args:
        name: The task's name.
        source: Its origin: (corpus, name), or (text, path).
        published: Whether it belongs to a corpus.
        version: Distinguishes its demonstrations from other activities of the same name.
    """

    name: str
    source: robot_tasks.Source
    published: bool = True
    version: str = ""


def chosen(name: str, all_of: Sequence[str], activities: list[str] | None) -> list[str]:
    """Return the requested activities of a stream, in the stream's order.

    Raises:
        SettingError: The stream lacks one of them.
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
    """Return a stream with activities as its tasks.

    Args:
        name: The stream's name.
        activities: Its tasks.
        data_dir: The data folder.
        seed: The run's seed.
        source: Describes where the activities are from.
        slots: Largest number of objects in a household; None for the most of any activity.
        primitives: The agent's primitives.
        measure: The measure that fills the matrix.
        efficiency: Whether to record the efficiency metrics too.
        physics: Whether a hand executes the primitives on a table with physics.
        imitation: The settings that all robot streams share.
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
    """Check that activities fit on a table; return MuJoCo's version."""
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
    """Return an activity as a task; a version of MuJoCo selects physics."""
    physics = mujoco is not None
    # Files are kept under this name, so it includes everything that determines their content.
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
        name: The stream's name.
        group: The corpus.
        all_of: Its activities.
        data_dir: The data folder.
        seed: The run's seed.
        activities: Learn only these, in the stream's order; None for all.
        slots: Largest number of objects in a household; None for the most of any activity.
        primitives: The agent's primitives: the paper's ``six``, or ``all``.
        measure: The measure that fills the matrix: ``q``, ``success``, ``steps``, or one of the
            efficiency metrics, such as ``distance_navigated``, or ``distance_navigated_normalized``
            for its ratio to the planner's.
        efficiency: Whether to record all efficiency metrics too.
        physics: Whether a hand executes the primitives on a table with physics; some activities do
            not fit.
        imitation: The settings that all robot streams share.
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
    """Your own activities, learned one after the other.

    Args:
        data_dir: The data folder.
        seed: The run's seed.
        files: BDDL files in learning order.
        slots: Largest number of objects in a household; None for the most of any activity.
        primitives: The agent's primitives: the paper's ``six``, or ``all``.
        measure: The measure that fills the matrix, as in ``behavior_12``.
        efficiency: Whether to record all efficiency metrics too.
        physics: Whether a hand executes the primitives on a table with physics; some activities do
            not fit.
        imitation: The settings that all robot streams share.

    Raises:
        ClframeError: A file does not exist, is not BDDL, cannot be set up, or cannot be solved by
            any primitives; the error names the file, line and column.
    """
    if not files:
        raise DataError(
            "stream 'behavior_files' has no activities; put the paths of BDDL files into "
            "stream.files=[a.bddl,b.bddl]"
        )
    from_files = [_of_file(Path(file)) for file in files]
    names = [activity.name for activity in from_files]
    for name in names:
        if names.count(name) > 1:
            raise SettingError(f"stream.files has two files called '{name}'; rename one of them")
    settings = (slots, primitives, measure, efficiency, physics, imitation)
    source = f"{len(files)} BDDL file{'s' if len(files) > 1 else ''}"
    return behavior_stream("behavior_files", from_files, data_dir, seed, source, *settings)


def _of_file(path: Path) -> Activity:
    """Return a file's activity, after setting up and solving one instance."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingError(f"stream.files: cannot read '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingError(
            f"stream.files: '{path}' is not UTF-8 text (byte {error.start})"
        ) from error
    source = (text, str(path))
    if not require(sample(robot_tasks.problem_of(source, False))).steps:
        problem = robot_tasks.problem_of(source, False)
        raise at_goal(problem, ("",), "The goal already holds at the start.")
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
    """Activities drawn from BEHAVIOR-100's vocabulary, any number of them.

    Args:
        data_dir: The data folder.
        seed: The run's seed.
        n_tasks: Number of activities.
        activity_seed: The seed of the activities.
        slots: Largest number of objects in a household.
        primitives: The agent's primitives: the paper's ``six``, or ``all``.
        measure: The measure that fills the matrix, as in ``behavior_12``.
        efficiency: Whether to record all efficiency metrics too.
        physics: Whether a hand executes the primitives on a table with physics; some activities do
            not fit.
        imitation: The settings that all robot streams share.
    """
    at_least(n_tasks, 1, "stream.n_tasks")
    at_least(activity_seed, 0, "stream.activity_seed")
    generated = [
        Activity(f"generated_{activity_seed}_{number}", _generated(activity_seed, number), False)
        for number in range(n_tasks)
    ]
    settings = (slots, primitives, measure, efficiency, physics, imitation)
    source = "activities generated from BEHAVIOR-100's vocabulary,"
    return behavior_stream("behavior_generated", generated, data_dir, seed, source, *settings)


def _generated(seed: int, number: int) -> robot_tasks.Source:
    return generate.generated(seed, number), f"generated_{seed}_{number}"


def add_streams(registry: Registry) -> None:
    """Register the streams."""

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
        solved = functools.partial(corpus.solved, group)
        add(name, group, solved, f"{corpus.CORPORA[group]}'s activities that the planner solves")
    for name, factory, summary in (
        ("behavior_generated", of_generator, "an endless stream of generated household activities"),
        ("behavior_files", of_files, "household activities of your own BDDL files"),
    ):
        registry.add("stream", name, factory, summary, family="behavior")
