"""Resolve a path on the command line to a run, a sweep, or the newest run below a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clframe.errors import RunFolderError
from clframe.recording.results_file import RESULTS, run_folder
from clframe.report.sweeps import SWEEP
from clframe.runs.reader import CONFIG, EVENTS
from clframe.utils.regular import read_json
from clframe.watch.process import holder
from clframe.watch.run import FINISHED, RUNNING, RunWatcher, changed_at

_FILES = (EVENTS, CONFIG, RESULTS)


class SweepWatcher:
    """Reader of a sweep folder: all its runs in short, and one of them in full.

    Args:
        folder: The sweep folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs: dict[str, RunWatcher] = {}
        self._ended: dict[str, dict[str, Any]] = {}

    def view(self, chosen: str = "") -> dict[str, Any]:
        """Return the current state of the sweep.

        Args:
            chosen: The run to show in full; empty for the most recently active one.
        """
        runs, views = [], {}
        for name, entry in self._entries().items():
            run_view = self._of_run(name)
            state, why = str(entry.get("state", "waiting")), ""
            if run_view is not None:
                views[name] = run_view
                state = run_view["state"]
            elif state == "failed":
                why = str(entry.get("why", ""))
            mean = None if run_view is None else last_mean(run_view)
            runs.append(
                {
                    "name": name,
                    "state": state,
                    "why": why,
                    "learned": 0 if run_view is None else run_view["learned"],
                    "experiences": 0 if run_view is None else run_view["experiences"],
                    "mean": mean,
                    "left": None if run_view is None else run_view["left"],
                    "at": 0.0 if run_view is None else run_view["at"],
                }
            )
        running = [name for name, run_view in views.items() if run_view["state"] == RUNNING]
        newest = max(running or views, key=lambda name: float(views[name]["at"]), default="")
        done = sum(run["state"] == FINISHED for run in runs)
        alive = holder(self.folder).alive is not False or bool(running)
        ended = done == len(runs) or not alive
        return {
            "kind": "sweep",
            "folder": str(self.folder),
            "state": RUNNING if not ended else FINISHED if done == len(runs) else "stopped",
            "runs": runs,
            "finished": done,
            "sentence": self._sentence(done, len(runs)) if ended else "",
            "run": views.get(chosen) or views.get(newest),
            "chosen": chosen if chosen in views else newest,
        }

    def _sentence(self, done: int, total: int) -> str:
        if done == total:
            return f"finished: all {total} runs"
        return (
            f"stopped: {done} of {total} runs are finished; the same 'clframe fit -m' command "
            "continues"
        )

    def _entries(self) -> dict[str, dict[str, Any]]:
        try:
            content = read_json(self.folder / SWEEP)
            return {str(name): dict(entry) for name, entry in content["runs"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _of_run(self, name: str) -> dict[str, Any] | None:
        if name in self._ended:
            return self._ended[name]
        folder = self.folder / name
        if not any((folder / file).exists() for file in _FILES):
            return None
        view = self._runs.setdefault(name, RunWatcher(folder)).view()
        if view["state"] == FINISHED:
            self._ended[name] = view
        return view


class OneRun:
    """A run, with the same method as a sweep."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._watcher = RunWatcher(folder)

    def view(self, chosen: str = "") -> dict[str, Any]:
        """Return the current state of the run."""
        return self._watcher.view()


def watcher(path: Path) -> OneRun | SweepWatcher:
    """Return the watcher for a path.

    Raises:
        RunFolderError: Nothing there can be watched.
    """
    folder = run_folder(path)
    if not folder.exists():
        raise RunFolderError(f"{path} does not exist; name a run folder or a folder above it.")
    if not folder.is_dir():
        raise RunFolderError(f"{path} is a file, not a run folder or a folder above it.")
    if (folder / SWEEP).is_file():
        return SweepWatcher(folder)
    if any((folder / name).is_file() for name in _FILES):
        return OneRun(folder)
    newest: tuple[float, Path] | None = None
    for parent, below, files in os.walk(folder):
        times = [changed_at(Path(parent, name)) for name in _FILES if name in files]
        if not times:
            continue
        below.clear()  # Runs are never inside of runs.
        if newest is None or max(times) > newest[0]:
            newest = (max(times), Path(parent))
    if newest is None:
        raise RunFolderError(f"{path} holds no run: start one with 'clframe fit', then watch it.")
    return OneRun(newest[1])


def last_mean(view: dict[str, Any]) -> float | None:
    """Return the mean of the newest row of the matrix."""
    for row, values in zip(reversed(view["rows"]), reversed(view["values"]), strict=True):
        measured = [value for value in values if value is not None]
        if row in view["measured"] and measured:
            return float(sum(measured) / len(measured))
    return None
