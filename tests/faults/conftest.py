"""Real processes of small runs that wait at a step until something has been done to them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Told by the environment, so that a resumed run is made of the same plugin.
PAUSE = '''
import os
import time
from pathlib import Path

from clframe import Plugin, hookimpl


STEPS = [0]  # of this process, so no state of the plugin


class Pause(Plugin):
    """Waits at a step until a file is there."""

    def __init__(self) -> None:
        STEPS[0] = 0

    @hookimpl
    def after_step(self, learner):
        STEPS[0] += 1
        if STEPS[0] == int(os.environ.get("PAUSE", 0)):
            Path(f"paused{os.getpid()}").touch()
            deadline = time.monotonic() + 300  # a test that is itself killed leaves nothing
            while not Path("go").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
'''
SMALL = ["n_experiences=2", "max_epochs=2", "trainer.batch_size=250", "model.hidden=[8]"]
RUN = [*SMALL, "logger=none", "plugin_path=pause.py", "strategy=[naive,pause]"]


class Server:
    """The process that starts the others; see fork_server.py."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        """A line there and a line back."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Process:
    """A command that runs, as its starter sees it.

    Args:
        server: Who has forked it.
        pid: Its number.
        errors: The file that takes its standard error.
    """

    def __init__(self, server: Server, pid: int, errors: Path) -> None:
        self.server, self.pid, self.errors = server, pid, errors
        self.code: int | None = None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        if self.code is None:
            self.code = self.server.ask(poll=self.pid)
        return self.code

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self.poll() is None
        os.kill(self.pid, number)

    def end(self) -> tuple[int, str]:
        """Exit code and errors, once it has ended by itself."""
        until(lambda: self.poll() is not None, 240)
        error = self.errors.read_text() if self.errors.is_file() else ""
        assert "Traceback" not in error, error
        assert self.code is not None
        return self.code, error


class Processes:
    """Starts commands in a folder and ends them, and what they started, after the test.

    Args:
        server: Who forks them.
        place: The folder.
    """

    words = RUN

    def __init__(self, server: Server, place: Path) -> None:
        self.server, self.place = server, place
        self.started: list[Process] = []
        (place / "pause.py").write_text(PAUSE)

    def start(
        self,
        *words: str,
        pause: int = 0,
        stdout: str = os.devnull,
        stderr: str = "",
        environment: dict[str, str] | None = None,
        nohup: bool = False,
        tty: str = "",
        anew: bool = False,
    ) -> Process:
        """`clframe` with these words.

        Args:
            words: The command.
            pause: A run waits at this step.
            stdout: Takes the output.
            stderr: Takes the errors; a file of its own if it is not named.
            environment: Further variables.
            nohup: SIGHUP is ignored.
            tty: The terminal that it has.
            anew: In a fresh interpreter.
        """
        errors = self.place / (stderr or f"errors{len(self.started)}")
        pid = self.server.ask(
            words=words,
            place=str(self.place),
            environment={
                "PAUSE": str(pause),
                "CLFRAME_DATA": str(self.place / "data"),
                **(environment or {}),
            },
            stdin=os.devnull,
            stdout=stdout,
            stderr=str(errors),
            nohup=nohup,
            tty=tty,
            anew=anew,
        )
        self.started.append(Process(self.server, pid, errors))
        return self.started[-1]

    def call(self, *words: str, **options: Any) -> tuple[int, str]:
        """Exit code and errors of a command."""
        return self.start(*words, **options).end()

    def paused(self, process: Process, count: int = 1) -> None:
        """Wait until so many runs wait."""
        until(
            lambda: len(list(self.place.glob("paused*"))) >= count or process.poll() is not None,
            120,
        )
        assert process.poll() is None, process.end()

    def go(self) -> None:
        """Let runs that wait continue."""
        (self.place / "go").touch()

    def results(self, run: str) -> dict[str, Any]:
        """What a run has found, without times."""
        folder = self.place / run
        content: dict[str, Any] = json.loads((folder / "results.json").read_text())
        content.pop("timing")
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        for event in events:
            event.pop("seconds", None)
        return {"results": content, "events": events}

    @staticmethod
    def until(true: Callable[[], Any], seconds: float) -> None:
        """Wait for something."""
        until(true, seconds)

    @staticmethod
    def sentences(error: str) -> list[str]:
        """What clframe has said."""
        return [line for line in error.splitlines() if line.startswith("clframe: ")]

    @staticmethod
    def descendants(pid: int) -> list[int]:
        """The processes that a process has started, and those that they have."""
        return descendants(pid)

    @staticmethod
    def alive(pid: int) -> bool:
        """Whether a process is there and has not ended."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False


def until(true: Callable[[], Any], seconds: float) -> None:
    """Wait for something."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.02)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Who forks the processes of all tests."""
    made = Server()
    yield made
    made.process.communicate()


@pytest.fixture
def processes(server: Server, tmp_path: Path) -> Iterator[Processes]:
    """Commands in a folder with the plugin that waits."""
    made = Processes(server, tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            for pid in [*descendants(process.pid), process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def whole(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the run finds that is left alone."""
    made = Processes(server, tmp_path_factory.mktemp("whole"))
    code, error = made.call("fit", *RUN, "run_dir=run")
    assert code == 0, error
    return made.results("run")
