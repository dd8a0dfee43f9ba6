"""Mutate task descriptions by the million and read them.

    python benchmarks/bddl_fuzz.py CORPUS_FOLDER --count 1000000 --seed 0

Every mutant must either be refused with a `BDDLError` whose line and column lie in the text, or
parse, round-trip to an equal tree and have a score between 0 and 1; none may take longer than a
second. The first mutant that breaks this is written to ``bddl_fuzz_failure.bddl`` and ends the run
with code 1.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

from clframe.worlds.bddl import BDDLError, Leniency, Problem, parse, write

# fmt: off
SPECIAL = [
    "(", ")", "((", "))", "()", ";", "-", "?", "\\", "\n", "\t", "\x00", "\ufeff", "İ", "_*",
    "and", "or", "not", "imply", "forall", "exists", "forn", "forpairs", "fornpairs", "(0)", "(99)",
    "(-1)", "1e999", "nan", "9" * 400, ":goal", ":init", ":objects", ":regions", ":fixtures",
    ":language", "define", "problem", "object", "__import__('os')", "(and)", "(or)", "(not (and))",
]
# fmt: on
TOKEN = re.compile(r"[()]|[^\s()]+|\s+")


def mutate(text: str, other: str, rng: random.Random) -> str:
    """One to four random edits of characters, tokens, balanced groups or halves of files."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        kind = rng.randrange(8)
        if kind == 0:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(SPECIAL) + text[at:]
        elif kind == 1:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + text[at + rng.choice((1, 1, 5, 50)) :]
        elif kind == 2:
            at = rng.randrange(len(text) + 1)
            text = (
                text[:at] + chr(rng.choice((rng.randrange(128), rng.randrange(0x3000)))) + text[at:]
            )
        elif kind == 3:
            cut, other_cut = rng.randrange(len(text) + 1), rng.randrange(len(other) + 1)
            text = text[:cut] + other[other_cut:]
        else:
            text = _mutate_tokens(text, kind, rng)
    return text


def _mutate_tokens(text: str, kind: int, rng: random.Random) -> str:
    tokens = TOKEN.findall(text)
    words = [i for i, token in enumerate(tokens) if not token.isspace()]
    if not words:
        return text
    i, j = rng.choice(words), rng.choice(words)
    if kind == 4:
        tokens[i], tokens[j] = tokens[j], tokens[i]
    elif kind == 5:
        tokens[i] = tokens[j]
    elif kind == 6:
        tokens[i] = " " + rng.choice(SPECIAL) + " "
    else:  # copy a balanced group to another place
        starts = [k for k in words if tokens[k] == "("]
        if starts:
            start = end = rng.choice(starts)
            depth = 0
            for end in range(start, len(tokens)):
                depth += {"(": 1, ")": -1}.get(tokens[end], 0)
                if depth == 0:
                    break
            tokens[j:j] = tokens[start : end + 1]
    return "".join(tokens)


def examine(text: str, rng: random.Random) -> str:
    """What became of one mutant; raises AssertionError if it breaks a promise."""
    try:
        problem = parse(text, lenient=rng.choice((Leniency.STRICT, Leniency.DEFAULT, Leniency.ALL)))
    except BDDLError as error:
        _check_place(error, text)
        return "refused"
    again = parse(write(problem), lenient=Leniency.WILDCARDS | Leniency.DANGLING_REGIONS
                  | Leniency.UNKNOWN_DOMAIN)  # fmt: skip
    assert again == problem, "round trip"
    return _score(problem, rng)


def _check_place(error: BDDLError, text: str) -> None:
    lines = text.split("\n")
    assert 1 <= error.line <= len(lines), "line outside of the text"
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1, "column outside of the line"
    assert error.sentence, "no sentence"


def _score(problem: Problem, rng: random.Random) -> str:
    atoms = sorted(problem.goal.atoms)
    try:
        for world in (problem.init, rng.sample(atoms, len(atoms) // 2)):
            problem.goal.satisfied(world)
            assert 0 <= problem.goal.score(world) <= 1, "score out of range"
            assert 0 <= problem.goal.progress(world) <= 1, "progress out of range"
    except BDDLError:
        return "parsed, no score"
    return "parsed and scored"


def main() -> int:
    """Run the fuzz and print what became of the mutants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="folder searched for *.bddl")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    texts = [path.read_text() for path in sorted(arguments.corpus.rglob("*.bddl"))]
    if not texts:
        print(f"There is no *.bddl file under {arguments.corpus}.", file=sys.stderr)
        return 2
    outcomes: Counter[str] = Counter()
    slowest, begin = 0.0, time.perf_counter()
    for number in range(arguments.count):
        rng = random.Random(arguments.seed * 1_000_003 + number)
        text = mutate(rng.choice(texts), rng.choice(texts), rng)
        if not re.search(r"[()\n]", text):  # would be taken for the name of a file
            text += "\n"
        start = time.process_time()
        try:
            outcomes[examine(text, rng)] += 1
        except Exception as error:
            Path("bddl_fuzz_failure.bddl").write_text(text, errors="surrogatepass")
            print(f"mutant {number}: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
        taken = time.process_time() - start
        slowest = max(slowest, taken)
        if taken > 1:
            Path("bddl_fuzz_failure.bddl").write_text(text, errors="surrogatepass")
            print(f"mutant {number} took {taken:.2f} s", file=sys.stderr)
            return 1
        if (number + 1) % 50_000 == 0 or number + 1 == arguments.count:
            seconds = time.perf_counter() - begin
            print(
                f"{number + 1} mutants, {seconds:.0f} s, slowest {slowest:.3f} s, {dict(outcomes)}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
