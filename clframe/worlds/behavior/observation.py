"""A state as arrays of fixed size: one row of numbers per slot, and the agent's own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.state import State

FEATURES = (
    "relation",
    "parent",
    "under",
    "opened",
    "toggled",
    "folded",
    "unfolded",
    "sliced",
    "broken",
    "temperature",
    "hottest",
)
"""Columns of ``things``, before position (3) and whether a hand holds it; -1 stands for no slot."""
COLUMNS = len(FEATURES) + 4
AGENT_SIZE = 13
_WORD = 64
_ONES = (1 << _WORD) - 1


def things(household: Household, state: State, slots: int) -> NDArray[np.float32]:
    """The states of all things, one row each; rows beyond the household's are 0."""
    table = np.zeros((slots, COLUMNS), dtype=np.float32)
    count = len(household.names)
    columns = [getattr(state, name) for name in FEATURES]
    table[:count, : len(FEATURES)] = np.array(columns, dtype=np.float64).T
    table[:count, len(FEATURES) : -1] = state.position
    for slot in state.hands:
        if slot >= 0:
            table[slot, -1] = 1.0
    return table


def matter(state: State, slots: int, substances: int) -> NDArray[np.int8]:
    """Which substances cover, are in, fill and soak each thing: (slots, 4, substances)."""
    stores = (state.covered, state.contains, state.filled, state.soaked)
    table = np.zeros((slots, 4, substances), dtype=np.int8)
    count = len(state.covered)
    for first in range(0, substances, _WORD):
        words = np.array(
            [[bits >> first & _ONES for bits in store] for store in stores], dtype="<u8"
        )
        bits = np.unpackbits(words.view(np.uint8).reshape(4, count, 8), axis=-1, bitorder="little")
        width = min(_WORD, substances - first)
        table[:count, :, first : first + width] = bits[:, :, :width].transpose(1, 0, 2)
    return table


def agent(state: State) -> NDArray[np.float32]:
    """Base (2), floor, left and right hand's positions (6) and slots (2), acting hand, time."""
    left, right = state.hand_positions
    values = (*state.base, state.area, *left, *right, *state.hands, state.active, state.time)
    return np.array(values, dtype=np.float32)
