"""Convert a stream of robot tasks to one that is learned by acting."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from clframe.errors import SettingError
from clframe.rl.environment import HeldActions
from clframe.rl.online_data import LiveData
from clframe.robot.evaluation import Evaluation, episodes_of, inputs_of
from clframe.robot.observation_windows import STATE, Normalizer, ObservationTransform
from clframe.robot.stream import ImitationStream
from clframe.robot.task import TRAINING, RobotTask, as_dictionary, episode_seeds, seed_key

if TYPE_CHECKING:
    from clframe.core.stream import Stream, Task

_EPISODES, _HOLD = 20, 5


def live_stream(
    stream: Stream,
    learner: str,
    action_repeat: int,
    buffer_size: int,
    data: Callable[[Task], LiveData],
    environments: int = 1,
) -> ImitationStream:
    """Return a stream with the same tasks, order and evaluation, but without demonstrations.

    Args:
        stream: A stream of robot tasks.
        learner: The learner's name, for messages.
        action_repeat: How often to repeat an action.
        buffer_size: Transitions to keep; it must hold at least one episode.
        data: Makes the training data of a task.
        environments: Environments stepped at the same time.
    """
    if not isinstance(stream, ImitationStream):
        raise SettingError(
            f"learner={learner} needs a stream of robot tasks, but '{stream.name}' is not one"
        )
    evaluation = stream.tasks[0].evaluation
    if not isinstance(evaluation, Evaluation):
        raise SettingError(
            f"learner={learner} needs environments to act in, but stream '{stream.name}' has only "
            "recordings"
        )
    inputs: Any = evaluation.inputs
    if not isinstance(inputs, ObservationTransform) or inputs.images:
        raise SettingError(
            f"learner={learner} learns from states, but stream '{stream.name}' provides images"
        )
    decisions = math.ceil(evaluation.horizon / action_repeat)
    if buffer_size < decisions * environments:
        each = "" if environments == 1 else f" of each of {environments} environments"
        raise SettingError(
            f"learner.buffer_size={buffer_size} must hold an episode{each}, which has up to "
            f"{decisions} decisions"
        )
    if stream.normalizer is None:
        first = episodes_of(stream.experiences[0].tasks[0])
        mask = state_mask(stream)
        explore = functools.partial(explored, first, stream.n_outputs, stream.discrete, mask)
        inputs = inputs.with_normalizer(functools.cache(explore))
    tasks = [_held(task, inputs, action_repeat) for task in stream.tasks]
    all_data = [data(task) for task in tasks]
    experiences = [
        dataclasses.replace(
            experience,
            tasks=tuple(tasks[task.index] for task in experience.tasks),
            load=functools.partial(all_data.__getitem__, experience.tasks[0].index),
        )
        for experience in stream.experiences
    ]
    return dataclasses.replace(
        stream,
        tasks=tasks,
        experiences=experiences,
        source=f"rewards of {len({e.tasks[0].index for e in experiences})} environments",
    )


def _held(task: Task, inputs: ObservationTransform, action_repeat: int) -> Task:
    """Return the task with these inputs and repeated actions."""
    evaluation = dataclasses.replace(episodes_of(task), inputs=inputs)
    if action_repeat > 1:
        robot = evaluation.robot
        robot = dataclasses.replace(
            robot,
            # Environments are kept by family and name, so this one needs another family.
            family=f"{robot.family}-held-{action_repeat}",
            environment=functools.partial(HeldActions, robot.environment, action_repeat),
        )
        horizon = math.ceil(evaluation.horizon / action_repeat)
        evaluation = dataclasses.replace(evaluation, robot=robot, horizon=horizon)
    return dataclasses.replace(task, evaluation=evaluation)


def state_mask(stream: ImitationStream) -> slice | None:
    """Return the position of the stream's mask within a state."""
    if stream.mask is None:
        return None
    inputs = inputs_of(stream.tasks[0])
    start, stop, _ = stream.mask.indices(inputs.size)
    newest = (inputs.window - 1) * inputs.state_size
    if not newest <= start < stop <= newest + inputs.state_size:
        raise SettingError(
            f"the mask of stream '{stream.name}' must be within the newest state of its inputs, "
            f"{newest} to {newest + inputs.state_size}, not {start} to {stop}"
        )
    return slice(start - newest, stop - newest)


def explored(
    evaluation: Evaluation, action_size: int, discrete: bool = False, mask: slice | None = None
) -> Normalizer:
    """Return mean and deviation of the states that random actions reach in a task.

    Each action is repeated a few times, so that it has an effect; a choice is made once, among the
    possible ones. The mask is not normalized. The episodes are the same in every run.
    """
    robot: RobotTask = evaluation.robot
    key = seed_key(robot, evaluation.goal_seed, TRAINING)
    environment = robot.make()
    states = []
    for seed in episode_seeds(_EPISODES, *key):
        draw = np.random.default_rng(seed)
        observation, _ = environment.reset(seed=seed)
        states.append(as_dictionary(observation)[STATE])
        action: Any = None
        for number in range(math.ceil(evaluation.horizon / _HOLD) * _HOLD):
            if discrete:
                possible = np.ones(action_size) if mask is None else states[-1][mask]
                if not possible.any():  # acting raises an error for such a mask
                    break
                action = draw.choice(np.flatnonzero(possible))
            elif number % _HOLD == 0:
                action = draw.uniform(-1, 1, action_size).astype(np.float32)
            observation, _, terminated, truncated, _ = environment.step(action)
            states.append(as_dictionary(observation)[STATE])
            if terminated or truncated:
                break
    environment.close()
    normalizer = Normalizer.of_states(np.stack(states))
    if mask is not None:
        normalizer.center[mask], normalizer.scale[mask] = 0, 1
    return normalizer
