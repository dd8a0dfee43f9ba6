"""One run of a sweep: its folder, state, command and failure."""

from __future__ import annotations

import shlex
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clframe.recording.results_file import RESULTS
from clframe.runs.reader import CONFIG
from clframe.utils.hydra_quote import override_value

State = Literal["new", "broken", "finished"]
STOPPED = 130


@dataclass(frozen=True)
class Job:
    """One run.

    Args:
        name: Name of its folder.
        overrides: Overrides for `clframe fit`.
        title: What distinguishes it from the other runs, for people.
        folder: The run folder, absolute.
        log: The file for its output, absolute.
        allow: Differences that are allowed when it is continued.
    """

    name: str
    overrides: tuple[str, ...]
    title: str
    folder: Path
    log: Path
    allow: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """State of the run according to its folder; a record elsewhere could be out of date."""
        if (self.folder / RESULTS).exists():
            return "finished"
        return "broken" if (self.folder / CONFIG).exists() else "new"

    @property
    def words(self) -> list[str]:
        """Arguments of `clframe fit` that start the run, or continue it."""
        if self.state == "broken":
            # Another machine of a cluster may lack the user's list of confirmed code.
            named = [word for word in self.overrides if word.startswith("plugin_path=")]
            return [f"resume={self.folder}", *named, *self.allow]
        return [*self.overrides, f"run_dir={override_value(str(self.folder))}"]

    def begin_log(self) -> None:
        """Write the command into the log; the output of earlier attempts stays above."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as file:
            file.write(f"$ clframe fit {shlex.join(self.words)}\n")


def failure(job: Job, code: int | str) -> str | None:
    """Return why a run failed, in a few words; None if it did not.

    Args:
        job: The run.
        code: The exit code of its process (negative: the signal that ended it), or the
            launcher's reason.
    """
    if isinstance(code, str):
        return code
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
        return f"its process was ended by {name}{hint}"
    if code == STOPPED:
        return "it was stopped from outside"
    if code == 0:
        return None if job.state == "finished" else "it ended without a results.json"
    return last_log_line(job.log) or f"its process ended with exit code {code}"


def last_log_line(log: Path) -> str:
    """Return the last message of clframe in the log, or else its last line."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    attempt = lines[max((i for i, line in enumerate(lines) if line.startswith("$ ")), default=0) :]
    printed = [line for line in attempt[1:] if line.strip()]
    if len(printed) > 1 and " failed in hook '" in printed[-1]:
        printed.pop()  # The line below a traceback; the error itself is above it.
        return printed[-1].strip()
    sentences = [line.removeprefix("clframe: ") for line in printed if line.startswith("clframe: ")]
    return (sentences or printed or [""])[-1].strip()
