"""BEHAVIOR's metrics against values worked out by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from clframe.errors import DataError
from clframe.metrics import behavior
from clframe.metrics.behavior import Episode
from clframe.worlds.bddl import Literal, parse

GOAL = parse(
    "(define (problem p) (:domain igibson) (:objects cup_1 - cup box_1 - box)"
    "(:init (dusty cup_1) (open box_1))"
    "(:goal (and (inside ?cup_1 ?box_1) (open ?box_1) (not (dusty ?cup_1)))))"
).goal
DUSTY, OPEN, INSIDE = ("dusty", "cup_1"), ("open", "box_1"), ("inside", "cup_1", "box_1")
STATES: list[set[Literal]] = [
    {DUSTY, OPEN},
    {OPEN},
    {OPEN},
    {OPEN, INSIDE, ("nextto", "cup_1", "box_1")},
]


def test_scores_over_time() -> None:
    scores = behavior.score_over_time(GOAL, STATES)
    assert scores["q"] == pytest.approx([1 / 3, 2 / 3, 2 / 3, 1])
    assert scores["q_progress"] == pytest.approx([0, 1 / 3, 1 / 3, 1])
    assert (scores["success"], scores["first_success"], scores["final_q"]) == (True, 3, 1.0)
    unfinished = behavior.score_over_time(GOAL, STATES[:3])
    assert unfinished["final_q_progress"] == pytest.approx(1 / 3)
    assert behavior.score_over_time(GOAL, STATES[:2])["first_success"] is None
    with pytest.raises(DataError, match="at least one"):
        behavior.score_over_time(GOAL, [])


def test_logical_disarrangement() -> None:
    assert behavior.logical_disarrangement(STATES) == {"accumulated": 2, "differential": 2}
    assert behavior.logical_disarrangement(STATES, settle=1) == {
        "accumulated": 1,
        "differential": 1,
    }
    assert behavior.logical_disarrangement(STATES, settle=150)["differential"] == 0
    several: list[set[Literal]] = [
        {("ontop", "a", "t"), ("touching", "a", "t")},
        {("inside", "a", "b")},
        set(),
    ]
    assert behavior.logical_disarrangement(several) == {"accumulated": 2, "differential": 1}
    assert behavior.logical_disarrangement([]) == {"accumulated": 0, "differential": 0}


def test_kinematic_disarrangement_of_a_cut_object() -> None:
    still = [[0, 0, 0], [0, 0, 0]]
    half = [[1, 0, 0], [1, 0, 2]]
    result = behavior.kinematic_disarrangement({"apple": still, "half": half}, {"half": "apple"})
    assert result == {"accumulated": 2.0, "differential": pytest.approx(math.sqrt(5))}
    with pytest.raises(DataError, match="no recorded positions"):
        behavior.kinematic_disarrangement({"half": half}, {"half": "apple"})


def test_distance_can_be_bounded_per_step() -> None:
    assert behavior.distance_navigated(
        np.array([[0, 0], [0.1, 0], [9, 0]]), max_step=0.2
    ) == pytest.approx(0.3)


def _episode() -> Episode:
    return Episode(
        states=STATES,
        time_step=0.5,
        objects={"cup_1": [[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 0, 1]]},
        base=[[0, 0], [1, 0], [1, 1], [1, 1]],
        hands={"left": [[0, 0, k] for k in range(4)], "right": [[0, 0, 0]] * 4},
        hand_active={"left": [True, False, True, True]},
    )


def test_evaluate_an_episode() -> None:
    result = behavior.evaluate(GOAL, _episode(), human=_episode())
    assert result["efficiency"] == pytest.approx(
        {
            "simulated_time": 2.0,
            "kinematic_accumulated": 2.0,
            "kinematic_differential": math.sqrt(2),
            "logical_accumulated": 2,
            "logical_differential": 2,
            "distance_navigated": 2.0,
            "hand_displacement_left": 2.0,
            "hand_displacement_right": 0.0,
            "hand_displacement": 2.0,
        }
    )
    for pair in result["normalized"].values():
        assert pair == {"agent_over_human": 1.0, "human_over_agent": 1.0}
    json.dumps(result, allow_nan=False)


def test_normalisation_of_nothing() -> None:
    found = behavior.normalize({"a": 0, "b": 1, "c": 1}, {"a": 0, "b": 0})
    assert found == {
        "a": {"agent_over_human": 1.0, "human_over_agent": 1.0},
        "b": {"agent_over_human": None, "human_over_agent": 0.0},
    }


@pytest.mark.parametrize(
    "points", [[], [1, 2, 3], [[1]], [["a", "b"]], [[math.nan, 0]], [[0, 0], [0]], None]
)
def test_bad_positions(points: object) -> None:
    with pytest.raises(DataError, match="positions of the base"):
        behavior.distance_navigated(points)  # type: ignore[arg-type]


def test_bad_records() -> None:
    with pytest.raises(DataError, match="4 states were recorded"):
        behavior.efficiency(Episode(states=STATES, base=[[0, 0]]))
    with pytest.raises(DataError, match="one flag per frame"):
        behavior.hand_displacement([[0, 0, 0]], active=[True, False])
    with pytest.raises(DataError, match="step above 0"):
        behavior.simulated_time(1, 0)
    with pytest.raises(DataError, match="factor above 1"):
        behavior.time_score(1, 1, 1)
    with pytest.raises(DataError, match="frame number"):
        behavior.logical_disarrangement(STATES, settle=-1)
