"""Truth and score equal to the reference on the golden cases, and fast."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from clframe.metrics.behavior import success_score
from clframe.worlds.bddl import Goal, parse
from tests.helpers.counted import calls_of

DATA = Path(__file__).parents[2] / "data" / "bddl"
CASES: list[dict[str, Any]] = json.loads((DATA / "bddl_q.json").read_text())["cases"]


def goal_of(case: dict[str, Any]) -> Goal:
    if case.get("text"):
        return parse(case["text"]).goal
    corpus, name, _ = case["file"].split("/")
    return parse(DATA / "behavior" / f"{corpus}__{name}.bddl").goal


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    goal = goal_of(case)
    assert {kind: list(names) for kind, names in goal.types.items()} == case["object_scope"]
    for given in case["assignments"]:
        true = given["true"]
        assert goal.satisfied(true) == given["goal_satisfied"]
        assert list(goal.conjuncts(true)) == given["top_level"]
        assert goal.score(true) == pytest.approx(given["q_float"], abs=1e-9)
        assert goal.exact_score(true) == Fraction(given["q"])
        assert goal.exact_progress(true) == Fraction(given["q_progress"])
        assert success_score(goal, true) == goal.score(true)


@pytest.mark.parametrize(
    "case", [case for case in CASES if (case["n_options_distinct"] or 10**9) < 5000],
    ids=lambda case: case["id"],
)  # fmt: skip
def test_distinct_options(case: dict[str, Any]) -> None:
    options = list(goal_of(case).options())
    assert len({frozenset(option) for option in options}) == case["n_options_distinct"]
    assert {len(option) for option in options} <= set(case["option_lengths"])


def test_scoring_everything_takes_little_work() -> None:
    goals = [(goal_of(case), case["assignments"]) for case in CASES]

    def score() -> None:
        for goal, assignments in goals:
            for given in assignments:
                goal.score(given["true"])

    assert calls_of(score) < 1_000_000  # 0.1 s


def test_solved_gift_baskets_score_one() -> None:
    """The reference cuts its list of options and reports 0.25 here."""
    goal = parse(DATA / "behavior" / "b100__assembling_gift_baskets.bddl").goal
    solved = [
        ("inside", f"{thing}_{k}", f"basket.n.01_{(k + turn) % 4 + 1}")
        for turn, thing in enumerate(("candle.n.01", "cheese.n.01", "cookie.n.01", "bow.n.08"))
        for k in range(1, 5)
    ]
    assert goal.satisfied(solved)
    assert goal.score(solved) == 1.0
