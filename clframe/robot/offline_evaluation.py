"""Compare a learner's actions with those of held-out demonstrations.

For recordings of robots that cannot be simulated here. The policy receives the recorded
observations step by step, and its actions are compared with the recorded ones. Its actions have
no consequences, so this is not a success rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from clframe.core.stream import TaskEvaluation
from clframe.robot.demonstrations import Demonstration
from clframe.robot.evaluation import policy_of
from clframe.robot.observation_windows import STATE, ObservationTransform, windowed
from clframe.robot.sequences import SequenceInputs

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Task

MEASURES = ("action_r2", "within", "action_error")
_ROWS = 256
"""Observations per call for a policy without memory."""


@dataclass(frozen=True)
class HeldOut(TaskEvaluation):
    """The held-out demonstrations that evaluate a task; its ``Task.evaluation``.

    Args:
        inputs: The policy's inputs, made from windows of observations.
        read: Returns the held-out demonstrations.
        tolerance: Largest error of every number of an action that counts as ``within``; actions
            are in -1..1.
    """

    inputs: ObservationTransform | SequenceInputs
    read: Callable[[], Sequence[Demonstration]]
    tolerance: float = 0.1


@dataclass(frozen=True)
class Answers:
    """The actions of a policy for some demonstrations, and the demonstrated actions."""

    chosen: NDArray[np.float64]
    shown: NDArray[np.float64]


def sums(answers: Answers, tolerance: float) -> NDArray[np.float64]:
    """Return the sums from which measures are computed; they add up over processes.

    They are: steps, squared errors, absolute errors, steps within the tolerance, then the sums of
    the demonstrated actions' numbers and of their squares.
    """
    off = np.abs(answers.chosen - answers.shown)
    inside = (off <= tolerance).all(1).sum()
    head = [len(off), (off**2).sum(), off.mean(1).sum(), inside]
    return np.concatenate([head, answers.shown.sum(0), (answers.shown**2).sum(0)])


def measures(total: NDArray[np.float64]) -> dict[str, float]:
    """Return the measures from such sums.

    ``action_r2``, which fills the matrix, is the share of the actions' variance that the policy
    explains, 1 - sum |a - b|^2 / sum |a - mean a|^2, and 0 if it is worse than the mean
    action. ``within`` is the share of steps with every number inside the tolerance, and
    ``action_error`` the mean absolute error of a number.
    """
    n, squared, absolute, inside = total[:4]
    first, second = np.split(total[4:], 2)
    variance = float((second - first**2 / n).sum())
    share = 1.0 - squared / variance if variance > 1e-12 * n else float(squared <= 1e-12 * n)
    values = (float(np.clip(share, 0.0, 1.0)), inside / n, absolute / n)
    return {name: float(value) for name, value in zip(MEASURES, values, strict=True)}


def answer(learner: Learner, task: Task, how: HeldOut, demos: Sequence[Demonstration]) -> Answers:
    """Return the learner's actions for all steps of some demonstrations."""
    policy = learner.policy
    with learner.engine.autocast(), policy.acting():
        predict = _in_order if policy.remembers else _one_by_one
        chosen = predict(learner, task, how, demos)
    shown = np.concatenate([demo.actions for demo in demos]).astype(np.float64)
    return Answers(chosen.astype(np.float64), shown)


def _one_by_one(
    learner: Learner, task: Task, how: HeldOut, demos: Sequence[Demonstration]
) -> NDArray[Any]:
    """Return the actions of a policy without memory: each window is independent."""
    act = policy_of(learner, task, how.inputs)
    names = (STATE, *how.inputs.images)
    samples = windowed(demos, how.inputs.window, names).inputs
    actions = []
    for start in range(0, len(samples[STATE]), _ROWS):
        rows = {name: values[start : start + _ROWS].numpy() for name, values in samples.items()}
        actions.append(act(rows, np.zeros(len(rows[STATE]), bool)))
    return np.concatenate(actions)


def _in_order(
    learner: Learner, task: Task, how: HeldOut, demos: Sequence[Demonstration]
) -> NDArray[Any]:
    """Return the actions of a policy with memory: all demonstrations in parallel, step by step."""
    act = policy_of(learner, task, how.inputs)
    names = (STATE, *how.inputs.images)
    longest = max(len(demo) for demo in demos)
    chosen: list[NDArray[Any]] = []
    for step in range(longest):
        # A demonstration that has ended repeats its last observation; its actions are dropped.
        observations = {
            name: np.stack([demo.observations[name][[min(step, len(demo) - 1)]] for demo in demos])
            for name in names
        }
        chosen.append(act(observations, np.full(len(demos), step == 0)))
    actions = np.stack(chosen, 1)
    return np.concatenate([actions[row, : len(demo)] for row, demo in enumerate(demos)])


def evaluate(learner: Learner, task: Task, how: HeldOut) -> dict[str, float]:
    """Return the measures of a task; ranks share its demonstrations."""
    demos = how.read()
    engine = learner.engine
    mine = [demos[i] for i in engine.share(torch.arange(len(demos))).tolist()]
    size = 4 + 2 * demos[0].actions.shape[1]
    partial_sums = sums(answer(learner, task, how, mine), how.tolerance) if mine else np.zeros(size)
    total = torch.from_numpy(partial_sums).to(engine.device)
    engine.sum({"held_out": total})
    return measures(total.cpu().numpy())


def split(n: int, share: float) -> int:
    """Return how many of n demonstrations to hold out: at least one, and never all.

    >>> split(50, 0.1), split(3, 0.1), split(2, 0.9)
    (5, 1, 1)
    """
    return min(max(1, round(share * n)), n - 1)
