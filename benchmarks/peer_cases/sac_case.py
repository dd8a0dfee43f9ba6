"""What the cases of an update of soft actor-critic share: sizes, and blocks of updates on demand.

A case is a process that waits for lines on its standard input; for each it does a block of updates
on one thread and prints the seconds of CPU time that took. So cases in different environments can
take turns.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable

import torch

BATCH, ROWS = 128, 2000
"""Transitions in a batch, and in the memory that batches are drawn from."""
INPUTS, ACTIONS = 8, 2
"""Those of `point_robot` with four tasks."""
GAMMA, TAU, RATE = 0.99, 0.005, 1e-3


def serve(make: Callable[[list[int]], Callable[[int], int]]) -> None:
    """Answer each line of input with the CPU time of a block.

    Args:
        make: Takes the widths of the hidden layers; returns a function that updates and returns how
            many updates of one network that were.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    hidden, block = json.loads(sys.argv[1]), int(sys.argv[2])
    # What libraries print goes elsewhere.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run = make(hidden)
    run(block)
    gc.collect()
    print(json.dumps({"torch": torch.__version__}), file=answers, flush=True)
    for _ in sys.stdin:
        began = time.process_time()
        updates = run(block)
        print(json.dumps((time.process_time() - began) / updates), file=answers, flush=True)
