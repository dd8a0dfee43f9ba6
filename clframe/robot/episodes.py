"""Run episodes of a policy in several environments at once.

A task's episodes go through a fixed number of *slots*, each with its own environment. Slots
are distributed over workers; the policy sees the observations of all slots as one batch. Results
therefore do not depend on the number of processes, and the policy, with everything that plugins
add to it, stays in this process.
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
"""Environments kept per process; one of Meta-World takes 30 MB and 40 ms to create."""

Act: TypeAlias = "Callable[[Observation, NDArray[np.bool_]], NDArray[Any]]"
"""Actions for the observations of all slots ``[slot, step of the window, ...]``; the second
argument marks the slots that have just begun an episode."""

_environments: collections.OrderedDict[tuple[str, int], Environment] = collections.OrderedDict()


@dataclass(frozen=True)
class Outcome:
    """How an episode ended.

    Args:
        success: Whether the goal was reached.
        steps: The number of steps in the episode.
        measures: Other measures from the environment, by name.
    """

    success: bool
    steps: int
    measures: Mapping[str, float] = field(default_factory=dict)


# ------------------------------------------------------------ in a worker


def _environment(key: str, slot: int, make: MakeEnvironment) -> Environment:
    """Return the environment of a slot; close the least recently used ones above the limit."""
    env_key = (key, slot)
    if env_key not in _environments:
        while len(_environments) >= KEPT:
            _, oldest = _environments.popitem(last=False)
            oldest.close()
        _environments[env_key] = as_environment(make())
    _environments.move_to_end(env_key)
    return _environments[env_key]


def reset(key: str, make: MakeEnvironment, seeds: dict[int, int]) -> dict[int, Observation]:
    """Reset the environment of each of these slots."""
    observations = {}
    for slot, seed in seeds.items():
        observation, _ = _environment(key, slot, make).reset(seed=seed)
        observations[slot] = as_dictionary(observation)
    return observations


def step(
    key: str, make: MakeEnvironment, actions: dict[int, tuple[NDArray[Any], int, bool]]
) -> dict[int, tuple[Observation, bool, bool, dict[str, float]]]:
    """Step the environment of each of these slots.

    Args:
        key: The key of the environments.
        make: Creates an environment.
        actions: For each slot the action, the number of its step in the episode, and whether it is
            the last step of the episode.

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
    """Close the environments of this process: all, or those under a key."""
    for env_key in [env_key for env_key in _environments if key in (None, env_key[0])]:
        _environments.pop(env_key).close()


# ------------------------------------------------------------ in this process


def _ask(pool: WorkerPool, function: Any, key: str, make: Any, work: dict[int, Any]) -> Any:
    """Distribute work over the workers by slot and merge the answers."""
    shares: list[dict[int, Any]] = [{} for _ in pool.workers]
    for slot, item in work.items():
        # A slot always has the same worker, which holds its environment.
        shares[slot % len(shares)][slot] = item
    busy = [(worker, share) for worker, share in zip(pool.workers, shares, strict=True) if share]
    for worker, share in busy:
        worker.send(function, key, make, share)
    answers: dict[int, Any] = {}
    for worker, _ in busy:
        answers |= worker.receive()
    return answers


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
        pool: The workers that step the environments.
        key: The task and its family; environments are kept under it.
        make: Creates the task's environment.
        seeds: The seeds of the episodes.
        act: The policy.
        horizon: Steps after which an episode ends.
        num_envs: Environments stepped at the same time.
        window: Observations that the policy sees.
        on_end: Called with the number of ended episodes whenever one ends.
        enough: Decides from the first episodes, one more each time, whether they suffice.
            Episodes end in another order than they begin (successes are short), so only a gapless
            prefix counts and the decision does not depend on which episode ends first.

    Returns:
        The outcome of each episode, or of the first ones that suffice.
    """
    waiting = collections.deque(enumerate(seeds))
    num_envs = max(1, min(num_envs, len(seeds)))
    outcomes: list[Outcome | None] = [None] * len(seeds)
    number_of: dict[int, int] = {}
    steps = dict.fromkeys(range(num_envs), 0)
    windows = _Windows(num_envs, window)
    free = list(range(num_envs))
    n_checked = 0
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
        step_calls = {
            slot: (actions[slot], steps[slot] + 1, steps[slot] + 1 >= horizon)
            for slot in sorted(number_of)
        }
        for slot, (observation, success, ended, measures) in sorted(
            _ask(pool, step, key, make, step_calls).items()
        ):
            steps[slot] += 1
            if success or ended or steps[slot] >= horizon:
                outcomes[number_of.pop(slot)] = Outcome(success, steps[slot], measures)
                free.append(slot)
                if on_end is not None:
                    on_end(len(outcomes) - len(waiting) - len(number_of))
            else:
                windows.add(slot, observation)
        while enough is not None and n_checked < len(seeds) and outcomes[n_checked] is not None:
            n_checked += 1
            first = [outcome for outcome in outcomes[:n_checked] if outcome is not None]
            if enough(first):
                return first
    return [outcome for outcome in outcomes if outcome is not None]
