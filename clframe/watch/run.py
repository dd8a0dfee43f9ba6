"""The view of one run: a dictionary of plain values, made from its folder each time."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clframe.recording.results_file import RESULTS, leaves, number
from clframe.runs.reader import CONFIG, EVENTS, LONGEST_CONFIG, parse_config
from clframe.runs.status import STATUS, read_status, words
from clframe.utils.eta import duration
from clframe.utils.regular import read_json, read_text
from clframe.watch.events import Events
from clframe.watch.process import holder

FINISHED, RUNNING, STOPPED, FAILED, DEAD = "finished", "running", "stopped", "failed", "dead"
_SILENT = 600.0
"""Seconds without a sign after which a run on another machine does not count as running."""
_HEADLINES = ("gem.acc", "gem.bwt", "openloris.accuracy", "libero.auc", "libero.nbt")


class RunWatcher:
    """Reader of a run folder.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = Events(folder / EVENTS)
        self._settings: dict[str, Any] | None = None
        self._results: tuple[float, dict[str, Any]] = (0.0, {})

    def view(self) -> dict[str, Any]:
        """Return the current state of the run; the same dictionary while nothing has changed."""
        self.events.update()
        results = self._finished()
        status = {} if results else read_status(self.folder)
        state, at = self._state(results, status)
        if state == RUNNING and status.get("state") != RUNNING:
            status = {}  # from an earlier process
        facts = {**self._config(), **{k: v for k, v in status.items() if v}, **results}
        rows, columns = self._names(facts)
        measured = self.events.rows
        values = [[measured.get(row, {}).get(task) for task in columns] for row in rows]
        view: dict[str, Any] = {
            "kind": "run",
            "folder": str(self.folder),
            "stream": facts.get("stream") or self.events.stream,
            "strategy": facts.get("strategy", ""),
            "scenario": facts.get("scenario", ""),
            "seed": facts.get("seed"),
            "source": self.events.source,
            "state": state,
            "now": words(status) if state == RUNNING and status else "",
            "at": at,
            "left": status.get("left") if state == RUNNING else None,
            "seconds": self._seconds(status, results),
            "measure": self.events.measure or "accuracy",
            "rows": rows,
            "measured": list(measured),
            "columns": columns,
            "values": values,
            "losses": self.events.curve(),
            "experiences": facts.get("experiences") or len([r for r in rows if r != "before"]),
            "learned": len(self.events.learned),
            "metrics": _headlines(results.get("metrics", {})),
            "resume": f"clframe fit resume={shlex.quote(str(self.folder))}",
        }
        if state == RUNNING and not view["now"]:
            view["now"] = "preparing the data" if not measured else "starting again"
        view["sentence"] = self._sentence(view, status)
        return view

    # ------------------------------------------------------------ files

    def _finished(self) -> dict[str, Any]:
        """Return the shown part of results.json; empty if the run is not finished."""
        path = self.folder / RESULTS
        try:
            changed = path.stat().st_mtime
            if changed != self._results[0]:
                content = read_json(path)
                self._results = (changed, content if isinstance(content, dict) else {})
        except (OSError, ValueError):
            return {}
        return self._results[1]

    def _config(self) -> dict[str, Any]:
        """Return stream, strategy, scenario and seed from config.yaml."""
        if self._settings is None:
            try:
                path = self.folder / CONFIG
                content = parse_config(read_text(path, LONGEST_CONFIG), path)
            except Exception:  # It is being written, or is not a config: show the rest.
                return {}
            stream = content.get("stream")
            self._settings = {
                "stream": stream.get("name") if isinstance(stream, dict) else stream,
                "strategy": content.get("strategy_name") or "",
                "scenario": content.get("scenario"),
                "seed": content.get("seed"),
            }
        return self._settings

    def _state(self, results: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, float]:
        """Return what the run is doing, and when that was last known."""
        last = max(map(changed_at, (self.folder / n for n in (STATUS, EVENTS, RESULTS, CONFIG))))
        if results:
            return FINISHED, last
        who = holder(self.folder)
        alive = who.alive
        if alive is None and status.get("state") in (None, RUNNING):
            alive = time.time() - last < _SILENT
        if alive:
            fresh = status.get("at", 0.0) >= who.since - 1.0
            return RUNNING, status.get("at", last) if fresh else who.since
        if status.get("state") in (STOPPED, FAILED):
            return str(status["state"]), status.get("at", last)
        return DEAD, last

    def _names(self, facts: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return rows and columns of the matrix, including future ones."""
        matrix = facts.get("matrix")
        if isinstance(matrix, dict):
            return list(map(str, matrix.get("rows", ()))), list(map(str, matrix.get("columns", ())))
        measured = self.events.rows
        columns = [str(name) for name in facts.get("columns", ())]
        for values in measured.values():
            columns += [name for name in values if name not in columns]
        rows = ["before", *map(str, facts.get("rows", ()))] if facts.get("rows") else []
        rows += [name for name in measured if name not in rows]
        return rows, columns

    def _seconds(self, status: Mapping[str, Any], results: Mapping[str, Any]) -> float:
        timing = results.get("timing")
        if isinstance(timing, dict):
            seconds = (number(timing.get(key)) for key in ("train_seconds", "eval_seconds"))
            return sum(value or 0.0 for value in seconds)
        return number(status.get("seconds")) or self.events.seconds

    def _sentence(self, view: Mapping[str, Any], status: Mapping[str, Any]) -> str:
        """Return how the run ended and what to do next; empty while it runs."""
        state, at, resume = view["state"], clock(view["at"]), view["resume"]
        if state == FINISHED:
            return f"finished after {duration(view['seconds'])}"
        if state == STOPPED:
            return f"stopped at {at}; continue with {resume}"
        if state == FAILED:
            why = str(status.get("why", "")).rstrip(".")
            return f"failed at {at}: {why}; fix it, then continue with {resume}"
        if state == DEAD:
            return f"no process has worked on it since {at}; resume with {resume}"
        return ""


def changed_at(path: Path) -> float:
    """Return when a file was last written; 0 if there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _headlines(metrics: object) -> dict[str, float]:
    """Return the headline metrics."""
    if not isinstance(metrics, dict):
        return {}
    numbers = {name: number(value) for name, value in leaves(metrics)}
    return {name: value for name in _HEADLINES if (value := numbers.get(name)) is not None}


def clock(at: float) -> str:
    """Return a time as hours and minutes, with the date unless it is today."""
    moment = time.localtime(at)
    today = time.strftime("%Y-%m-%d") == time.strftime("%Y-%m-%d", moment)
    return time.strftime("%H:%M" if today else "%Y-%m-%d %H:%M", moment)
