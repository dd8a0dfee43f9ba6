"""One update of soft actor-critic: clframe's, through its loop, a bare one and others'.

    python benchmarks/rl.py [--repeats 21] [--peers stable_baselines3=PYTHON torchrl=PYTHON]
                            [--json FILE] [--markdown PAGE]

Every case is a process of its own with one thread, and they take turns: a block of updates each, as
often as ``--repeats`` says. Figures are CPU time of one update; a ratio is of two blocks of the
same turn. Cases, in ``peer_cases/``:

    bare        the update by hand, with the networks of clframe and fused Adam
    clframe     the training loop with its hooks, events and CSV logging, a decision every 1,000
    acting      the same with a decision before every update, as `learner=sac` has it
    stacked     the bare update for four seeds at once, in batched products; time of one seed
    PEER        the update of another library, in the environment of the interpreter that is given

A peer whose torch is another one than clframe's is compared with the bare update under that torch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from marked_page import put_table

CASES = Path(__file__).parent / "peer_cases"
PEERS = ("stable_baselines3", "torchrl")
SIZES = {"128x2": [128, 128], "256x2": [256, 256], "256x4": [256] * 4}


class Case:
    """A process that does a block of updates whenever it is asked to."""

    def __init__(self, python: str, script: str, hidden: list[int], block: int) -> None:
        name, *words = script.split()
        command = [python, str(CASES / f"sac_{name}.py"), json.dumps(hidden), str(block), *words]
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **threads, "PYTHONWARNINGS": "ignore"},
        )
        self.torch: str = self._answer()["torch"]

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline()
        if not line:
            last = self.process.stderr.read().strip().splitlines()
            given: Any = self.process.args  # a list of words
            raise SystemExit(f"{' '.join(map(str, given))} failed: {last[-1] if last else ''}")
        return json.loads(line)

    def measure(self) -> float:
        """CPU seconds of one update, from one block."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """Let it end."""
        self.process.communicate()


def scripts(peers: dict[str, str]) -> dict[str, tuple[str, str]]:
    """By case, the interpreter and the script."""
    mine = sys.executable
    cases = {
        "bare": (mine, "bare"),
        "clframe": (mine, "clframe"),
        "acting": (mine, "clframe acting"),
        "stacked": (mine, "stacked"),
    }
    for name, python in peers.items():
        cases[name] = (python, name)
        cases[f"bare ({name})"] = (python, "bare")
    return cases


def measure(hidden: list[int], peers: dict[str, str], repeats: int, block: int) -> dict[str, Any]:
    """All cases of one size: times of each turn, and which torch it was."""
    cases = {n: Case(p, script, hidden, block) for n, (p, script) in scripts(peers).items()}
    times: dict[str, list[float]] = {name: [] for name in cases}
    names = list(cases)
    for repeat in range(repeats):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(cases[name].measure())
    for case in cases.values():
        case.close()
    return {name: {"torch": cases[name].torch, "seconds": times[name]} for name in names}


def ratio(of: list[float], to: list[float]) -> tuple[float, float, float]:
    """Quartiles of the ratio of two cases, turn by turn; the median in the middle."""
    low, middle, high = statistics.quantiles([a / b for a, b in zip(of, to, strict=True)], n=4)
    return low, middle, high


def rows(size: str, found: dict[str, Any]) -> list[str]:
    """The lines of one size."""
    lines = []
    for name, case in found.items():
        if name.startswith("bare ("):
            continue
        reference = found.get(f"bare ({name})", found["bare"])["seconds"]
        low, middle, high = ratio(case["seconds"], reference)
        step = statistics.median(case["seconds"]) * 1e3
        lines.append(
            f"| {size} | {name} | {case['torch'].partition('+')[0]} | {step:.2f} | {middle:.2f} | "
            f"{low:.2f} to {high:.2f} |"
        )
    return lines


def table(report: dict[str, Any]) -> str:
    """Times, and ratios to the bare update."""
    lines = [
        "| networks | update | torch | ms | of bare | quartiles |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for size, found in report.items():
        lines += rows(size, found)
    return "\n".join(lines)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--block", type=int, default=200, help="updates in a turn")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--peers", nargs="*", default=[], help="NAME=PYTHON of other libraries")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="put the table into this page")
    arguments = parser.parse_args()
    peers = dict(peer.partition("=")[::2] for peer in arguments.peers)
    for name in peers:
        if name not in PEERS:
            raise SystemExit(f"unknown peer '{name}'; there are {', '.join(PEERS)}")
    for name in PEERS:
        if name not in peers:
            print(f"{name} is left out: give --peers {name}=PYTHON to measure it", file=sys.stderr)
    report = {}
    for size in arguments.sizes:
        report[size] = measure(SIZES[size], peers, arguments.repeats, arguments.block)
        print("\n".join(rows(size, report[size])), file=sys.stderr, flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    if arguments.markdown:
        put_table(arguments.markdown, "updates", table(report))


if __name__ == "__main__":
    main()
