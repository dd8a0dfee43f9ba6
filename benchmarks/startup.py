"""How long a user waits before anything happens: processes started in turn, medians of wall time.

python benchmarks/startup.py [--repeats 7] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

PYTHON = sys.executable
CASES = {
    "python": [PYTHON, "-c", "pass"],
    "import torch": [PYTHON, "-c", "import torch"],
    "import torch, clframe": [PYTHON, "-c", "import torch, clframe"],
    "clframe --help": [PYTHON, "-m", "clframe", "--help"],
    "clframe list strategies": [PYTHON, "-m", "clframe", "list", "strategies"],
    "import clframe.api": [PYTHON, "-c", "import clframe.api"],
}


def seconds(command: list[str]) -> float:
    """Wall time of one process."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    for command in CASES.values():
        seconds(command)  # fills the file cache
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(arguments.repeats):
        for name, command in CASES.items():
            times[name].append(seconds(command))
    report = {
        name: {"median": statistics.median(values), "least": min(values)}
        for name, values in times.items()
    }
    beyond = [
        ours - torch
        for ours, torch in zip(times["import torch, clframe"], times["import torch"], strict=True)
    ]
    print("| start | s, median | least |\n| --- | --- | --- |")
    for name, row in report.items():
        print(f"| {name} | {row['median']:.3f} | {row['least']:.3f} |")
    print(f"\nimport clframe beyond torch: {statistics.median(beyond):+.3f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
