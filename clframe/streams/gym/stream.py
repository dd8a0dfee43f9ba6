"""Streams of Gymnasium environments, one task each, for learning by reward."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.errors import DataError, SettingError
from clframe.robot.demonstrations import Demonstration
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import RobotTask
from clframe.utils.console import warn_user
from clframe.worlds.gym import kitchen
from clframe.worlds.gym.environments import Facts, GymEnvironment, Source, look, missing

if TYPE_CHECKING:
    from clframe.core.stream import Stream

SETTINGS = ImitationSettings(horizon=1000, num_workers=0)


def gym(
    data_dir: Path,
    seed: int = 0,
    envs: list[str | dict[str, Any]] | tuple[str, ...] = ("MountainCarContinuous-v0",),
    success_return: float | None = None,
    imitation: ImitationSettings = SETTINGS,
) -> Stream:
    """Gymnasium environments, learned by reward one after the other.

    Actions are numbers, scaled to -1 ... 1, or one choice; all environments need actions of the
    same kind and size. Observations of any kind are flattened into one state, padded with zeros to
    the longest. Text observations are omitted.

    An episode succeeds if the environment reports it (``info["success"]``, ``info["is_success"]``)
    at any step, or if its return reaches ``success_return``. For environments without such a
    report, this is by default their ``reward_threshold``, which Gymnasium defines as solved.

    Args:
        data_dir: Not used, because there are no demonstrations.
        seed: The run's seed.
        envs: The environment of each experience: a name in Gymnasium's registry, MODULE:ID, or
            MODULE:ATTRIBUTE for a subclass of ``gymnasium.Env`` or a function annotated to return
            one. Or a mapping with ``id``, ``name`` (of the task), ``success_return`` and arguments
            for the environment. A repeated name is the same task again.
        success_return: The return from which an episode succeeds; None: see above.
        imitation: The settings that all robot streams share; environments with a shorter limit than
            ``horizon`` end their episodes themselves.
    """
    named = [_entry(entry, success_return) for entry in envs]
    return _stream("gym", named, imitation, seed)


def franka_kitchen(
    data_dir: Path,
    seed: int = 0,
    tasks: list[str] | tuple[str, ...] = kitchen.TASKS,
    imitation: ImitationSettings = dataclasses.replace(SETTINGS, horizon=280),
) -> Stream:
    """FrankaKitchen's seven sub-tasks, learned by reward one after the other.

    The reward is 1 at the step at which the object reaches its target, else 0, and the episode then
    ends as a success (Gupta et al., "Relay Policy Learning", 2019; Gymnasium-Robotics).

    Args:
        data_dir: Not used.
        seed: The run's seed.
        tasks: The object to move in each experience.
        imitation: The settings that all robot streams share.
    """
    for task in tasks:
        if task not in kitchen.TASKS:
            raise SettingError(
                f"stream.tasks: FrankaKitchen has no '{task}'; it has {', '.join(kitchen.TASKS)}"
            )
    named = [
        (
            task.replace(" ", "_"),
            Source("clframe.worlds.gym.kitchen:make", {"task": task}, 1.0),
        )
        for task in tasks
    ]
    return _stream("franka_kitchen", named, imitation, seed, alike=True)


def _entry(entry: Any, success_return: float | None) -> tuple[str, Source]:
    """Return the name of a task and its environment from a user's entry."""
    arguments = {"id": entry} if isinstance(entry, str) else dict(entry)
    identity = arguments.pop("id", None)
    if not isinstance(identity, str) or not identity.rpartition(":")[2]:
        raise SettingError(
            f"stream.envs: {entry!r} must be a name, or a mapping whose 'id' is a name"
        )
    name = str(arguments.pop("name", identity.rpartition(":")[2]))
    threshold = arguments.pop("success_return", success_return)
    if threshold is not None and (
        isinstance(threshold, bool) or not isinstance(threshold, int | float)
    ):
        raise SettingError(f"stream.envs: success_return of '{name}' must be a number")
    return name, Source(identity, arguments, None if threshold is None else float(threshold))


def _stream(
    name: str,
    named: Sequence[tuple[str, Source]],
    settings: ImitationSettings,
    seed: int,
    alike: bool = False,
) -> Stream:
    """Return a stream of named environments; ``alike`` inspects only one of them."""
    if not named:
        raise SettingError("stream.envs needs at least one environment")
    problem = missing()
    if problem is not None:
        raise DataError(f"cannot create stream={name}: {problem}")
    sources: dict[str, Source] = {}
    for task, source in named:
        if sources.setdefault(task, source) != source:
            raise SettingError(
                f"stream.envs: two different environments are called '{task}'; give one a 'name'"
            )
    first_facts = look(named[0][1])
    facts = {
        task: first_facts if alike or source == named[0][1] else look(source)
        for task, source in sources.items()
    }
    _check_actions(facts)
    first = next(iter(facts.values()))
    sizes = {task: each.flattening.size for task, each in facts.items()}
    state_size = max(sizes.values())
    left_out = sorted({part for each in facts.values() for part in each.flattening.left_out})
    if left_out:
        warn_user(f"stream={name}: omitting non-numeric observations: {', '.join(left_out)}")
    robots = [
        _robot(task, source, facts[task], state_size, settings.horizon)
        for task, source in sources.items()
    ]
    stream = imitation_stream(
        name,
        robots,
        [list(sources).index(task) for task, _ in named],
        settings,
        Path(),
        state_size,
        first.choices or first.numbers,
        seed=seed,
        source=_describe(sizes, left_out),
        read=functools.partial(_no_demonstrations, name),
    )
    return dataclasses.replace(stream, discrete=first.choices is not None)


def _describe(sizes: Mapping[str, int], left_out: Sequence[str]) -> str:
    from importlib.metadata import version

    description = f"environments of Gymnasium {version('gymnasium')}"
    if len(set(sizes.values())) > 1:
        description += f"; observations shorter than {max(sizes.values())} are followed by zeros"
    return description + (f"; observations without {', '.join(left_out)}" if left_out else "")


def _check_actions(facts: Mapping[str, Facts]) -> None:
    """Check that all environments take the same actions as the first one."""

    def kind(each: Facts) -> str:
        return (
            f"{each.numbers} numbers" if each.choices is None else f"one of {each.choices} choices"
        )

    (first, expected), *others = facts.items()
    for task, each in others:
        if kind(each) != kind(expected):
            raise SettingError(
                f"stream.envs: an action of '{task}' is {kind(each)}, but one of '{first}' is "
                f"{kind(expected)}; all environments of a stream need actions of one kind and size"
            )


def _robot(name: str, source: Source, facts: Facts, state_size: int, horizon: int) -> RobotTask:
    """Return the task of an environment, including its success criterion."""
    threshold = source.success_return
    if threshold is None and facts.flag is None:
        threshold = facts.threshold
        if threshold is None:
            raise SettingError(
                f"stream.envs: '{name}' does not report success (its info has neither 'success' "
                "nor 'is_success', and it has no reward_threshold); set stream.success_return to "
                "the return from which an episode succeeds"
            )
        if facts.limit is not None and horizon < facts.limit:
            raise SettingError(
                f"stream.horizon={horizon} ends episodes of '{name}' before its own limit of "
                f"{facts.limit} steps, to which its reward_threshold of {threshold:g} refers; set "
                "stream.success_return too"
            )
    from importlib.metadata import version

    return RobotTask(
        name,
        # Environments are kept by family and name, so the family must identify the environment.
        f"gymnasium-{version('gymnasium')}-{source.id}-{dict(source.arguments)}-{state_size}-"
        f"{horizon}-{threshold}",
        name.replace("_", " "),
        functools.partial(GymEnvironment, source, state_size, horizon, threshold),
    )


def _no_demonstrations(stream: str, number: int) -> Sequence[Demonstration]:
    raise DataError(
        f"stream={stream} has no demonstrations; learn it by reward with learner=sac (numeric "
        "actions) or learner=ppo (also choices)"
    )
