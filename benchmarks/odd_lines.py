"""Give clframe odd command lines: types, ranges, infinities, huge numbers, contradictions.

    python benchmarks/odd_lines.py [--count 2000] [--seed 0] [--markdown PAGE]

Every setting of every registered name that a short run on embedded data can have is drawn with
values that nobody means. Each line must end with code 0, or with code 2, one sentence and nothing
left behind; a traceback, a second line, a left-over, more than ``--seconds`` of computing (or ten
times as many of waiting): a fault.
The process imports everything once and forks for each line, so a refusal costs milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from marked_page import put_table

import clframe.api
import clframe.cli.fit
import clframe.config.compose
from clframe.cli.main import main as command
from clframe.config.setting_groups import GROUPS_OF_SETTINGS
from clframe.core.registry import Kind, Registry, discover
from clframe.strategies import known_strategies
from clframe.utils import setting_checks

# fmt: off
VALUES = (
    "inf", "-inf", "nan", "1e999", "-1e999", "1e308", "1e-320", "-1", "0", "1", "2", "0.5", "-0.0",
    "100000000000000000000000", "9223372036854775808", "-9223372036854775809", "4294967296",
    "9223372036854775807", "[9223372036854775807]", "[4000000000]", "4000000000",
    "[]", "[[]]", "{}", "[1,2]", "[inf]", "[null]", "{a:1}", "null", "true", "false", "''", "abc",
    "'1'", "0x10", "1_000", "auto", "none", "[abc,abc]", "/", "..", "ünïcode", "'a b'",
)
# fmt: on
WHOLE = ("-1", "0", "1", "2", "3", "7", "100000", "4294967296", "9223372036854775807")
BROKEN = ("0.5", "-0.5", "-0.0", "1e-8", "1e-320", "1e20", "1e308", "0.999999")
LISTS = ("[]", "[0]", "[-1]", "[1,2]", "[3,3,3]", "[0.5,0.5]", "[4000000000]", "[a,b]")
LOADED = (clframe.api, clframe.cli.fit, clframe.config.compose)
"""What a run imports, so that no child has to."""
STREAMS = ("split_mnist", "permuted_mnist", "rotated_mnist")
BASE = ("trainer.max_steps=1", "run_dir=run", "logger=none", "stream.n_experiences=2")
SHORT = {"strategy=gdumb": "strategy.gdumb.epochs=1"}
"""Where ``max_steps`` does not make a run short."""
TOP = ("scenario", "seed", "seeds", "data_dir", "download", "active_outputs", "pretrain", "run_dir")
MORE = ("resume", "strategy_name", "plugin_path", "model", "strategy", "optimizer", "scheduler")
KEPT = ("not finite", "no space left", "not enough memory for a step")
GIGABYTES = 8
# What a machine is asked for, and how long a run is, are no odd values but big ones.
LENGTHS = (
    "model.patch",  # of one pixel, a patch makes a transformer slow
    *("trainer.max_steps", "strategy.gdumb.epochs", "strategy.podnet.finetune_epochs"),
    *("strategy.packnet.post_epochs", "strategy.packnet.post_steps"),
)
LONG = ("1", "100000", "4000000000", "4294967296", "9223372036854775807")
LEFT_OUT = ("trainer.compile", "trainer.cuda_graphs", "trainer.num_nodes", "trainer.devices")


@dataclass(frozen=True)
class Place:
    """A setting that can be given an odd value.

    Args:
        key: As it is typed; with its value where that is what is tried.
        chosen: The words that choose what it belongs to.
        kind: What it may be, in words.
    """

    key: str
    chosen: tuple[str, ...] = ()
    kind: str = ""


def places(registry: Registry) -> list[Place]:
    """Every setting of what a short run can have."""
    found = [Place(name) for name in (*TOP, *MORE)]
    for group, owner in GROUPS_OF_SETTINGS.items():
        found += [
            Place(f"{group}.{key}", (), may) for key, may in setting_checks.types_of(owner).items()
        ]
    kinds: tuple[Kind, ...] = ("model", "optimizer", "scheduler", "logger")
    for kind in kinds:
        for name in registry.names(kind):
            if name in ("timm", "frozen", "wandb", "tensorboard"):
                continue
            prefix = f"logger.{name}" if kind == "logger" else kind
            types = setting_checks.types_of(registry.get(kind, name).factory)
            found += [
                Place(f"{prefix}.{key}", (f"{kind}={name}",), types[key])
                for key in registry.settings_of(kind, name)
            ]
    for stream in STREAMS:
        keys = registry.settings_of("stream", stream, all_settings=True)
        types = setting_checks.types_of(registry.get("stream", stream).factory)
        found += [Place(f"stream.{key}", (f"stream={stream}",), types[key]) for key in keys]
    for strategy in sorted(set(known_strategies(registry)) & set(registry.names("plugin"))):
        types = setting_checks.types_of(registry.get("plugin", strategy).factory)
        found += [
            Place(f"strategy.{strategy}.{key}", (f"strategy={strategy}",), may)
            for key, may in types.items()
        ]
    found += [Place(f"strategy={strategy}") for strategy in sorted(known_strategies(registry))]
    return [place for place in found if place.key not in LEFT_OUT]


def fitting(kind: str) -> list[str]:
    """Values of the type that a setting has, for what only a run finds out."""
    found = list(WHOLE) if "a whole number" in kind else []
    found += [*WHOLE, *BROKEN] if "a number" in kind else []
    found += ["true", "false"] if "true or false" in kind else []
    found += LISTS if "a list" in kind else []
    found += ["null"] if "null" in kind else []
    if kind.startswith("one of "):
        found += kind.removeprefix("one of ").removesuffix(" or null").split(", ")
    return found


def value(place: Place, rng: random.Random) -> str:
    """A value for a setting: of its type or of any, as often."""
    fit = fitting(place.kind)
    while True:
        drawn = rng.choice(fit if fit and rng.random() < 0.5 else VALUES)
        if not (place.key in LENGTHS and drawn in LONG):
            return drawn


def lines(registry: Registry, seed: int) -> Iterator[list[str]]:
    """Command lines without end: one odd setting, now and then two."""
    rng = random.Random(seed)
    known = places(registry)
    while True:
        words: list[str] = []
        for _ in range(rng.choice((1, 1, 1, 2))):
            place = rng.choice(known)
            if "=" in place.key:
                words += [place.key, f"scenario={rng.choice(('task', 'domain', 'class'))}"]
            else:
                words += [*place.chosen, f"{place.key}={value(place, rng)}"]
        given = {word.split("=")[0] for word in words}
        always = [*BASE, *(short for word, short in SHORT.items() if word in words)]
        yield [*(word for word in always if word.split("=")[0] not in given), *words]


def run(words: list[str], seconds: int) -> tuple[str, str]:
    """What became of a line (``ran``, ``refused`` or a fault), and what was said."""
    folder = Path(tempfile.mkdtemp(prefix="odd_lines_"))
    try:
        child = os.fork()
        if child == 0:
            os._exit(_in_child(words, folder, seconds))
        _, status = os.waitpid(child, 0)
        said = (folder / "said").read_text(errors="replace")
        left = sorted(path.name for path in (folder / "work").iterdir())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return "ran", said
    if code != 2:
        return f"hang (over {seconds} s)" if code in (-9, -14, -24) else f"code {code}", said
    sentences = [line for line in said.splitlines() if line.startswith("clframe: ")]
    if "Traceback" in said:
        return "traceback", said
    if not sentences or said.rstrip().splitlines()[-1] != sentences[-1]:
        return "more than a sentence", said
    # A run that had begun to learn is kept for resume=.
    if left and not any(word in said for word in KEPT):
        return f"left behind: {', '.join(left)}", said
    return "refused", said


def _in_child(words: list[str], folder: Path, seconds: int) -> int:
    for name in ("work", "tmp"):
        (folder / name).mkdir()
    os.chdir(folder / "work")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
    said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDWR)
    for target, source in ((0, nothing), (1, nothing), (2, said)):
        os.dup2(source, target)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    signal.alarm(10 * seconds)
    resource.setrlimit(resource.RLIMIT_AS, (GIGABYTES << 30, GIGABYTES << 30))
    try:
        return command(["fit", *words])
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        sys.stderr.flush()


def table(counts: Counter[str]) -> str:
    """What became of the lines."""
    codes = sum(n for kind, n in counts.items() if kind.startswith("code "))
    cells = (
        ("lines", sum(counts.values())),
        ("ran", counts["ran"]),
        ("refused with a sentence", counts["refused"]),
        ("tracebacks", counts["traceback"] + codes),
        ("over the time", counts["hang"]),
        ("more than a sentence", counts["more than a sentence"]),
        ("left something behind", counts["left behind"]),
    )
    names, numbers = zip(*cells, strict=True)
    rows = (names, ("---",) * len(cells), tuple(map(str, numbers)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(argv: list[str] | None = None) -> int:
    """Run the lines and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=60, help="of computing, per line")
    parser.add_argument("--json", type=Path, help="write counts and faults to this file")
    parser.add_argument("--markdown", type=Path, help="put the table into this page")
    arguments = parser.parse_args(argv)
    os.environ.update(OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    registry = discover()
    counts: Counter[str] = Counter()
    faults, slowest = [], (0.0, "")
    drawn = lines(registry, arguments.seed)
    for _ in range(arguments.count):
        words = next(drawn)
        started = time.perf_counter()
        outcome, said = run(words, arguments.seconds)
        slowest = max(slowest, (time.perf_counter() - started, " ".join(words)))
        kind = outcome.split(" (")[0].split(":")[0]
        counts[kind] += 1
        if kind not in ("ran", "refused"):
            faults.append({"line": words, "outcome": outcome, "said": said[-600:]})
            print(f"{outcome}: clframe fit {' '.join(words)}", file=sys.stderr, flush=True)
    print(f"slowest: {slowest[0]:.0f} s, {slowest[1]}", file=sys.stderr)
    print(table(counts))
    if arguments.json:
        content = {"counts": dict(counts), "faults": faults}
        arguments.json.write_text(json.dumps(content, indent=1))
    if arguments.markdown:
        put_table(arguments.markdown, "odd command lines", table(counts))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
