"""Streams of Gymnasium environments, one task each, to be learned by reward."""

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
    """Gymnasium environments, one after the other, learned by reward.

    Actions are numbers, scaled to -1 ... 1, or one choice; all environments have them alike.
    Observations of any kind are laid end to end to one state, and shorter ones than the longest are
    followed by zeros. Texts are left out.

    An episode is a success if the environment says so (``info["success"]``, ``info["is_success"]``)
    at any step, or if its return reaches ``success_return``, or else the environment's own
    ``reward_threshold``, which Gymnasium takes as solved.

    Args:
        data_dir: Not used: there are no demonstrations.
        seed: Of the run.
        envs: The environment of each experience: as Gymnasium's registry has it, MODULE:ID, or
            MODULE:ATTRIBUTE for a subclass of ``gymnasium.Env`` or a function that is annotated to
            return one; or a mapping with ``id``,
            ``name`` (of the task), ``success_return`` and what else it is made with. One that is
            named again is the same task, which comes back.
        success_return: The return from which on an episode is a success; None: see above.
        imitation: What all robot streams have in common; environments with a shorter limit than
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
    """FrankaKitchen's seven sub-tasks, one after the other, by reward.

    The reward is 1 at the step at which the thing is where it has to be, else 0, and the episode
    then ends as a success (Gupta et al., "Relay Policy Learning", 2019; Gymnasium-Robotics).

    Args:
        data_dir: Not used.
        seed: Of the run.
        tasks: The thing to be moved in each experience.
        imitation: What all robot streams have in common.
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
    """The name of a task and its environment, from what the user gave."""
    arguments = {"id": entry} if isinstance(entry, str) else dict(entry)
    identity = arguments.pop("id", None)
    if not isinstance(identity, str) or not identity.rpartition(":")[2]:
        raise SettingError(
            f"stream.envs: {entry!r} must be a name, or a mapping with an 'id' that is one"
        )
    name = str(arguments.pop("name", identity.rpartition(":")[2]))
    wanted = arguments.pop("success_return", success_return)
    if wanted is not None and (isinstance(wanted, bool) or not isinstance(wanted, int | float)):
        raise SettingError(f"stream.envs: success_return of '{name}' must be a number")
    return name, Source(identity, arguments, None if wanted is None else float(wanted))


def _stream(
    name: str,
    named: Sequence[tuple[str, Source]],
    settings: ImitationSettings,
    seed: int,
    alike: bool = False,
) -> Stream:
    """The stream of environments that were named; if they are alike, one tells of all."""
    if not named:
        raise SettingError("stream.envs needs at least one environment")
    problem = missing()
    if problem is not None:
        raise DataError(f"stream={name} cannot be made: {problem}")
    sources: dict[str, Source] = {}
    for task, source in named:
        if sources.setdefault(task, source) != source:
            raise SettingError(
                f"stream.envs: two different environments are called '{task}': give one a 'name'"
            )
    known = look(named[0][1])
    facts = {
        task: known if alike or source == named[0][1] else look(source)
        for task, source in sources.items()
    }
    _check_actions(facts)
    first = next(iter(facts.values()))
    sizes = {task: each.flattening.size for task, each in facts.items()}
    state_size = max(sizes.values())
    left_out = sorted({part for each in facts.values() for part in each.flattening.left_out})
    if left_out:
        warn_user(
            f"stream={name}: observations without {', '.join(left_out)}, which are no numbers"
        )
    robots = [
        _robot(task, source, facts[task], state_size, settings.horizon)
        for task, source in sources.items()
    ]
    made = imitation_stream(
        name,
        robots,
        [list(sources).index(task) for task, _ in named],
        settings,
        Path(),
        state_size,
        first.choices or first.numbers,
        seed=seed,
        source=_said(sizes, left_out),
        read=functools.partial(_no_demonstrations, name),
    )
    return dataclasses.replace(made, discrete=first.choices is not None)


def _said(sizes: Mapping[str, int], left_out: Sequence[str]) -> str:
    from importlib.metadata import version

    said = f"environments of Gymnasium {version('gymnasium')}"
    if len(set(sizes.values())) > 1:
        said += f"; observations shorter than {max(sizes.values())} are followed by zeros"
    return said + (f"; observations without {', '.join(left_out)}" if left_out else "")


def _check_actions(facts: Mapping[str, Facts]) -> None:
    """Refuse environments that take other actions than the first one."""

    def words(each: Facts) -> str:
        return (
            f"{each.numbers} numbers" if each.choices is None else f"one of {each.choices} choices"
        )

    (first, expected), *others = facts.items()
    for task, each in others:
        if words(each) != words(expected):
            raise SettingError(
                f"stream.envs: an action of '{task}' is {words(each)}, but one of '{first}' is "
                f"{words(expected)}: all environments of a stream need actions of one kind and size"
            )


def _robot(name: str, source: Source, facts: Facts, state_size: int, horizon: int) -> RobotTask:
    """The task of an environment, with what tells success in it."""
    wanted = source.success_return
    if wanted is None and facts.flag is None:
        wanted = facts.threshold
        if wanted is None:
            raise SettingError(
                f"stream.envs: '{name}' does not say whether it was solved (its info has neither "
                "'success' nor 'is_success', and it has no reward_threshold): set "
                "stream.success_return to the return from which on an episode is a success"
            )
        if facts.limit is not None and horizon < facts.limit:
            raise SettingError(
                f"stream.horizon={horizon} ends episodes of '{name}' before its own limit of "
                f"{facts.limit} steps, for which its reward_threshold of {wanted:g} is meant: set "
                "stream.success_return as well"
            )
    from importlib.metadata import version

    return RobotTask(
        name,
        # Environments are kept by family and name, so it says all that makes another one.
        f"gymnasium-{version('gymnasium')}-{source.id}-{dict(source.arguments)}-{state_size}-"
        f"{horizon}-{wanted}",
        name.replace("_", " "),
        functools.partial(GymEnvironment, source, state_size, horizon, wanted),
    )


def _no_demonstrations(stream: str, number: int) -> Sequence[Demonstration]:
    raise DataError(
        f"stream={stream} has no demonstrations: it is learned by reward, with learner=sac "
        "(actions that are numbers) or learner=ppo (also choices)"
    )
