"""What the cases share: their arguments, the measured part and the line of JSON they print."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import resource
import time
from collections.abc import Callable

import torch


def measure(run: Callable[[str, str, int], list[float]]) -> None:
    """Time ``run(method, data_dir, seed)``, which gives the last row of accuracies.

    Imports are done by then, and data is read inside: what is measured is what a user waits for
    between pressing return and the last number, start of the interpreter aside.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("method")
    parser.add_argument("data_dir")
    parser.add_argument("seed", type=int)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    wall, cpu = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        accuracies = run(arguments.method, arguments.data_dir, arguments.seed)
    report = {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "accuracies": accuracies,
    }
    print(json.dumps(report))
