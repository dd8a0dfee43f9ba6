"""A household without physics as bodies that can be seen: rooms, furniture and things as boxes."""

from __future__ import annotations

from colorsys import hsv_to_rgb
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.state import ABSENT, HELD, State
from clframe.worlds.tabletop.compiler import widen_bounds

# Seen and never touched; a type of their own, since MuJoCo bounds only bodies that have one.
_SEEN = {"contype": "16", "conaffinity": "0", "mass": "0"}
_HEIGHT, _WALL = 2.4, 0.03
_PANEL = 0.012
_AWAY = np.array([0.0, 0.0, -20.0])
"""Where things are that cannot be seen, below the floors."""
_MARKS = {
    "lid": (0.55, 0.45, 0.35),
    "lamp": (0.98, 0.85, 0.25),
    "dirt": (0.35, 0.25, 0.12),
    "water": (0.35, 0.55, 0.95),
}
"""What shows the state of a thing: a closed lid or door, a lamp that is on, dirt, water."""
_REACH_OUT = ((0.45, -0.22, -0.42), (0.45, 0.22, -0.42))
"""Where hands are seen from the head: forward, to the right, up."""


class Dollhouse:
    """The bodies of one household, moved to where a state has them.

    Args:
        household: Whose rooms and things.
        start: Where furniture stands.
    """

    def __init__(self, household: Household, start: State) -> None:
        import mujoco

        self._mj = mujoco
        self.household = household
        # Furniture opens towards the middle of its room, along y.
        self._front = {
            slot: 1 if household.areas[floor].center[1] > start.position[slot][1] else -1
            for slot, floor in household.area_of.items()
        }
        solid = [not can & Can.SUBSTANCE for can in household.can]
        self._shown = [
            slot
            for slot in range(len(household.names))
            if solid[slot] and slot != household.agent and not household.floor[slot]
        ]
        self.model: Any = mujoco.MjModel.from_xml_string(self._xml())
        widen_bounds(self.model)
        self.data: Any = mujoco.MjData(self.model)
        self._mocap = {
            self.model.body(body).name: int(self.model.body_mocapid[body])
            for body in range(self.model.nbody)
            if self.model.body_mocapid[body] >= 0
        }
        self.textures: dict[str, str] = {
            f"floor{slot}": "wood" if number % 2 else "tiles"
            for number, slot in enumerate(household.areas)
        }

    # ------------------------------------------------------------------ the model

    def _xml(self) -> str:
        root = Element("mujoco")
        world = SubElement(root, "worldbody")
        for slot in self.household.areas:
            self._room(world, slot)
        for slot in self._shown:
            body = SubElement(world, "body", {"name": f"thing{slot}", "mocap": "true"})
            self._thing(body, slot)
            for mark in self._marks(slot):
                part = SubElement(world, "body", {"name": f"{mark}{slot}", "mocap": "true"})
                _box(part, (0, 0, 0), self._mark_half(slot, mark), _MARKS[mark])
        for hand in (0, 1):
            body = SubElement(world, "body", {"name": f"hand{hand}", "mocap": "true"})
            _box(body, (0, 0, 0), (0.035, 0.02, 0.05), (0.85, 0.65, 0.5))
        return tostring(root, encoding="unicode")

    def _room(self, world: Element, slot: int) -> None:
        area = self.household.areas[slot]
        (x, y), half = area.center, area.half
        shade = _color(area.room, 0.25, 0.8)
        _box(world, (x, y, -0.02), (half, half, 0.02), _color(area.room, 0.3, 0.6), f"floor{slot}")
        for sign in (-1, 1):
            wall, middle = half - _WALL, _HEIGHT / 2
            _box(world, (x + sign * wall, y, middle), (_WALL, half, middle), shade)
            _box(world, (x, y + sign * wall, middle), (half, _WALL, middle), shade)

    def _thing(self, body: Element, slot: int) -> None:
        """A box, or for a container one without its front (furniture) or its top."""
        household = self.household
        x, y, z = self._half(slot)
        color = _color(household.types[slot], 0.55, 0.8)
        if not household.can[slot] & Can.CONTAINER:
            _box(body, (0, 0, 0), (x, y, z), color)
            return
        inner = _color(household.types[slot], 0.45, 0.45)
        _box(body, (0, 0, _PANEL - z), (x, y, _PANEL), inner)
        for sign in (-1, 1):
            _box(body, (sign * (x - _PANEL), 0, 0), (_PANEL, y, z), color)
        front = self._front.get(slot, -1)
        _box(body, (0, -front * (y - _PANEL), 0), (x, _PANEL, z), color)
        if household.fixed[slot]:
            _box(body, (0, 0, z - _PANEL), (x, y, _PANEL), color)
        else:
            _box(body, (0, front * (y - _PANEL), 0), (x, _PANEL, z), color)

    def _half(self, slot: int) -> tuple[float, float, float]:
        x, y, height = self.household.half[slot]
        return x, y, height / 2

    def _marks(self, slot: int) -> list[str]:
        can = self.household.can[slot]
        marks = ["lid"] if can & Can.OPENABLE else []
        marks += ["lamp"] if can & Can.TOGGLEABLE else []
        return [*marks, "dirt", "water"]

    def _mark_half(self, slot: int, mark: str) -> tuple[float, float, float]:
        x, y, z = self._half(slot)
        if mark == "lid":
            return (x, _PANEL, z) if self.household.fixed[slot] else (x, y, _PANEL)
        return {
            "lamp": (0.04, 0.04, 0.04),
            "dirt": (0.35 * x, 0.7 * y, 0.006),
            "water": (0.35 * x, 0.7 * y, 0.008),
        }[mark]

    # ------------------------------------------------------------------ a moment

    def show(self, state: State, head: NDArray[np.float64], facing: NDArray[np.float64]) -> None:
        """Move everything to where a state has it.

        Args:
            state: The state.
            head: Where the agent's head is.
            facing: Its direction, horizontal, of length 1.
        """
        right = np.array([facing[1], -facing[0], 0.0])
        hands = [
            head + ahead * facing + aside * right + np.array([0.0, 0.0, up])
            for ahead, aside, up in _REACH_OUT
        ]
        for hand in (0, 1):
            self._put(f"hand{hand}", hands[hand])
        shift = self._carried(state, hands)
        for slot in self._shown:
            if state.relation[slot] == ABSENT:
                middle = _AWAY
            else:
                x, y, z = state.position[slot]
                middle = np.array([x, y, z + self._half(slot)[2]]) + shift.get(slot, 0.0)
            self._put(f"thing{slot}", middle)
            self._put_marks(state, slot, middle)
        self._mj.mj_kinematics(self.model, self.data)

    def _carried(
        self, state: State, hands: list[NDArray[np.float64]]
    ) -> dict[int, NDArray[np.float64]]:
        """How far what is held, with all on and in it, is from where the state has it."""
        found: dict[int, NDArray[np.float64]] = {}
        for slot in self._shown:
            top = slot
            while state.relation[top] != HELD and state.parent[top] >= 0:
                top = state.parent[top]
            if state.relation[top] == HELD:
                up = np.array([0.0, 0.0, 0.05])
                found[slot] = hands[state.hands.index(top)] + up - np.array(state.position[top])
        return found

    def _put_marks(self, state: State, slot: int, middle: NDArray[np.float64]) -> None:
        x, y, z = self._half(slot)
        front = self._front.get(slot, -1)
        on_top = middle + np.array([0.0, 0.0, z])
        at_front = middle + np.array([0.0, front * y, 0.0])
        lid = at_front if self.household.fixed[slot] else on_top
        places = {
            "lid": (not state.opened[slot], lid),
            "lamp": (state.toggled[slot], on_top + np.array([0.0, 0.0, 0.05])),
            "dirt": (state.covered[slot], on_top + np.array([-0.5 * x, 0.0, 0.004])),
            "water": (state.soaked[slot], on_top + np.array([0.5 * x, 0.0, 0.004])),
        }
        there = state.relation[slot] != ABSENT
        for mark in self._marks(slot):
            seen, place = places[mark]
            self._put(f"{mark}{slot}", place if seen and there else _AWAY)

    def _put(self, body: str, place: NDArray[np.float64]) -> None:
        self.data.mocap_pos[self._mocap[body]] = place


def _color(name: str, saturation: float, light: float) -> tuple[float, float, float]:
    return hsv_to_rgb(crc32(name.encode()) % 997 / 997, saturation, light)


def _box(
    body: Element,
    at: tuple[float, float, float],
    half: tuple[float, float, float],
    color: tuple[float, float, float],
    name: str = "",
) -> None:
    attributes = {
        "type": "box",
        "pos": " ".join(f"{value:.6g}" for value in at),
        "size": " ".join(f"{value:.6g}" for value in half),
        "rgba": " ".join(f"{value:.4g}" for value in (*color, 1.0)),
        **_SEEN,
    }
    SubElement(body, "geom", {"name": name, **attributes} if name else attributes)
