"""Run commands in the base install, each in a fork of one process that has imported torch.

Reads a JSON list of ``[kind, words]`` from standard input, where kind is ``clframe`` (arguments of
the command line) or ``python`` (a script), and writes ``[code, output]`` for each, one a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path


def run(kind: str, words: list[str]) -> int:
    if kind == "python":
        exec(compile(words[0], "<page>", "exec"), {"__name__": "__main__"})
        return 0
    from clframe.cli.main import main

    return main(words)


def forked(kind: str, words: list[str], stop_at: str = "") -> tuple[int, str]:
    """Run one command; with ``stop_at`` press Ctrl-C once that file pattern matches."""
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                sys.argv = ["clframe", *words]
                code = run(kind, words)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        while stop_at and not any(Path().glob(stop_at)):
            time.sleep(0.05)
            if os.waitpid(child, os.WNOHANG)[0]:
                return 71, "it ended before it could be stopped"
        if stop_at:
            os.kill(child, signal.SIGINT)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        return os.waitstatus_to_exitcode(status), output.read()


if __name__ == "__main__":
    jobs = json.load(sys.stdin)
    import lightning.fabric  # noqa: F401
    import torch

    torch.set_num_threads(1)
    for job in jobs:
        started = time.monotonic()
        outcome = forked(*job)
        print(json.dumps(outcome), flush=True)  # noqa: T201
        sys.stderr.write(f"{time.monotonic() - started:6.1f} s  {job[1]}\n")
