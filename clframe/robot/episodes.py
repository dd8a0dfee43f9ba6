"""Episodes of a policy in several environments at once, the same whatever runs them.

A task's episodes go through a fixed number of *slots*, each with an environment of its own. Slots
are dealt out to workers; the policy sees the observations of all slots as one batch. So results do
not depend on how many processes there are, and the policy, with all that plugins make of it,
stays in this process.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clframe.robot.task import (
    MakeEnvironment,
    Observation,
    as_dictionary,
    check_action,
    success_of,
)
from clframe.utils.processes import WorkerPool
from clframe.worlds.environment import Environment, as_environment

KEPT = 24
"""Environments that a process keeps; one of Meta-World takes 30 MB and 40 ms to make."""

Act: TypeAlias = "Callable[[Observation, NDArray[np.bool_]], NDArray[Any]]"
"""Actions for the observations of all slots ``[slot, step of the window, ...]``; the second
argument says which slots have just begun an episode."""

_environments: collections.OrderedDict[tuple[str, int], Environment] = collections.OrderedDict()


@dataclass(frozen=True)
class Outcome:
    """How an episode ended.

    Args:
        success: Whether the goal was reached.
        steps: After how many steps it ended.
        measures: What else the environment measured of it, by name.
    """

    success: bool
    steps: int
    measures: Mapping[str, float] = field(default_factory=dict)


# ------------------------------------------------------------ what a worker does


def _environment(key: str, slot: int, make: MakeEnvironment) -> Environment:
    """The environment of a slot; those not used for longest are given up."""
    place = (key, slot)
    if place not in _environments:
        while len(_environments) >= KEPT:
            _, oldest = _environments.popitem(last=False)
            oldest.close()
        _environments[place] = as_environment(make())
    _environments.move_to_end(place)
    return _environments[place]


def reset(key: str, make: MakeEnvironment, seeds: dict[int, int]) -> dict[int, Observation]:
    """Begin an episode in each of these slots."""
    observations = {}
    for slot, seed in seeds.items():
        observation, _ = _environment(key, slot, make).reset(seed=seed)
        observations[slot] = as_dictionary(observation)
    return observations


def step(
    key: str, make: MakeEnvironment, actions: dict[int, tuple[NDArray[Any], int, bool]]
) -> dict[int, tuple[Observation, bool, bool, dict[str, float]]]:
    """Do one action in each of these slots.

    Args:
        key: Of the environments.
        make: Makes one.
        actions: For each slot the action, the number of its step in the episode, and whether it is
            the episode's last step.

    Returns:
        For each slot the observation, whether the goal holds, whether the episode ended, and at
        its end :meth:`clframe.worlds.environment.Environment.measures`.
    """
    results = {}
    for slot, (action, number, last) in actions.items():
        environment = _environment(key, slot, make)
        observation, _, terminated, truncated, info = environment.step(action)
        success = success_of(info, key.rpartition("/")[2], number)
        ended = bool(terminated or truncated)
        measures = environment.measures() if success or ended or last else {}
        results[slot] = (as_dictionary(observation), success, ended, measures)
    return results


def forget(key: str | None = None) -> None:
    """Give up the environments of this process: all, or those kept under a key."""
    for place in [place for place in _environments if key in (None, place[0])]:
        _environments.pop(place).close()


# ------------------------------------------------------------ what this process does


def _ask(pool: WorkerPool, function: Any, key: str, make: Any, work: dict[int, Any]) -> Any:
    """Deal work by slot out to the workers and put the answers together."""
    shares: list[dict[int, Any]] = [{} for _ in pool.workers]
    for slot, item in work.items():
        # Always the same worker for a slot: it holds the slot's environment.
        shares[slot % len(shares)][slot] = item
    busy = [(worker, share) for worker, share in zip(pool.workers, shares, strict=True) if share]
    for worker, share in busy:
        worker.send(function, key, make, share)
    together: dict[int, Any] = {}
    for worker, _ in busy:
        together |= worker.receive()
    return together


class _Windows:
    """The last observations of every slot; an episode's first one fills its whole window."""

    def __init__(self, num_envs: int, length: int) -> None:
        self.num_envs, self.length = num_envs, length
        self.arrays: Observation = {}

    def begin(self, slot: int, observation: Observation) -> None:
        for name, value in observation.items():
            if name not in self.arrays:
                shape = (self.num_envs, self.length, *value.shape)
                self.arrays[name] = np.zeros(shape, value.dtype)
            self.arrays[name][slot] = value

    def add(self, slot: int, observation: Observation) -> None:
        for name, value in observation.items():
            window = self.arrays[name][slot]
            window[:-1] = window[1:].copy()
            window[-1] = value


def run_episodes(
    pool: WorkerPool,
    key: str,
    make: MakeEnvironment,
    seeds: Sequence[int],
    act: Act,
    horizon: int,
    num_envs: int = 6,
    window: int = 1,
    on_end: Callable[[int], None] | None = None,
    enough: Callable[[Sequence[Outcome]], bool] | None = None,
) -> list[Outcome]:
    """Run one episode for each seed; an episode is a success if the goal holds at any step.

    Args:
        pool: Whose workers step the environments.
        key: Names the task and its family; environments are kept under it.
        make: Makes the task's environment.
        seeds: Of the episodes.
        act: The policy.
        horizon: Steps until an episode is given up.
        num_envs: Environments stepped at once.
        window: Observations that the policy sees.
        on_end: Called with the number of episodes that have ended, whenever one has.
        enough: Asked of the first episodes, one more each time, whether these are enough. Episodes
            end in another order than they begin (successes are short), and nothing that is under
            way or later counts, so that the answer does not depend on which end first.

    Returns:
        The outcome of each episode, or of the first that are enough.
    """
    waiting = collections.deque(enumerate(seeds))
    num_envs = max(1, min(num_envs, len(seeds)))
    outcomes: list[Outcome | None] = [None] * len(seeds)
    number_of: dict[int, int] = {}
    steps = dict.fromkeys(range(num_envs), 0)
    windows = _Windows(num_envs, window)
    free = list(range(num_envs))
    known = 0
    while True:
        starting: dict[int, int] = {}
        while free and waiting:
            slot = free.pop(0)
            number_of[slot], starting[slot] = waiting.popleft()
            steps[slot] = 0
        if starting:
            for slot, observation in _ask(pool, reset, key, make, starting).items():
                windows.begin(slot, observation)
        if not number_of:
            break
        begun = np.array([slot in starting for slot in range(num_envs)])
        actions = act(windows.arrays, begun)
        check_action(actions[list(number_of)], key)
        wanted = {
            slot: (actions[slot], steps[slot] + 1, steps[slot] + 1 >= horizon)
            for slot in sorted(number_of)
        }
        for slot, (observation, success, ended, measures) in sorted(
            _ask(pool, step, key, make, wanted).items()
        ):
            steps[slot] += 1
            if success or ended or steps[slot] >= horizon:
                outcomes[number_of.pop(slot)] = Outcome(success, steps[slot], measures)
                free.append(slot)
                if on_end is not None:
                    on_end(len(outcomes) - len(waiting) - len(number_of))
            else:
                windows.add(slot, observation)
        while enough is not None and known < len(seeds) and outcomes[known] is not None:
            known += 1
            first = [outcome for outcome in outcomes[:known] if outcome is not None]
            if enough(first):
                return first
    return [outcome for outcome in outcomes if outcome is not None]
