"""A corridor with a key, a door and a goal; most choices are impossible most of the time.

In task 0 the key lies at the left end, the door is right of the middle, and the goal behind it; in
task 1 all of it is mirrored, so that the same sight asks for other choices.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from clframe.robot.demonstrations import Demonstration
from clframe.robot.observation_windows import Normalizer
from clframe.robot.stream import ImitationSettings, ImitationStream, imitation_stream
from clframe.robot.task import RobotTask

CELLS, DOOR, TOOLS = 7, 5, 12
LEFT, RIGHT, PICK, OPEN = range(4)
CHOICES = 4 + TOOLS  # tools are for other rooms: here they are never possible
SEEN = CELLS + 2
STATE = SEEN + CHOICES
COST, PRIZE = 0.05, 1.0

Place = tuple[int, bool, bool]
"""The cell, whether the key is held, whether the door is open."""


def moves(place: Place) -> dict[int, Place]:
    """What is possible at a place of task 0, and where it leads."""
    cell, key, opened = place
    found = {}
    if cell > 0:
        found[LEFT] = (cell - 1, key, opened)
    if cell < CELLS - 1 and (opened or cell != DOOR - 1):
        found[RIGHT] = (cell + 1, key, opened)
    if cell == 0 and not key:
        found[PICK] = (cell, True, opened)
    if cell == DOOR - 1 and key and not opened:
        found[OPEN] = (cell, key, True)
    return found


STARTS: list[Place] = [(cell, key, False) for cell in range(DOOR) for key in (False, True)]


@functools.cache
def steps_to_goal(start: Place) -> int:
    """The fewest steps from a place to the goal, by breadth-first search."""
    waiting, seen = deque([(start, 0)]), {start}
    while waiting:
        place, steps = waiting.popleft()
        if place[0] == CELLS - 1:
            return steps
        for after in moves(place).values():
            if after not in seen:
                seen.add(after)
                waiting.append((after, steps + 1))
    raise AssertionError("the goal cannot be reached")


def best_return(start: Place) -> float:
    return PRIZE - COST * steps_to_goal(start)


def best_choice(place: Place) -> int:
    return min(moves(place), key=lambda choice: steps_to_goal(moves(place)[choice]))


class Corridor:
    """The environment: an impossible choice changes nothing and costs a step.

    Args:
        task: 0, or 1 for the mirrored one.
        masked: Show which choices are possible; else all are shown to be.
        wrong: Something to be wrong with it, at its third step.
        shaped: Reward each step by how much nearer the goal is, in steps, instead of at the end.
    """

    def __init__(
        self, task: int = 0, masked: bool = True, wrong: str = "", shaped: bool = False
    ) -> None:
        self.task, self.masked, self.wrong, self.shaped = task, masked, wrong, shaped
        self.place: Place = STARTS[0]
        self.steps = 0
        self.action_space = spaces.Discrete(CHOICES)
        self.observation_space = spaces.Dict({"state": spaces.Box(0, 1, (STATE,))})

    def mirrored(self, choice: int) -> int:
        return {LEFT: RIGHT, RIGHT: LEFT}.get(choice, choice) if self.task else choice

    def observe(self) -> dict[str, Any]:
        cell, key, opened = self.place
        state = np.zeros(STATE, np.float32)
        state[CELLS - 1 - cell if self.task else cell] = 1
        state[CELLS : CELLS + 2] = key, opened
        possible = range(CHOICES) if not self.masked else map(self.mirrored, moves(self.place))
        state[[SEEN + choice for choice in possible]] = 1
        if self.wrong == "mask" and self.steps == 3:
            state[SEEN:] = 0
        if self.wrong == "half" and self.steps == 3:
            state[SEEN + 2] = 0.5
        return {"state": state}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        self.place = STARTS[np.random.default_rng(seed).integers(len(STARTS))]
        return self.observe(), {"success": False}

    def step(self, action: Any) -> Any:
        self.steps += 1
        assert self.action_space.contains(action), action
        before = steps_to_goal(self.place)
        self.place = moves(self.place).get(self.mirrored(int(action)), self.place)
        done = self.place[0] == CELLS - 1
        reward = PRIZE * done - COST
        if self.shaped:
            reward = float(before - steps_to_goal(self.place))
        if self.wrong == "reward" and self.steps == 3:
            reward = float("nan")
        info = {} if self.wrong == "success" and self.steps == 3 else {"success": done}
        return self.observe(), reward, done, False, info


def demonstration(task: int, start: Place) -> Demonstration:
    """The best way from a start."""
    environment = Corridor(task)
    environment.place, states, choices, done = start, [], [], False
    while not done:
        states.append(environment.observe()["state"])
        choices.append(environment.mirrored(best_choice(environment.place)))
        *_, done, _, _ = environment.step(choices[-1])
    return Demonstration(np.array(choices)[:, None], {"state": np.stack(states)})


def corridors(
    folder: Path, tasks: int = 2, masked: bool = True, shaped: bool = False, **settings: Any
) -> ImitationStream:
    """A stream of them, to be learned by reward or from the best ways from all starts."""
    make = functools.partial(Corridor, masked=masked, shaped=shaped)
    given = {"eval_episodes": 10, "horizon": 30, "num_workers": 0, **settings}
    stream = imitation_stream(
        "corridors",
        [
            # A family of its own: environments are kept by it.
            RobotTask(f"corridor_{n}", str(folder), "", functools.partial(make, n), discrete=True)
            for n in range(tasks)
        ],
        range(tasks),
        ImitationSettings(**given),
        folder,
        STATE,
        CHOICES,
        Normalizer(np.zeros(STATE, np.float32), np.ones(STATE, np.float32)),
        read=lambda n: [demonstration(n, start) for start in STARTS],
    )
    return dataclasses.replace(stream, discrete=True, mask=slice(SEEN, STATE) if masked else None)
