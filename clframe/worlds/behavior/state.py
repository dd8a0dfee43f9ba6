"""What can change in a household, as plain lists with one entry per slot."""

from __future__ import annotations

from typing import Any

ABSENT, FIXED, HELD, ONTOP, INSIDE, ATTACHED, DRAPED, OVERLAID = range(8)
"""How a thing is in its place; a relation other than the first three is to its parent."""

Point = tuple[float, float, float]
AMBIENT = 23.0
"""Degrees Celsius."""


class State:
    """One moment of a household; slots are those of the `Household` it belongs to.

    Attributes:
        relation: How each thing is in its place.
        parent: The slot it is on, in or attached to; -1 if it has none.
        under: The slot it lies beneath, or -1.
        leaning: A second slot it rests on, where the start says so, or -1.
        position: The middle of its underside, in meters.
        opened, toggled, folded, unfolded, sliced, broken: 1 where it is so.
        covered, contains, filled, soaked: Substances as bits.
        joints: Attached pairs of slots.
        temperature, hottest: Degrees now, and the highest so far.
        changing: Slots whose temperature is not yet that of their surroundings.
        hands: The slots that the left and the right hand hold, or -1.
        active: The hand that acts when both hold something.
        hand_positions: Where the hands are.
        base: Where the agent stands.
        area: The floor it stands on.
        time: Simulated seconds since the start.
        version: A number that grows with every change of something other than the agent's place.
    """

    LISTS = (
        "relation",
        "parent",
        "under",
        "leaning",
        "position",
        "opened",
        "toggled",
        "folded",
        "unfolded",
        "sliced",
        "broken",
        "covered",
        "contains",
        "filled",
        "soaked",
        "temperature",
        "hottest",
        "hands",
        "hand_positions",
    )
    __slots__ = (*LISTS, "active", "area", "base", "changing", "joints", "time", "version")

    relation: list[int]
    parent: list[int]
    under: list[int]
    leaning: list[int]
    position: list[Point]
    opened: list[int]
    toggled: list[int]
    folded: list[int]
    unfolded: list[int]
    sliced: list[int]
    broken: list[int]
    covered: list[int]
    contains: list[int]
    filled: list[int]
    soaked: list[int]
    temperature: list[float]
    hottest: list[float]
    hands: list[int]
    hand_positions: list[Point]
    joints: frozenset[tuple[int, int]]
    changing: frozenset[int]
    active: int
    base: tuple[float, float]
    area: int
    time: float
    version: int

    @classmethod
    def empty(cls, slots: int) -> State:
        """A state in which nothing is anywhere."""
        state = cls()
        state.relation = [ABSENT] * slots
        state.parent = [-1] * slots
        state.under = [-1] * slots
        state.leaning = [-1] * slots
        state.position = [(0.0, 0.0, 0.0)] * slots
        for name in ("opened", "toggled", "folded", "unfolded", "sliced", "broken"):
            setattr(state, name, [0] * slots)
        for name in ("covered", "contains", "filled", "soaked"):
            setattr(state, name, [0] * slots)
        state.temperature = [AMBIENT] * slots
        state.hottest = [AMBIENT] * slots
        state.hands = [-1, -1]
        state.hand_positions = [(0.0, 0.0, 1.0)] * 2
        state.joints = frozenset()
        state.changing = frozenset()
        state.active = 1
        state.base = (0.0, 0.0)
        state.area = -1
        state.time = 0.0
        state.version = 0
        return state

    def copy(self) -> State:
        """A copy that can be changed on its own."""
        other = State.__new__(State)
        for name in State.LISTS:
            setattr(other, name, getattr(self, name)[:])
        other.joints = self.joints
        other.changing = self.changing
        other.active = self.active
        other.base = self.base
        other.area = self.area
        other.time = self.time
        other.version = self.version
        return other

    def save(self) -> dict[str, Any]:
        """The state as plain values, which `restore` takes back."""
        saved: dict[str, Any] = {name: list(getattr(self, name)) for name in State.LISTS}
        saved.update(
            joints=sorted(self.joints),
            changing=sorted(self.changing),
            active=self.active,
            base=self.base,
            area=self.area,
            time=self.time,
            version=self.version,
        )
        return saved

    @classmethod
    def restore(cls, saved: dict[str, Any]) -> State:
        """The state that `save` wrote."""
        state = cls()
        for name in State.LISTS:
            values = saved[name]
            points = name in ("position", "hand_positions")
            setattr(state, name, [tuple(value) for value in values] if points else list(values))
        state.joints = frozenset((first, second) for first, second in saved["joints"])
        state.changing = frozenset(saved["changing"])
        state.base = (saved["base"][0], saved["base"][1])
        for name in ("active", "area", "time", "version"):
            setattr(state, name, saved[name])
        return state
