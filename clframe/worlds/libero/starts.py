"""How start states settle, and whether they settle elsewhere on another version of MuJoCo.

LIBERO's initial states were stored before things came to rest, so where things are when an episode
begins depends on the simulator's version (a bowl put on a ramekin stays on one and tips on
another), and success rates of different versions should not be compared. Every start state is
written down once for each combination of versions, as a line of JSON.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Poses = Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Position and turn (a unit quaternion) of things by name."""

FAR, TURNED, APART = 0.02, 20.0, 0.01
"""Meters and degrees beyond which a thing that settles is worth a sentence; meters between two
versions."""


@dataclass(frozen=True)
class Settled:
    """How a start state settled.

    Args:
        moved: Farthest that a thing went sideways, in meters.
        turned: Most that a thing turned, in degrees.
        thing: Which one went farthest.
        places: Where things then are, in meters.
    """

    moved: float
    turned: float
    thing: str
    places: Mapping[str, list[float]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For the record."""
        return {
            "moved": round(self.moved, 5),
            "turned": round(self.turned, 2),
            "thing": self.thing,
            "places": dict(self.places),
        }


def settled(before: Poses, after: Poses) -> Settled:
    """Compare where things were put with where they came to rest."""
    moved = {name: float(np.linalg.norm((after[name][0] - before[name][0])[:2])) for name in before}
    turned = [
        float(np.degrees(2 * np.arccos(min(1.0, abs(float(before[name][1] @ after[name][1]))))))
        for name in before
    ]
    places = {name: [round(float(x), 4) for x in after[name][0]] for name in after}
    thing = max(moved, key=lambda name: moved[name]) if moved else ""
    return Settled(moved.get(thing, 0.0), max(turned, default=0.0), thing, places)


class Record:
    """The lines about one task.

    Args:
        path: The file.
        suite: Of the task.
        task: Its name.
        versions: With which things settle here.
        steps: Without motion before an episode begins.
    """

    def __init__(
        self, path: Path, suite: str, task: str, versions: Mapping[str, str], steps: int
    ) -> None:
        self.path = path
        self._key = {"suite": suite, "task": task, "steps": steps}
        self._versions = dict(versions)
        self._lines = [
            line
            for line in _lines(path)
            if all(line.get(name) == value for name, value in self._key.items())
        ]

    def add(self, start: int, settled: Settled) -> str | None:
        """Write a start state down if it is new; returns what is worth saying about it."""
        same = [line for line in self._lines if line.get("start") == start]
        if all(line.get("versions") != self._versions for line in same):
            line = {**self._key, "start": start, "versions": self._versions, **settled.to_json()}
            self._lines.append(line)
            # A data folder that cannot be written is no reason to stop.
            with contextlib.suppress(OSError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                # One short write at the file's end: processes do not break each other's lines.
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line, allow_nan=False) + "\n")
        return self._sentence(start, settled, same)

    def _sentence(self, start: int, settled: Settled, same: list[dict[str, Any]]) -> str | None:
        where = f"start state {start} of '{self._key['task']}'"
        here = f"MuJoCo {self._versions.get('mujoco')}"
        for line in same:
            distance, thing = _apart(settled.places, line.get("places", {}))
            if line.get("versions") != self._versions and distance > APART:
                return (
                    f"{where} settles elsewhere on {here} than on MuJoCo "
                    f"{line['versions'].get('mujoco')} ('{thing}' {100 * distance:.1f} cm apart): "
                    "results of the two should not be compared"
                )
        if settled.moved > FAR or settled.turned > TURNED:
            return (
                f"in {where}, '{settled.thing}' goes {100 * settled.moved:.1f} cm aside while "
                f"things settle on {here} (most turn: {settled.turned:.0f} degrees); results "
                "depend on the version of MuJoCo"
            )
        return None


def _lines(path: Path) -> list[dict[str, Any]]:
    """Every readable line; a torn or foreign one is passed over, since it is only a record."""
    lines = []
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for text in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                line = json.loads(text)
                if isinstance(line, dict) and isinstance(line.get("versions"), dict):
                    lines.append(line)
    return lines


def _apart(
    places: Mapping[str, list[float]], other_places: Mapping[str, list[float]]
) -> tuple[float, str]:
    """The largest distance between two places of a thing, and which thing it is."""
    distances = {
        name: float(np.linalg.norm(np.subtract(places[name], other_places[name])))
        for name in places
        if len(other_places.get(name, ())) == 3
    }
    if not distances:
        return 0.0, ""
    thing = max(distances, key=lambda name: distances[name])
    return distances[thing], thing
