"""Real processes of small runs that wait at a step until something has been done to them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.processes import Process, ProcessServer, alive, descendants, until

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


class Processes:
    """Starts commands in a folder and ends them, and what they started, after the test.

    Args:
        server: Who forks them.
        place: The folder.
    """

    words = RUN

    def __init__(self, server: ProcessServer, place: Path) -> None:
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
        command = ["-m", "clframe", *words]
        if anew:
            command = [
                "-c",
                f"import os; os.execv({sys.executable!r}, {[sys.executable, *command]})",
            ]
        process = self.server.start(
            command,
            self.place,
            {
                **os.environ,
                "PAUSE": str(pause),
                "CLFRAME_DATA": str(self.place / "data"),
                "OMP_NUM_THREADS": "1",
                **(environment or {}),
            },
            self.place / stdout,
            errors,
            [signal.SIGHUP] if nohup else [],
            tty,
        )
        self.started.append(process)
        return process

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
        return alive(pid)


@pytest.fixture
def processes(clframe_process: ProcessServer, tmp_path: Path) -> Iterator[Processes]:
    """Commands in a folder with the plugin that waits."""
    made = Processes(clframe_process, tmp_path)
    yield made
    for process in made.started:
        process.kill()


@pytest.fixture(scope="session")
def whole(
    clframe_process: ProcessServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the run finds that is left alone."""
    made = Processes(clframe_process, tmp_path_factory.mktemp("whole"))
    code, error = made.call("fit", *RUN, "run_dir=run")
    assert code == 0, error
    return made.results("run")
