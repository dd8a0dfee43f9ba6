"""Imports clframe once and forks a process for every command that a test asks for.

To import torch takes seconds, which a test of several processes would pay for each. Requests and
answers are lines of JSON on standard input and output.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import hydra  # noqa: F401

import clframe.api
import clframe.cli.fit
import clframe.config.compose  # noqa: F401
from clframe.cli.main import main
from clframe.core.registry import discover


def serve() -> list[str] | None:
    """Fork and look after processes; in one of them, the words of its command."""
    for line in sys.stdin:
        request = json.loads(line)
        if "poll" in request:
            ended, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        else:
            answer = os.fork()
            if answer == 0:
                become(request)
                return list(request["words"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return None


def become(request: dict[str, Any]) -> None:
    """Be the process that was asked for."""
    os.chdir(request["place"])
    os.environ.update(request["environment"])
    # Whoever runs the tests may have been started with nohup.
    signal.signal(signal.SIGHUP, signal.SIG_IGN if request["nohup"] else signal.SIG_DFL)
    if request["tty"]:
        os.setsid()  # the terminal that is opened next is then this process' own
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(request["tty"] or request[name], os.O_RDWR if request["tty"] else flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv = ["clframe", *request["words"]]
    if request["anew"]:
        os.execv(sys.executable, [sys.executable, "-m", "clframe", *request["words"]])


if __name__ == "__main__":
    discover([])
    words = serve()
    sys.exit(0 if words is None else main(words))
