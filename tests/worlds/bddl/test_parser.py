"""Both dialects read into trees with positions; quirks have names; writing gives the tree back."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from clframe.errors import SettingError
from clframe.worlds import tabletop
from clframe.worlds.bddl import BDDLError, Leniency, Limits, parse, parse_domain, write
from clframe.worlds.bddl.domain import shipped_domain
from clframe.worlds.bddl.syntax import And, Atom, Not
from clframe.worlds.behavior.corpus import CORPORA, activities, activity_text
from tests.helpers.counted import calls_of

DATA = Path(__file__).parents[2] / "data" / "bddl"
SAMPLE = sorted(DATA.glob("*/*.bddl"))

BEHAVIOR = """(define (problem Tidy-0)
  (:domain igibson) ; a comment with (parentheses
  (:objects cup.n.01_1 cup.n.01_2 - cup.n.01
            shelf.n.01_1 - shelf.n.01)
  (:init (OnTop cup.n.01_1 shelf.n.01_1) (not (dusty cup.n.01_2)) (inroom shelf.n.01_1 kitchen))
  (:goal (and (forall (?c - cup.n.01) (ontop ?c ?shelf.n.01_1))
              (not (dusty cup.n.01_1)))))
"""
LIBERO = """(define (problem LIBERO_Tabletop_Manipulation)
  (:domain robosuite)
  (:language Put the bowl, on the plate!)
  (:regions
    (start (:target main_table) (:ranges ((-0.1 0 .1 1e-1))) (:yaw_rotation ((0.0 3.14))))
    (top_side (:target cabinet_1)))
  (:fixtures main_table - table cabinet_1 - wooden_cabinet)
  (:objects bowl_1 - bowl plate_1 - plate)
  (:obj_of_interest bowl_1 cabinet_1_top_side)
  (:init (On bowl_1 main_table_start) (On plate_1 cabinet_1_top_side))
  (:goal (And (On bowl_1 plate_1))))
"""


def test_behavior_dialect() -> None:
    problem = parse(BEHAVIOR)
    assert problem.name == "tidy-0"
    assert problem.domain == "igibson"
    assert not problem.libero
    assert dict(problem.objects) == {
        "cup.n.01_1": "cup.n.01",
        "cup.n.01_2": "cup.n.01",
        "shelf.n.01_1": "shelf.n.01",
    }
    assert problem.init == (
        ("ontop", "cup.n.01_1", "shelf.n.01_1"),
        ("inroom", "shelf.n.01_1", "kitchen"),
    )
    assert problem.init_false == (("dusty", "cup.n.01_2"),)
    assert problem.initial_state == {("ontop", "cup.n.01_1", "shelf.n.01_1")}
    goal = problem.goal.formula
    assert isinstance(goal, And)
    assert goal.parts[1] == Not(Atom("dusty", ("cup.n.01_1",)))
    assert goal.at == (6, 10)
    assert goal.parts[1].at == (7, 15)


def test_libero_dialect() -> None:
    problem = parse(LIBERO)
    assert problem.libero
    assert problem.language == "put the bowl, on the plate!"
    assert dict(problem.fixtures) == {"main_table": "table", "cabinet_1": "wooden_cabinet"}
    start, side = problem.regions
    assert start.full_name == "main_table_start"
    assert start.ranges == ((-0.1, 0.0, 0.1, 0.1),)
    assert start.yaw == (0.0, 3.14)
    assert side.ranges == ()
    assert problem.obj_of_interest == ("bowl_1", "cabinet_1_top_side")
    assert problem.goal.score([("on", "bowl_1", "plate_1")]) == 1.0


@pytest.mark.parametrize("text", [BEHAVIOR, LIBERO], ids=["behavior", "libero"])
def test_round_trip_and_pickle(text: str) -> None:
    problem = parse(text)
    assert parse(write(problem), lenient=Leniency.STRICT) == problem
    assert pickle.loads(pickle.dumps(problem)) == problem


def test_round_trip_of_every_construct() -> None:
    goal = (
        "(or (and) (imply (open ?a_1) (not (hot ?a_1))) (exists (?x - a) (forn (2) (?y - a)"
        "(nextto ?x ?y))) (forpairs (?x - a) (?y - b) (touching ?x ?y))"
        "(fornpairs (1) (?x - a) (?y - b) (touching ?y ?x)))"
    )
    text = (
        "(define (problem p) (:domain omnigibson) (:requirements :strips) (:objects a_1 - a b_1 - b"
        f" a_2 - a loose) (:init) (:goal {goal}))"
    )
    problem = parse(text)
    assert problem.objects.of_type("a") == ("a_1", "a_2")
    assert problem.objects["loose"] == "object"
    again = parse(write(problem))
    assert again == problem
    assert again != parse(text.replace("(2)", "(1)"))


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.stem[:50])
def test_published_files_round_trip(path: Path) -> None:
    problem = parse(path, lenient=Leniency.ALL)
    kept = Leniency.WILDCARDS | Leniency.DANGLING_REGIONS
    assert parse(write(problem), lenient=kept) == problem


@pytest.mark.parametrize(
    ("stem", "leniency", "place"),
    [
        ("b1k__loading_the_car", Leniency.EXTRA_GOALS, (31, 9)),
        ("b1k__passing_out_drinks", Leniency.REPEATED_OBJECTS, (6, 28)),
        ("b1k__wash_a_baseball_cap", Leniency.STRAY_WORDS, (22, 6)),
        ("b1k__storing_food", Leniency.WILDCARDS, None),
    ],
)
def test_each_quirk_needs_its_leniency(
    stem: str, leniency: Leniency, place: tuple[int, int]
) -> None:
    path = DATA / "behavior" / f"{stem}.bddl"
    with pytest.raises(BDDLError, match=leniency.name) as caught:
        parse(path, lenient=Leniency.ALL & ~leniency)
    if place:
        assert (caught.value.line, caught.value.column) == place
    warnings = parse(path, lenient=leniency).warnings
    assert warnings
    assert all(warning.path == str(path) for warning in warnings)


def test_whole_corpora(tmp_path: Path) -> None:
    """All 1,246 files parse and round-trip, and their options are as many as counted elsewhere."""
    for corpus, name in [(c, name) for c in CORPORA for name in activities(c)]:
        path = tmp_path / corpus / name / "problem0.bddl"
        path.parent.mkdir(parents=True)
        path.write_text(activity_text(corpus, name))
    behavior = sorted(tmp_path.glob("b1*/*/problem0.bddl"))
    libero = sorted((Path(tabletop.__path__[0]) / "data").rglob("*.bddl"))
    assert (len(behavior), len(libero)) == (1116, 130)
    problems = {path: parse(path, lenient=Leniency.ALL) for path in [*behavior, *libero]}
    few = [*behavior[::20], *libero[::20]]

    def read() -> None:
        for path in few:
            parse(path, lenient=Leniency.ALL)

    assert calls_of(read) < 3 * sum(path.stat().st_size for path in few)  # in linear time
    for path, problem in problems.items():
        again = parse(write(problem), lenient=Leniency.WILDCARDS | Leniency.DANGLING_REGIONS)
        assert again == problem, path
    counts = json.loads((DATA / "behavior_counts.json").read_text())
    assert len(counts) == len(behavior)
    for name, (n_objects, n_options) in counts.items():
        problem = problems[tmp_path / name / "problem0.bddl"]
        assert len(problem.objects) == n_objects
        if n_options is not None:
            assert problem.goal.count_options() == int(n_options)


def test_text_or_path(tmp_path: Path) -> None:
    path = tmp_path / "task.bddl"
    path.write_text(BEHAVIOR)
    assert parse(path) == parse(str(path)) == parse(BEHAVIOR)


def test_limits_are_settings() -> None:
    with pytest.raises(BDDLError, match="deeper than the limit of 3"):
        parse(BEHAVIOR, limits=Limits(max_depth=3))
    with pytest.raises(BDDLError, match="the limit is 100"):
        parse(BEHAVIOR, limits=Limits(max_characters=100))
    with pytest.raises(BDDLError, match="more than 5 pairs of parentheses"):
        parse(BEHAVIOR, limits=Limits(max_groups=5))
    with pytest.raises(BDDLError, match="more than 9 words"):
        parse(BEHAVIOR, limits=Limits(max_words=9))
    with pytest.raises(BDDLError, match="3 ground atoms"):
        parse(BEHAVIOR, limits=Limits(max_ground_atoms=2))
    settings: list[dict[str, Any]] = [{"max_depth": 0}, {"max_depth": 100_000}, {"max_search": 1.5}]
    for bad in settings:
        with pytest.raises(SettingError, match="must be"):
            Limits(**bad)


def test_own_domain_and_unknown_domain() -> None:
    text = BEHAVIOR.replace("igibson", "my_domain")
    assert "my_domain" in parse(text).warnings[0].sentence
    with pytest.raises(BDDLError, match="my_domain"):
        parse(text, lenient=Leniency.STRICT)
    with pytest.raises(BDDLError, match="has 2 terms; expected 1"):
        parse(text.replace("(not (dusty cup.n.01_1))", "(dusty cup.n.01_1 cup.n.01_2)"))


OTHER = """(define (problem p)
  (:domain igibson)
  (:objects cup_1 - cup table_1 - table)
  (:init (ontop cup_1 table_1))
  (:goal (and (ontop ?cup_1 ?table_1))))
"""


def test_another_domain_than_the_problems_is_warned_of_with_its_place() -> None:
    mine = parse_domain("(define (domain mine) (:predicates (ontop ?a ?b)))")
    (warning,) = parse(OTHER, domain=mine).warnings
    assert (warning.line, warning.column) == (2, 3)
    assert "of the domain 'igibson', but is read with the domain 'mine'" in warning.sentence
    with pytest.raises(BDDLError, match=r"line 2, column 3: .*OTHER_DOMAIN lets it through"):
        parse(OTHER, domain=mine, lenient=Leniency.STRICT)
    # A name that stands for the same vocabulary, or the same name, is no other domain.
    igibson = shipped_domain("igibson")
    assert parse(OTHER.replace("igibson", "behavior-100"), domain=igibson).warnings == ()
    assert parse(OTHER, domain=igibson).warnings == ()
    named = parse_domain("(define (domain igibson) (:predicates (ontop ?a ?b)))")
    assert parse(OTHER, domain=named).warnings == ()


def test_a_libero_problem_under_another_domain_is_warned_of() -> None:
    text = OTHER.replace("(problem p)", "(problem libero_floor_manipulation)")
    (warning,) = parse(text).warnings
    assert (warning.line, warning.column) == (2, 3)
    assert "is one of LIBERO's, whose domain is robosuite" in warning.sentence


def test_pairs_that_only_a_scene_can_count_are_not_refused() -> None:
    text = OTHER.replace("igibson", "omnigibson").replace(
        "table_1 - table", "table_1 table_* - table"
    )
    text = text.replace("(ontop ?cup_1 ?table_1)", "(forn (4) (?t - table) (open ?t))")
    assert len(parse(text).warnings) == 1  # of the wildcard alone
