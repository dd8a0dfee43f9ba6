"""The metrics of BEHAVIOR, as functions of a recorded episode.

Definitions follow Srivastava et al., "BEHAVIOR: Benchmark for Everyday Household Activities"
(2021): the success score Q and efficiency: simulated time, kinematic and logical
disarrangement, distance navigated and hand displacement, each also as a fraction of a human
demonstration. Docstrings say where the published program decides what the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clframe.errors import DataError

Literal = tuple[str, ...]
PLACEMENT = frozenset({"inside", "under", "ontop", "touching", "onfloor"})
"""Relations of place: any change of them counts once per object."""
IGNORED = frozenset({"nextto", "inroom"})
"""Relations that do not count as disarrangement."""


class Goal(Protocol):
    """The interface of `clframe.worlds.bddl.parse(...).goal`."""

    def score(self, true_literals: Iterable[Sequence[str]]) -> float:
        """Return Q of a state."""

    def progress(self, true_literals: Iterable[Sequence[str]]) -> float:
        """Return Q without the literals that held at the start."""

    def satisfied(self, true_literals: Iterable[Sequence[str]]) -> bool:
        """Return whether the goal holds."""


@dataclass(frozen=True)
class Episode:
    """A recorded episode, with one entry per action step in every sequence.

    Args:
        states: The literals that hold, frame by frame.
        time_step: Simulated seconds between two frames.
        objects: Object -> positions (frames, 3), without the robot.
        base: Positions of the robot's base (frames, 2 or 3).
        hands: Hand -> positions (frames, 3).
        hand_active: Hand -> whether it touches or holds something (frames); a hand that is not
            listed counts as active throughout.
        halves: Piece -> the object it was cut from; a piece is measured from that object's start.
    """

    states: Sequence[Set[Literal]]
    time_step: float = 1 / 30
    objects: Mapping[str, ArrayLike] = field(default_factory=dict)
    base: ArrayLike | None = None
    hands: Mapping[str, ArrayLike] = field(default_factory=dict)
    hand_active: Mapping[str, ArrayLike] = field(default_factory=dict)
    halves: Mapping[str, str] = field(default_factory=dict)


def success_score(goal: Goal, true_literals: Iterable[Sequence[str]]) -> float:
    """Return Q: the largest share of true literals over the goal's ground options (section 5)."""
    return goal.score(true_literals)


def score_over_time(goal: Goal, states: Sequence[Set[Literal]]) -> dict[str, Any]:
    """Return Q of every frame and of the last one, and the frame of the first success.

    Returns:
        ``q`` and ``q_progress`` (lists), ``final_q``, ``final_q_progress``, ``success`` (at the
        last frame) and ``first_success`` (a frame number or None).
    """
    if not states:
        raise DataError("An episode needs at least one recorded state to be scored.")
    scores: dict[frozenset[Literal], tuple[float, float, bool]] = {}
    rows = []
    for state in states:
        key = frozenset(state)
        if key not in scores:  # most steps change no literal
            scores[key] = (goal.score(key), goal.progress(key), goal.satisfied(key))
        rows.append(scores[key])
    first = next((index for index, row in enumerate(rows) if row[2]), None)
    return {
        "q": [row[0] for row in rows],
        "q_progress": [row[1] for row in rows],
        "final_q": rows[-1][0],
        "final_q_progress": rows[-1][1],
        "success": rows[-1][2],
        "first_success": first,
    }


def simulated_time(steps: int, time_step: float) -> float:
    """Return the seconds of simulated time: steps times the time step.

    >>> simulated_time(90, 1 / 30)
    3.0
    """
    if steps < 0 or not 0 < time_step < float("inf"):
        raise DataError(f"Time needs steps >= 0 and a step above 0, not {steps} and {time_step}.")
    return steps * time_step


def kinematic_disarrangement(
    objects: Mapping[str, ArrayLike], halves: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Return how far objects were moved: position only, in meters.

    ``accumulated`` sums the length of every object's path, ``differential`` its distance from first
    to last frame. A piece listed in ``halves`` is measured from the start of its whole object.

    >>> kinematic_disarrangement({"cup": [[0, 0, 0], [3, 4, 0], [0, 0, 0]]})
    {'accumulated': 10.0, 'differential': 0.0}
    """
    paths = {name: _path(f"object {name!r}", points) for name, points in objects.items()}
    accumulated = differential = 0.0
    for name, path in paths.items():
        start = path[0]
        whole = (halves or {}).get(name)
        if whole is not None:
            if whole not in paths:
                raise DataError(
                    f"{name!r} was cut from {whole!r}, which has no recorded positions."
                )
            start = paths[whole][0]
        accumulated += float(_steps(path).sum())
        differential += float(np.linalg.norm(path[-1] - start))
    return {"accumulated": accumulated, "differential": differential}


def logical_disarrangement(states: Sequence[Set[Literal]], settle: int = 0) -> dict[str, int]:
    """Return how many states of objects were changed.

    Between two frames an object counts 1 if any of its relations of place changed (inside, under,
    ontop, touching, onfloor, with any partner) and 1 for every other literal that changed;
    nextto and inroom are ignored. ``differential`` compares the frame ``settle`` with the last one,
    as the published program reports (with ``settle=150``). ``accumulated`` adds up all
    steps between.

    >>> on, inside = ("ontop", "cup", "table"), ("inside", "cup", "box")
    >>> logical_disarrangement([{on}, {inside, ("open", "box")}, {on}])
    {'accumulated': 4, 'differential': 0}
    """
    if settle < 0:
        raise DataError(f"settle must be a frame number of at least 0, not {settle}.")
    # A short episode is compared from its last frame on; the published program fails on it.
    frames = states[min(settle, len(states) - 1) :] if states else []
    if not frames:
        return {"accumulated": 0, "differential": 0}
    accumulated = sum(_edits(before, after) for before, after in pairwise(frames))
    return {"accumulated": accumulated, "differential": _edits(frames[0], frames[-1])}


def _edits(before: Set[Literal], after: Set[Literal]) -> int:
    moved: set[str] = set()
    others = 0
    for literal in before ^ after:
        if literal[0] in PLACEMENT:
            moved.add(literal[1])
        elif literal[0] not in IGNORED:
            others += 1
    return len(moved) + others


def distance_navigated(base: ArrayLike, max_step: float | None = None) -> float:
    """Return the length of the base's path; ``max_step`` bounds steps to exclude teleports (0.2 m).

    >>> distance_navigated([[0, 0], [3, 4], [3, 4]])
    5.0
    """
    steps = _steps(_path("the base", base))
    return float((steps if max_step is None else np.minimum(steps, max_step)).sum())


def hand_displacement(hand: ArrayLike, active: ArrayLike | None = None) -> float:
    """Return the length of a hand's path over the steps that end with contact or a held object.

    >>> hand_displacement([[0, 0, 0], [1, 0, 0], [1, 1, 0]], active=[False, True, False])
    1.0
    """
    path = _path("a hand", hand)
    steps = _steps(path)
    if active is None:
        return float(steps.sum())
    flags = np.asarray(active, dtype=bool)
    if flags.shape != (len(path),):
        raise DataError(f"A hand needs one flag per frame ({len(path)}), not {flags.shape}.")
    return float(steps[flags[1:]].sum())


def efficiency(episode: Episode, settle: int = 0) -> dict[str, float]:
    """Return all efficiency metrics that an episode's record allows; lower is better for each."""
    _check_lengths(episode)
    result: dict[str, float] = {
        "simulated_time": simulated_time(len(episode.states), episode.time_step)
    }
    if episode.objects:
        moved = kinematic_disarrangement(episode.objects, episode.halves)
        result.update({f"kinematic_{name}": value for name, value in moved.items()})
    changed = logical_disarrangement(episode.states, settle)
    result.update({f"logical_{name}": value for name, value in changed.items()})
    if episode.base is not None:
        result["distance_navigated"] = distance_navigated(episode.base)
    if episode.hands:
        lengths = {
            name: hand_displacement(path, episode.hand_active.get(name))
            for name, path in episode.hands.items()
        }
        result.update({f"hand_displacement_{name}": value for name, value in lengths.items()})
        result["hand_displacement"] = sum(lengths.values())
    return result


def normalize(
    agent: Mapping[str, float], human: Mapping[str, float]
) -> dict[str, dict[str, float | None]]:
    """Normalize each metric by a human reference demonstration.

    ``agent_over_human`` is the paper's fraction of human performance (1 is human, below is better)
    and ``human_over_agent`` the form of OmniGibson (above 1 is better). 0 over 0 is 1; any other
    value over 0 is None.

    >>> normalize({"distance": 3.0, "time": 0.0}, {"distance": 2.0, "time": 4.0})
    {'distance': {'agent_over_human': 1.5, 'human_over_agent': 0.6666666666666666}, \
'time': {'agent_over_human': 0.0, 'human_over_agent': None}}
    """
    return {
        name: {
            "agent_over_human": _quotient(agent[name], human[name]),
            "human_over_agent": _quotient(human[name], agent[name]),
        }
        for name in agent
        if name in human
    }


def time_score(agent_steps: float, human_steps: float, timeout_factor: float = 2.0) -> float:
    """Return OmniGibson's time score: 1 at human speed, 0 at the time-out, above 1 when faster.

    With n = human/agent and a time-out of m times the human's steps: m/(m-1) - 1/((m-1) n).

    >>> time_score(100, 100), time_score(200, 100), time_score(50, 100)
    (1.0, 0.0, 1.5)
    """
    if not timeout_factor > 1 or not human_steps > 0 or not agent_steps >= 0:
        raise DataError(
            "A time score needs a time-out factor above 1, human steps above 0, agent steps >= 0, "
            f"not {timeout_factor}, {human_steps} and {agent_steps}."
        )
    return (timeout_factor - agent_steps / human_steps) / (timeout_factor - 1)


def evaluate(
    goal: Goal, episode: Episode, human: Episode | None = None, settle: int = 0
) -> dict[str, Any]:
    """Return scores over time and efficiency, also relative to a demonstration if given."""
    result: dict[str, Any] = {
        "score": score_over_time(goal, episode.states),
        "efficiency": efficiency(episode, settle),
    }
    if human is not None:
        result["normalized"] = normalize(result["efficiency"], efficiency(human, settle))
    return result


def _quotient(value: float, by: float) -> float | None:
    if by == 0:
        return 1.0 if value == 0 else None
    return value / by


def _path(name: str, points: ArrayLike) -> NDArray[np.float64]:
    try:
        path = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"The positions of {name} are not a table of numbers.") from None
    if path.ndim != 2 or path.shape[0] < 1 or path.shape[1] not in (2, 3):
        raise DataError(
            f"The positions of {name} need the shape (frames, 2 or 3), not {path.shape}."
        )
    if not np.isfinite(path).all():
        raise DataError(f"The positions of {name} contain a number that is not finite.")
    return path


def _steps(path: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.linalg.norm(np.diff(path, axis=0), axis=1)
    return lengths


def _check_lengths(episode: Episode) -> None:
    frames = len(episode.states)
    paths = {**episode.objects, **episode.hands}
    if episode.base is not None:
        paths["the base"] = episode.base
    for name, points in paths.items():
        if len(_path(name, points)) != frames:
            raise DataError(
                f"{name} has {len(_path(name, points))} frames, but {frames} states were recorded."
            )
