"""Give clframe odd command lines: types, ranges, infinities, huge numbers, contradictions.

    python benchmarks/odd_lines.py --count 2000 --seed 0

Every setting of every registered name that a short run on embedded data can have is drawn with
values that nobody means. Each line must end with code 0, or with code 2, one sentence and nothing
left behind; a traceback, a second line, a left-over, more than ``--seconds`` of computing: a fault.
The process imports everything once and forks for each line, so a refusal costs milliseconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import clframe.api
import clframe.cli.fit
import clframe.config.compose
from clframe.checkpoint.settings import CheckpointSettings
from clframe.cli.main import main as command
from clframe.core.registry import Registry, discover
from clframe.core.trainer import TrainerSettings
from clframe.strategies import known_strategies
from clframe.utils import settings

# fmt: off
VALUES = (
    "inf", "-inf", "nan", "1e999", "-1e999", "1e308", "1e-320", "-1", "0", "1", "2", "0.5", "-0.0",
    "100000000000000000000000", "9223372036854775808", "-9223372036854775809", "4294967296",
    "[]", "[[]]", "{}", "[1,2]", "[inf]", "[null]", "{a:1}", "null", "true", "false", "''", "abc",
    "'1'", "0x10", "1_000", "auto", "none", "[abc,abc]", "/", "..", "ünïcode", "'a b'",
)
# fmt: on
LOADED = (clframe.api, clframe.cli.fit, clframe.config.compose)
"""What a run imports, so that no child has to."""
STREAMS = ("split_mnist", "permuted_mnist", "rotated_mnist")
BASE = ("max_steps=1", "run_dir=run", "logger=none")
TOP = ("scenario", "seed", "seeds", "data_dir", "download", "active_outputs", "pretrain", "run_dir")
MORE = ("resume", "strategy_name", "plugin_path", "model", "strategy", "optimizer", "scheduler")
GIGABYTES = 8
# A machine's size, and what the machine itself is asked for, are no odd values but big ones.
LEFT_OUT = ("trainer.compile", "trainer.cuda_graphs", "trainer.num_nodes", "trainer.devices")


def places(registry: Registry) -> list[tuple[str, ...]]:
    """Every setting with the words that choose what it belongs to."""
    found: list[tuple[str, ...]] = [(name,) for name in (*TOP, *MORE)]
    for group, kind in (("trainer", TrainerSettings), ("checkpoint", CheckpointSettings)):
        names = [entry.name for entry in dataclasses.fields(kind)]
        found += [(f"{group}.{name}",) for name in names]
    for kind in ("model", "optimizer", "scheduler", "logger"):
        for name in registry.names(kind):  # type: ignore[arg-type]
            if name in ("timm", "frozen", "wandb", "tensorboard"):
                continue
            prefix = f"logger.{name}" if kind == "logger" else kind
            found += [
                (f"{prefix}.{key}", f"{kind}={name}")
                for key in registry.settings_of(kind, name)  # type: ignore[arg-type]
            ]
    for stream in STREAMS:
        keys = registry.settings_of("stream", stream, all_settings=True)
        found += [(f"stream.{key}", f"stream={stream}") for key in keys]
    for strategy in sorted(set(known_strategies(registry)) & set(registry.names("plugin"))):
        keys = settings.defaults(registry.get("plugin", strategy).factory)
        found += [(f"strategy.{strategy}.{key}", f"strategy={strategy}") for key in keys]
        found.append((f"strategy={strategy}",))
    return [place for place in found if place[0] not in LEFT_OUT]


def lines(registry: Registry, seed: int) -> Iterator[list[str]]:
    """Command lines without end: one odd setting, now and then two."""
    rng = random.Random(seed)
    known = places(registry)
    while True:
        words: list[str] = []
        for _ in range(rng.choice((1, 1, 1, 2))):
            key, *chosen = rng.choice(known)
            words += chosen if "=" in key else [*chosen, f"{key}={rng.choice(VALUES)}"]
            if "=" in key:
                words += [key, f"scenario={rng.choice(('task', 'domain', 'class'))}"]
        given = {word.split("=")[0] for word in words}
        yield [*(word for word in BASE if word.split("=")[0] not in given), *words]


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
        return f"hang (over {seconds} s)" if code in (-9, -24) else f"code {code}", said
    sentences = [line for line in said.splitlines() if line.startswith("clframe: ")]
    if "Traceback" in said:
        return "traceback", said
    if not sentences or said.rstrip().splitlines()[-1] != sentences[-1]:
        return "more than a sentence", said
    # A run that had begun to learn is kept for resume=.
    if left and not any(word in said for word in ("not finite", "no space left")):
        return f"left behind: {', '.join(left)}", said
    return "refused", said


def _in_child(words: list[str], folder: Path, seconds: int) -> int:
    (folder / "work").mkdir()
    os.chdir(folder / "work")
    said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDWR)
    for target, source in ((0, nothing), (1, nothing), (2, said)):
        os.dup2(source, target)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (GIGABYTES << 30, GIGABYTES << 30))
    try:
        return command(["fit", *words])
    except BaseException:
        traceback.print_exc()
        return 70
    finally:
        sys.stderr.flush()


def main(argv: list[str] | None = None) -> int:
    """Run the lines and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=60, help="of computing, per line")
    parser.add_argument("--out", type=Path, help="write counts and faults as JSON")
    arguments = parser.parse_args(argv)
    registry = discover()
    counts: Counter[str] = Counter()
    faults = []
    drawn = lines(registry, arguments.seed)
    for _ in range(arguments.count):
        words = next(drawn)
        outcome, said = run(words, arguments.seconds)
        kind = outcome.split(" (")[0].split(":")[0]
        counts[kind] += 1
        if kind not in ("ran", "refused"):
            faults.append({"line": words, "outcome": outcome, "said": said[-600:]})
            sys.stdout.write(f"{outcome}: clframe fit {' '.join(words)}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dict(counts)}\n")
    if arguments.out is not None:
        content = {"counts": dict(counts), "faults": faults}
        arguments.out.write_text(json.dumps(content, indent=1))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
