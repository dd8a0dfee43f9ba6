"""The Gymnasium environment of an activity with physics."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.bddl import Literal, Problem
from clframe.worlds.behavior import facts
from clframe.worlds.behavior.env import HORIZON, BehaviorEnv, Observation
from clframe.worlds.behavior.heat import pass_time
from clframe.worlds.behavior.moving import NO_HAND, navigate_to
from clframe.worlds.behavior.physics.fitting import JUDGED
from clframe.worlds.behavior.physics.hand import Hand
from clframe.worlds.behavior.physics.sync import scale, write_back
from clframe.worlds.behavior.physics.table import Table
from clframe.worlds.behavior.record import Recorder
from clframe.worlds.behavior.sampling import Instance, sample
from clframe.worlds.behavior.state import State
from clframe.worlds.behavior.tracker import GoalTracker
from clframe.worlds.behavior.verbs import PRIMITIVES, REFUSED, Verb
from clframe.worlds.tabletop.cameras import Cameras
from clframe.worlds.tabletop.compiler import AGENT_CAMERA
from clframe.worlds.tabletop.world import RATE

DONE_BY_HAND = (
    Verb.NAVIGATE_TO,
    Verb.GRASP,
    Verb.RELEASE,
    Verb.PLACE_ON_TOP,
    Verb.PLACE_INSIDE,
    Verb.PLACE_NEXT_TO,
    Verb.OPEN,
    Verb.CLOSE,
    Verb.TOGGLE_ON,
    Verb.TOGGLE_OFF,
    Verb.WAIT,
)
"""Verbs that have physics."""
_ONE_HAND = (Verb.GRASP, Verb.OPEN, Verb.CLOSE, Verb.TOGGLE_ON, Verb.TOGGLE_OFF)
_SETTLE = 6
Watcher = Callable[[NDArray[np.float64]], None]


@cache
def _by_hand(verbs: tuple[Verb, ...], holding: bool) -> tuple[Verb, ...]:
    """Those of the verbs that have physics and do not need the hand for themselves if it holds."""
    return tuple(
        verb for verb in verbs if verb in DONE_BY_HAND and not (holding and verb in _ONE_HAND)
    )


class PhysicalBehaviorEnv(BehaviorEnv):
    """One activity on a table with physics, with the actions and observations of `BehaviorEnv`.

    A primitive is done by motions of one floating hand, in legal 7-d actions at 20 Hz; what holds
    afterwards is what physics says, whether the motion was a success or not. ``state`` is the state
    of the world without physics that this amounts to, so that observations, masks, planner and
    metrics are the same. ``info["motion_steps"]`` counts the low-level steps of a primitive.

    Args:
        problem: An activity as read by `clframe.worlds.bddl`, or (corpus, name) of a published one.
        instance: The seed of the start that resets without a seed lead to.
        horizon: Primitives until the episode is cut off.
        slots: Rows of the observation; None takes as many as the household has.
        record: Whether to keep what the efficiency metrics need.

    Raises:
        ActivityError: If the activity cannot be had on a table; the sentence names the literal or
            the thing, and where in the file it is.
    """

    def __init__(
        self,
        problem: Problem | tuple[str, str],
        instance: int = 0,
        horizon: int = HORIZON,
        slots: int | None = None,
        record: bool = False,
    ) -> None:
        self.table: Table | None = None
        self.watcher: Watcher | None = None
        """Called with every low-level action after it was done; for recording."""
        self._video: Cameras | None = None
        self.last_refusal = ""
        """What kept the last primitive from being done."""
        super().__init__(problem, instance, horizon, slots, record)

    # ------------------------------------------------------------------ starts

    def _take(self, seed: int) -> None:
        drawn = sample(self.problem, seed)
        if self.table is None:
            self.table = Table(drawn)
        self.household = self.table.cast.household
        self.hand = Hand(self.table)
        self.table.start(drawn.start, np.random.default_rng((seed, 0x7AB1E)))
        scale(self.household, self.table)
        self.state = drawn.start.copy()
        self.tracker = GoalTracker(self.household, self._scores)
        self._motion_steps = 0
        self._write_back()
        self.state.base = self.household.areas[self.state.area].center
        self.instance = Instance(self.household, self.state.copy(), seed)
        self.steps = 0
        self.recorder = Recorder(self.household) if self._record else None
        self.last_refusal = ""
        self._judge()
        if self.recorder is not None:
            self.recorder.add(self.state, self.literals())

    def _write_back(self) -> None:
        assert self.table is not None
        self.relations = self.table.relations(self.hand.held)
        write_back(self.state, self.table, self.relations)

    def _judge(self) -> None:
        atoms = self.tracker.atoms
        holding = [self.relations.holds(atom) for atom in atoms]
        self._truth = sum(1 << place for place, holds in enumerate(holding) if holds)
        self.q, self.success = self.tracker.score(self._truth)
        self._version = self.state.version

    # ------------------------------------------------------------------ steps

    def refusal(self, verb: int, slot: int) -> str:
        """What forbids a primitive, before any motion; empty if nothing does."""
        if not 0 <= slot < len(self.household.names) or not 0 <= verb < len(Verb):
            return "there is no such thing"
        if verb not in DONE_BY_HAND:
            return f"{Verb(verb).name.lower()} has no physics"
        if verb in _ONE_HAND and self.hand.held is not None:
            return NO_HAND
        return PRIMITIVES[verb].check(self.household, self.state, slot)

    def _act(self, verb: int, slot: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        before = self.q
        self._motion_steps = 0
        refusal = self.refusal(verb, slot)
        if refusal:
            pass_time(self.household, self.state, REFUSED)
        else:
            refusal = self._move(Verb(verb), slot)
        self.last_refusal = refusal
        self.steps += 1
        self._write_back()
        self._judge()
        if self.recorder is not None:
            self.recorder.add(self.state, self.literals())
        cut_off = self.steps >= self.horizon and not self.success
        return self._observe(), self.q - before, self.success, cut_off, self._info(refusal)

    def _move(self, verb: Verb, slot: int) -> str:
        """Do the motions of a primitive; the result is what went wrong."""
        assert self.table is not None
        if verb == Verb.NAVIGATE_TO:
            navigate_to(self.household, self.state, slot)
        floor = self.household.names[self.state.area]
        for action in self.hand.do(verb, self.household.names[slot], floor):
            self.low_level(action)
        for action in self.hand.wait(_SETTLE):
            self.low_level(action)
        pass_time(self.household, self.state, self._motion_steps / RATE)
        return self.hand.refusal

    def low_level(self, action: NDArray[np.float64]) -> None:
        """Do one action of the hand: 7 numbers in -1..1, for 1/20 s."""
        assert self.table is not None
        self.table.step(action)
        self._motion_steps += 1
        if self.watcher is not None:
            self.watcher(action)

    def _offered(self, verbs: tuple[Verb, ...]) -> tuple[Verb, ...]:
        return _by_hand(verbs, self.hand.held is not None)

    def literals(self) -> frozenset[Literal]:
        """All literals that hold: kinematic ones by physics, the others as at the start."""
        names = [name for name in self.household.names if name not in self._bodiless()]
        found = {
            literal
            for literal in facts.literals(self.household, self.state)
            if literal[0] not in (*JUDGED, "touching")
        }
        floors = [n for n in self.household.names if self.household.floor[self.household.index[n]]]
        word = "onfloor" if self.household.old_words else "ontop"
        for name in names:
            found.update(
                (predicate, name) for predicate in ("open", "toggled_on")
                if self.relations.holds((predicate, name))
            )  # fmt: skip
            found.update((word, name, n) for n in floors if self.relations.on_top(name, n))
            for other in names:
                found.update(
                    (predicate, name, other) for predicate in ("inside", "ontop", "nextto")
                    if self.relations.holds((predicate, name, other))
                )  # fmt: skip
        return frozenset(found)

    def _bodiless(self) -> set[str]:
        assert self.table is not None
        return set(self.household.names) - set(self.table.cast.assets)

    # ------------------------------------------------------------------ moments

    def render(self) -> NDArray[np.uint8] | None:
        """An image for people, if ``render_mode`` is ``rgb_array``."""
        if self.render_mode is None:
            return None
        if self._video is None:
            assert self.table is not None
            self._video = Cameras(self.table, 256, samples=2)
        return self._video.take(AGENT_CAMERA).rgb

    def save(self) -> dict[str, Any]:
        """What `restore` needs to come back to this moment, as plain values."""
        assert self.table is not None
        held = {"held": self.hand.held, "opening": self.hand.opening}
        return {
            "seed": self.instance.seed,
            "steps": self.steps,
            "state": self.state.save(),
            "physics": self.table.state().tolist(),
            **held,
        }

    def restore(self, saved: dict[str, Any]) -> Observation:
        """Restore a saved state; a recording starts again there."""
        self._take(saved["seed"])
        assert self.table is not None
        self.table.restore(np.array(saved["physics"]))
        self.hand.held, self.hand.opening = saved["held"], saved["opening"]
        self.state = State.restore(saved["state"])
        self.steps = saved["steps"]
        self._write_back()
        self._judge()
        if self._record:
            self.recorder = Recorder(self.household)
            self.recorder.add(self.state, self.literals())
        return self._observe()

    def _info(self, refusal: str) -> dict[str, Any]:
        return {**super()._info(refusal), "motion_steps": self._motion_steps}
