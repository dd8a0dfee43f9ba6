"""Nothing a text can hold crashes the reader, stalls it or is executed."""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clframe.worlds.bddl import BDDLError, Leniency, parse, parse_domain, write
from tests.helpers.counted import calls_of

DATA = Path(__file__).parents[2] / "data" / "bddl"
SAMPLE = [path.read_text() for path in sorted(DATA.glob("*/*.bddl"))]
GOOD = """(define (problem p)
  (:domain omnigibson)
  (:objects cup_1 cup_2 - cup table_1 - table)
  (:init (ontop cup_1 table_1))
  (:goal (and (inside ?cup_1 ?cup_2) (forall (?c - cup) (cooked ?c)))))
"""
REGION = """(define (problem p)
  (:domain robosuite)
  (:regions (spot (:target table_1) (:ranges ((0 0 1 1))) (:yaw_rotation ((0 1)))))
  (:fixtures table_1 - table)
  (:objects cup_1 - cup)
  (:obj_of_interest cup_1)
  (:init (on cup_1 table_1_spot))
  (:goal (and (on cup_1 table_1))))
"""


def edited(old: str, new: str, text: str = GOOD) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


CASES = {
    "empty file": ("\n", 1, 1, "empty"),
    "only a comment": ("; (nothing)\n", 1, 1, "empty"),
    "missing parenthesis": (GOOD.rstrip()[:-1], 1, 1, "never closed: 1 closing"),
    "missing parentheses": (GOOD.rstrip()[:-3], 5, 10, "never closed: 3 closing"),
    "extra parenthesis": (GOOD + ")", 6, 1, "too much"),
    "closing first": (")(", 1, 1, "before any opening"),
    "two descriptions": (GOOD + GOOD, 6, 1, "has ended"),
    "not a definition": ("(problem p)", 1, 1, "starts with"),
    "unknown section": (edited("(:init", "(:start"), 4, 3, "no section ':start'"),
    "misspelt section": (edited("(:init", "(:inits"), 4, 3, "did you mean ':init'"),
    "section of the other dialect": (edited("(:init", "(:regions) (:init"), 4, 3, "LIBERO"),
    "section without a name": (edited("(:init", "((:init)) (:init"), 4, 3, "Expected a section"),
    "missing section": (edited("  (:init (ontop cup_1 table_1))\n", ""), 1, 1, "(:init ...) is"),
    "stray word": (edited("(:init", "oops (:init"), 4, 3, "'oops' stands between"),
    "two goal sections": (edited("(:goal", "(:goal (open ?cup_1)) (:goal"), 5, 25, "given twice"),
    "two formulas in a goal": (edited("(:goal", "(:goal (open ?cup_1)"), 5, 24, "more than one"),
    "empty goal": (GOOD[: GOOD.index("(and")] + "))", 5, 3, "empty"),
    "goal of an empty conjunction": (GOOD[: GOOD.index("(and")] + "(and)))", 5, 10, "always holds"),
    "goal of empty conjunctions": (GOOD[: GOOD.index("(and")] + "(and (or))))", 5, 10, "joins no"),
    "goal of an empty disjunction": (GOOD[: GOOD.index("(and")] + "(or)))", 5, 10, "never holds"),
    "more pairs than there are": (
        edited("(cooked ?c)", "(fornpairs (2) (?a - cup) (?b - table) (ontop ?a ?b))"),
        5, 68, "2 pairs, but 'cup' (2 declared) and 'table' (1 declared) can give only 1",
    ),
    "pairs of one with itself": (
        edited("(cooked ?c)", "(fornpairs (1) (?a - table) (?b - table) (ontop ?a ?b))"),
        5, 68, "can give only 0",
    ),
    "more instances than there are": (
        edited("(cooked ?c)", "(forn (3) (?a - cup) (open ?a))"), 5, 63, "3 instances, but 'cup'",
    ),
    "goal is a word": (edited("(inside ?cup_1 ?cup_2)", "inside"), 5, 15, "Expected a formula"),
    "goal with an empty group": (edited("(cooked ?c)", "()"), 5, 57, "Expected a formula"),
    "unknown predicate": (edited("(inside", "(insid"), 5, 15, "did you mean 'inside'"),
    "too few terms": (edited("(ontop cup_1 table_1)", "(ontop cup_1)"), 4, 10, "takes 2 terms"),
    "too many terms": (edited("(cooked ?c)", "(cooked ?c ?c)"), 5, 57, "takes 1 term, not 2"),
    "nested term": (edited("(cooked ?c)", "(cooked (?c))"), 5, 65, "no connective"),
    "undeclared object": (edited("?cup_2)", "?cup_9)"), 5, 30, "'cup_9' is not declared"),
    "undeclared in init": (edited("(ontop cup_1", "(ontop mug_1"), 4, 17, "'mug_1' is not"),
    "undeclared room": (edited("(ontop cup_1", "(inroom mug_1"), 4, 18, "'mug_1' is not"),
    "unbound variable": (edited("(cooked ?c)", "(cooked ?d)"), 5, 65, "'d' is not declared"),
    "bare question mark": (edited("(cooked ?c)", "(cooked ?)"), 5, 65, "followed by a name"),
    "undeclared type": (edited("(?c - cup)", "(?c - cap)"), 5, 52, "did you mean 'cup'"),
    "wildcard in the goal": (
        edited("cup_2 - cup", "cup_2 cup_* - cup").replace("?cup_2)", "?cup_*)"), 5, 30, "wildcard",
    ),
    "duplicate object": (edited("cup_1 cup_2 -", "cup_1 cup_1 -"), 3, 19, "declared twice"),
    "object of two types": (edited("table_1 - table", "cup_1 - table"), 3, 31, "as 'cup' before"),
    "type without names": (edited("cup_1 cup_2 -", "-"), 3, 13, "must follow"),
    "names without type": (edited("- table)", "-)"), 3, 39, "followed by"),
    "formula in init": (edited("(ontop cup_1 table_1)", "(or)"), 4, 10, "atoms and negated"),
    "contradictory init": (
        edited("(:init", "(:init (not (ontop cup_1 table_1))"), 4, 38, "both hold and not hold",
    ),
    "not of two": (edited("(cooked ?c)", "(not (cooked ?c) (hot ?c))"), 5, 57, "2 operands"),
    "imply of one": (edited("(cooked ?c)", "(imply (cooked ?c))"), 5, 57, "1 operands"),
    "bad binder": (edited("(?c - cup)", "(?c cup)"), 5, 46, "Expected a variable"),
    "bad count": (edited("(forall (?c", "(forn (-1) (?c"), 5, 44, "Expected a count"),
    "count that overflows": (edited("(forall (?c", f"(forn ({'9' * 5000}) (?c"), 5, 44, "count"),
    "problem without a name": (edited("(problem p)", "(problem)"), 1, 9, "(problem NAME)"),
    "control character": (edited("cup_1 cup_2", "cup_1\x00cup_2"), 3, 18, "U+0000"),
    "lone surrogate": (edited("cup_1 cup_2", "cup_1\ud800 cup_2"), 3, 18, "U+D800"),
    "number that overflows": (edited("0 0 1 1", "0 0 1e999 1", REGION), 3, 52, "too large"),
    "not a number": (edited("0 0 1 1", "0 0 nan 1", REGION), 3, 52, "Expected a number"),
    "numbers in disorder": (edited("0 0 1 1", "1 0 0 1", REGION), 3, 47, "x0 <= x1"),
    "three numbers": (edited("0 0 1 1", "0 0 1", REGION), 3, 47, "Expected 4 numbers"),
    "unknown attribute": (edited("(:ranges", "(:rangs", REGION), 3, 37, "no attribute"),
    "region without target": (edited("(:target table_1) ", "", REGION), 3, 13, "(:target NAME)"),
    "region twice": (
        edited("(:regions", "(:regions (spot (:target table_1))", REGION), 3, 38, "already taken",
    ),
    "target undeclared and used": (
        edited("(:target table_1)", "(:target table_2)", REGION).replace("1_spot", "2_spot"),
        7, 20, "target that is not declared",
    ),
    "interest undeclared": (
        edited("(:obj_of_interest cup_1)", "(:obj_of_interest cup_3)", REGION), 6, 21, "'cup_3'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused_with_place_and_sentence(name: str) -> None:
    text, line, column, part = CASES[name]
    with pytest.raises(BDDLError) as caught:
        parse(text)
    assert part in caught.value.sentence
    assert (caught.value.line, caught.value.column) == (line, column)


def test_the_unedited_texts_are_good() -> None:
    assert parse(GOOD, lenient=Leniency.STRICT)
    assert parse(REGION, lenient=Leniency.STRICT)


def test_all_errors_in_one_reading() -> None:
    text = edited("(inside ?cup_1 ?cup_2)", "(insid ?cup_1) (open ?x) (hot ?cup_1 ?cup_2)")
    with pytest.raises(BDDLError) as caught:
        parse(text)
    sentences = [caught.value.sentence, *(error.sentence for error in caught.value.more)]
    assert len(sentences) == 3
    assert "takes 1 term" in sentences[2]


@pytest.mark.parametrize(
    "code",
    ["__import__('os').mkdir('owned')", "open('owned','w')", "1+1", "pi", "0x10", "1_0", "inf"],
)
def test_yaw_is_never_evaluated(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BDDLError):
        parse(edited("((0 1))", f"((0 {code}))", REGION))
    assert not list(tmp_path.iterdir())


# Functions, since two of the texts have 50 MB.
LONG: dict[str, Callable[[], str]] = {
    "nesting": lambda: "(" * 10_000 + ")" * 10_000,
    "nesting in the goal": lambda: edited(
        "(cooked ?c)", "(not " * 10_000 + "(hot ?c)" + ")" * 10_000
    ),
    "50 MB": lambda: "(" + " x" * 25_000_000 + ")",
    "50 MB of parentheses": lambda: "()" * 25_000_000,
    "one long word": lambda: "(" + "x" * 400_000 + ")",
    "many undeclared names": lambda: edited(
        "(ontop cup_1 table_1)", " ".join(f"(ontop a{i} b{i})" for i in range(20_000))
    ),
    "many empty groups": lambda: "(define " + "() " * 150_000 + ")",
    "many objects": lambda: edited(
        "cup_1 cup_2", "cup_1 cup_2 " + " ".join(f"c{k}" for k in range(60_000))
    ),
    "a goal that explodes": lambda: edited(
        "(cooked ?c)", "(forall (?c - cup) " * 40 + "(cooked ?c)" + ")" * 40
    ),
    "a long goal": lambda: edited("(cooked ?c)", "(and " + "(open ?cup_1) " * 30_000 + ")"),
}


@pytest.mark.parametrize("name", LONG)
def test_refused_after_little_work(name: str) -> None:
    """By one call for each character at most, and by next to none where the text is too long."""
    text = LONG[name]()

    def read() -> None:
        with pytest.raises(BDDLError):
            parse(text)

    assert calls_of(read) < 5000 + (len(text) if len(text) < 1_000_000 else 0)


@pytest.mark.slow  # what a call takes is not counted, but timed; a hundredth of it is usual
@pytest.mark.parametrize("name", LONG)
def test_refused_within_seconds(name: str) -> None:
    text = LONG[name]()
    gc.freeze()  # what earlier tests have left is not gone through meanwhile, which takes a second
    try:
        start = time.thread_time()
        with pytest.raises(BDDLError):
            parse(text)
        assert time.thread_time() - start < 1
    finally:
        gc.unfreeze()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    junk = tmp_path / "junk.bddl"
    junk.write_bytes(b"(define\n \xff\xfe\x00")
    with pytest.raises(BDDLError, match="0xff") as caught:
        parse(junk)
    assert (caught.value.line, caught.value.column) == (2, 2)
    assert str(caught.value).startswith(f"{junk}:2:2: ")
    big = tmp_path / "big.bddl"
    with big.open("wb") as stream:
        stream.truncate(50_000_000)
    with pytest.raises(BDDLError, match="larger than the limit"):
        parse(big)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path / "missing.bddl", tmp_path, pipe, "missing", "", "x" * 5000, "a\x00b"):
        with pytest.raises(BDDLError):
            parse(path)
    for thing in (None, 3, b"(define)"):
        with pytest.raises(BDDLError, match="as a text or a path"):
            parse(thing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["(define)", "(define (domain d))", "(define (domain d) (:predicates p))", "(x)",
     "(define (domain d) (:predicates (p) (p)))", "(define (domain d e) (:predicates (p)))",
     "(define (domain d) (:actions))", "(define (domain d) (:predicates (p (x))))"],
)  # fmt: skip
def test_bad_domains(text: str) -> None:
    with pytest.raises(BDDLError):
        parse_domain(text)


def _examine(text: str) -> None:
    """Refused with a place inside the text, or read, written and read back equal, and scored."""
    try:
        problem = parse(text + "\n", lenient=Leniency.ALL)
    except BDDLError as error:
        assert error.sentence  # noqa: PT017
        lines = (text + "\n").split("\n")
        assert 1 <= error.line <= len(lines)  # noqa: PT017
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1  # noqa: PT017
        return
    assert parse(write(problem)) == problem
    try:
        assert 0 <= problem.goal.score(problem.init) <= 1
    except BDDLError as error:
        assert "contradicts" in error.sentence or "limit" in error.sentence  # noqa: PT017


# fmt: off
WORDS = ["(", ")", "(", ")", " ", "define", "problem", ":domain", "igibson", ":objects", ":init",
         ":goal", "-", "?", "?x", "cup_1", "cup", "and", "or", "not", "forall", "forn", "(1)",
         "open", "ontop", ";", "\n"]
# fmt: on


def times(quick: int, slow: int) -> pytest.MarkDecorator:
    """Examples of Hypothesis: few in the quick tier, more in the slow one."""
    return pytest.mark.parametrize("count", [quick, pytest.param(slow, marks=pytest.mark.slow)])


def fuzz(count: int, examine: Callable[..., None], *strategies: st.SearchStrategy[Any]) -> None:
    """Examine so many examples."""
    settings(max_examples=count, deadline=None)(given(*strategies)(examine))()


@times(100, 300)
def test_fuzz_with_random_text(count: int) -> None:
    fuzz(
        count,
        _examine,
        st.one_of(st.text(max_size=200), st.lists(st.sampled_from(WORDS)).map(" ".join)),
    )


@times(100, 300)
def test_fuzz_with_edited_files(count: int) -> None:
    def examine(text: str, edits: list[tuple[float, int, str]]) -> None:
        for where, removed, added in edits:
            at = int(where * len(text))
            text = text[:at] + added + text[at + removed :]
        _examine(text)

    edit = st.tuples(
        st.floats(0, 1),
        st.integers(0, 30),
        st.one_of(st.sampled_from(WORDS), st.text(max_size=4)),
    )
    texts = st.sampled_from([*SAMPLE, GOOD, REGION])
    fuzz(count, examine, texts, st.lists(edit, max_size=5))


@times(100, 200)
def test_fuzz_with_exchanged_words(count: int) -> None:
    """Exchanging words keeps parentheses balanced, which reaches the deeper checks."""

    def examine(text: str, seed: int) -> None:
        rng = random.Random(seed)
        words = text.replace("(", " ( ").replace(")", " ) ").split()
        places = [i for i, word in enumerate(words) if word not in "()"]
        for _ in range(rng.randrange(1, 4)):
            words[rng.choice(places)] = words[rng.choice(places)]
        _examine(" ".join(words))

    fuzz(count, examine, st.sampled_from(SAMPLE), st.integers(0, 2**32))
