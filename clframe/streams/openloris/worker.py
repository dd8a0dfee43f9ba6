"""Fills rows of the cache: in this process, or as one of several worker processes.

A worker is started as a plain Python process and is fed one job per line. (The standard library's
process pools start the user's script again in every process, which goes wrong in a script without
a ``__main__`` guard, and forking is not safe once torch has started threads.) It imports no torch.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import ClframeError, DataError
from clframe.streams.openloris.plan import Bad, Job

START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from clframe.streams.openloris.worker import main; main()"
)
"""What a worker process runs, with this process's ``sys.path`` as its argument."""


def execute(folder: Path, job: Job) -> Bad:
    """Do one job: make its frames and write them to their rows."""
    if job["kind"] == "rendered":
        from clframe.streams.openloris.stand_in import produce
    else:
        from clframe.streams.openloris.official import produce
    arrays, bad = produce(job)
    write_rows(folder, job["start"], arrays)
    return bad


def write_rows(folder: Path, start: int, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write rows of each array from ``start`` on.

    Written through the file and not through a memory map: on a full disk this is an error that can
    be told, where a map would end the process.
    """
    for name, rows in arrays.items():
        path = folder / f"{name}.npy"
        try:
            target = np.load(path, mmap_mode="r", allow_pickle=False)
            if rows.dtype != target.dtype or rows.shape[1:] != target.shape[1:]:
                raise RuntimeError(
                    f"{name}: rows of {rows.dtype} {rows.shape[1:]} do not fit {path}, "
                    f"which holds {target.dtype} {target.shape[1:]}"
                )
            with path.open("r+b") as file:
                file.seek(target.offset + start * target[0].nbytes)
                file.write(np.ascontiguousarray(rows).tobytes())
        except OSError as error:
            raise DataError(f"the cache '{path}' cannot be written: {error}") from error


def main() -> None:
    """Serve jobs from standard input until it ends, one JSON line each way."""
    # Ctrl-C reaches the whole group of processes; the parent decides what becomes of us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not get between the answers
    folder = Path(sys.argv[2])
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"bad": execute(folder, json.loads(line))}
        except ClframeError as error:
            answer = {"error": str(error)}
        except Exception:
            answer = {"crash": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
