"""Runs code in processes of its own that need not import torch again; loaded with runpy.

One process per worker imports clframe once (this file as a script) and forks another for every
request: lines of JSON on its standard input, exit codes on its standard output.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SERVER = "_clframe_fork_server"


def run(
    code: str, folder: Path, *words: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run Python code in a folder, as ``python -c`` would with these words and variables.

    Args:
        code: What is run.
        folder: The working directory.
        words: ``sys.argv`` behind the first.
        environment: All variables.
    """
    # Every test file loads its own copy of this module; they share the process.
    server: subprocess.Popen[str] | None = sys.modules.get(_SERVER)  # type: ignore[assignment]
    if server is None or server.poll() is not None:
        server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            text=True,
        )
        sys.modules[_SERVER] = server  # type: ignore[assignment]
        atexit.register(server.communicate)
    with tempfile.TemporaryDirectory() as place:
        files = {name: str(Path(place) / name) for name in ("stdout", "stderr")}
        request = {
            **files,
            "code": code,
            "words": words,
            "place": str(folder),
            "environment": dict(environment),
        }
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        ended = int(server.stdout.readline())
        said = {name: Path(path).read_text() for name, path in files.items()}
    return subprocess.CompletedProcess(["-c", *words], ended, **said)


def serve() -> dict[str, Any] | None:
    """Fork for every request and answer with the exit code; in the fork, its request."""
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
    return None


def become(request: dict[str, Any]) -> None:
    """Be the process that was asked for."""
    os.chdir(request["place"])
    os.environ.clear()
    os.environ.update(request["environment"])
    flags = os.O_WRONLY | os.O_CREAT
    for descriptor, name in enumerate((os.devnull, request["stdout"], request["stderr"])):
        opened = os.open(name, os.O_RDONLY if descriptor == 0 else flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv = ["-c", *request["words"]]
    sys.path[0] = ""


if __name__ == "__main__":
    import hydra  # noqa: F401

    import clframe.api
    import clframe.cli.main
    import clframe.config.compose
    import clframe.testing  # noqa: F401
    from clframe.core.registry import discover

    discover([])
    asked = serve()
    if asked is not None:
        become(asked)
        exec(compile(asked["code"], "<string>", "exec"), {"__name__": "__main__"})
