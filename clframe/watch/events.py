"""Read ``events.jsonl`` while it grows: new lines, or all lines after a resume."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clframe.recording.results_file import number
from clframe.utils.regular import LARGEST, open_regular, parse_json

_CHECKED = 256
"""Bytes before the last position that must be unchanged."""
_CURVE = 400
"""Maximum points of a curve."""


@dataclass
class Events:
    """The events of a run so far.

    Args:
        path: The file; it may come later, and become shorter when a run is resumed.
    """

    path: Path
    stream: str = ""
    source: str = ""
    measure: str = ""
    rows: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """The matrix: values by task, by row."""
    losses: dict[tuple[int, int], tuple[int, float]] = field(default_factory=dict)
    """Step and mean loss by experience and epoch."""
    learned: dict[int, str] = field(default_factory=dict)
    """Names of the experiences that have been learned."""
    seconds: float = 0.0
    """Seconds of learning and evaluation so far."""
    _position: int = 0
    _tail: bytes = b""

    def update(self) -> None:
        """Read new lines; a line that is still being written waits for the next time."""
        try:
            with open_regular(self.path) as file:
                file.seek(max(0, self._position - len(self._tail)))
                if file.read(len(self._tail)) != self._tail:
                    self._forget()
                    file.seek(0)
                content = file.read(LARGEST)
        except OSError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        if not whole:
            return
        self._position += len(whole)
        self._tail = (self._tail + whole)[-_CHECKED:]
        for line in whole.splitlines():
            try:
                event = parse_json(line.decode())
            except ValueError:  # a line that a killed process left incomplete
                continue
            if isinstance(event, dict):
                # A run never writes an entry of another type.
                with contextlib.suppress(TypeError, ValueError, AttributeError, OverflowError):
                    self._take(event)

    def _forget(self) -> None:
        fresh = Events(self.path)
        for name, value in vars(fresh).items():
            setattr(self, name, value)

    def _take(self, event: dict[str, Any]) -> None:
        kind, experience = event.get("event"), event.get("experience")
        if kind == "prepare":
            self.stream, self.source = str(event.get("stream", "")), str(event.get("source", ""))
        elif kind == "epoch" and isinstance(experience, int):
            loss, step = number(event.get("loss")), event.get("step")
            if loss is not None and isinstance(step, int):
                self.losses[experience, int(event.get("epoch", 0))] = (step, loss)
        elif kind == "experience" and isinstance(experience, int):
            self.learned[experience] = str(event.get("name", f"exp{experience}"))
            self.seconds += number(event.get("seconds")) or 0.0
        elif kind == "evaluation" and isinstance(event.get("values"), dict):
            self.rows[str(event.get("row"))] = {
                str(task): number(value) for task, value in event["values"].items()
            }
            self.seconds += number(event.get("seconds")) or 0.0
            measures = event.get("measures")
            for names in measures.values() if isinstance(measures, dict) else ():
                if isinstance(names, dict) and names:
                    self.measure = str(next(iter(names)))
                    break

    def curve(self) -> list[tuple[int, float, int]]:
        """Return step, mean loss and experience of the epochs, thinned out if there are many."""
        points = [(*self.losses[key], key[0]) for key in sorted(self.losses)]
        every = -(-len(points) // _CURVE) or 1
        return points[::-1][::every][::-1]
