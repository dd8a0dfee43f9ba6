"""How near a learner's actions are to those of demonstrations it has not learned from.

For recordings of robots that nobody can simulate here. What was seen is given to the policy step by
step, and its answer is compared with what was done; nothing that it does has consequences, so this
is no success rate.
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
"""Observations that a policy without memory is given at a time."""


@dataclass(frozen=True)
class HeldOut(TaskEvaluation):
    """The held-out demonstrations that evaluate a task; its ``Task.evaluation``.

    Args:
        inputs: What the policy is given for windows of observations.
        read: The demonstrations that are held out.
        tolerance: How far every number of an action may be off to count as ``within``; actions
            are in -1..1.
    """

    inputs: ObservationTransform | SequenceInputs
    read: Callable[[], Sequence[Demonstration]]
    tolerance: float = 0.1


@dataclass(frozen=True)
class Answers:
    """The actions of a policy for some demonstrations, beside those of the demonstrations."""

    chosen: NDArray[np.float64]
    shown: NDArray[np.float64]


def sums(answers: Answers, tolerance: float) -> NDArray[np.float64]:
    """What measures are made of and can be added up over processes.

    Steps, squared errors, absolute errors, steps within the tolerance; then the sums of the shown
    actions' numbers and of their squares.
    """
    off = np.abs(answers.chosen - answers.shown)
    inside = (off <= tolerance).all(1).sum()
    head = [len(off), (off**2).sum(), off.mean(1).sum(), inside]
    return np.concatenate([head, answers.shown.sum(0), (answers.shown**2).sum(0)])


def measures(total: NDArray[np.float64]) -> dict[str, float]:
    """The measures of such sums.

    ``action_r2``, which fills the matrix, is the share of the actions' variance that the policy
    accounts for, 1 - sum |a - b|^2 / sum |a - mean a|^2, and 0 where it is worse than the mean
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
    """The learner's actions for all steps of some demonstrations."""
    policy = learner.policy
    with learner.engine.autocast(), policy.acting():
        in_turn = _in_order if policy.remembers else _one_by_one
        chosen = in_turn(learner, task, how, demos)
    shown = np.concatenate([demo.actions for demo in demos]).astype(np.float64)
    return Answers(chosen.astype(np.float64), shown)


def _one_by_one(
    learner: Learner, task: Task, how: HeldOut, demos: Sequence[Demonstration]
) -> NDArray[Any]:
    """Of a policy without memory: every window of observations by itself."""
    act = policy_of(learner, task, how.inputs)
    names = (STATE, *how.inputs.images)
    samples = windowed(demos, how.inputs.window, names).inputs
    parts = []
    for start in range(0, len(samples[STATE]), _ROWS):
        rows = {name: values[start : start + _ROWS].numpy() for name, values in samples.items()}
        parts.append(act(rows, np.zeros(len(rows[STATE]), bool)))
    return np.concatenate(parts)


def _in_order(
    learner: Learner, task: Task, how: HeldOut, demos: Sequence[Demonstration]
) -> NDArray[Any]:
    """Of a policy that remembers: all demonstrations side by side, step after step."""
    act = policy_of(learner, task, how.inputs)
    names = (STATE, *how.inputs.images)
    longest = max(len(demo) for demo in demos)
    chosen: list[NDArray[Any]] = []
    for step in range(longest):
        # One that has ended goes on with its last observation; what is answered is passed over.
        now = {
            name: np.stack([demo.observations[name][[min(step, len(demo) - 1)]] for demo in demos])
            for name in names
        }
        chosen.append(act(now, np.full(len(demos), step == 0)))
    whole = np.stack(chosen, 1)
    return np.concatenate([whole[row, : len(demo)] for row, demo in enumerate(demos)])


def evaluate(learner: Learner, task: Task, how: HeldOut) -> dict[str, float]:
    """The measures of a task, whose demonstrations several ranks share."""
    demos = how.read()
    engine = learner.engine
    mine = [demos[i] for i in engine.share(torch.arange(len(demos))).tolist()]
    size = 4 + 2 * demos[0].actions.shape[1]
    part = sums(answer(learner, task, how, mine), how.tolerance) if mine else np.zeros(size)
    total = torch.from_numpy(part).to(engine.device)
    engine.sum({"held_out": total})
    return measures(total.cpu().numpy())


def split(n: int, share: float) -> int:
    """How many of n demonstrations are held out: at least one, and never all.

    >>> split(50, 0.1), split(3, 0.1), split(2, 0.9)
    (5, 1, 1)
    """
    return min(max(1, round(share * n)), n - 1)
