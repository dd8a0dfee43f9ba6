"""The planner: a search over errands, led by the exact score Q."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from clframe.worlds.bddl import Literal
from clframe.worlds.bddl.option_tree import Signed
from clframe.worlds.behavior.facts import fact
from clframe.worlds.behavior.faults import at_goal
from clframe.worlds.behavior.planner.actor import Actor, Stuck
from clframe.worlds.behavior.planner.making import make_thing
from clframe.worlds.behavior.planner.ways import rank, ways
from clframe.worlds.behavior.sampling import Instance
from clframe.worlds.behavior.state import State
from clframe.worlds.behavior.tracker import GoalTracker

_STARTS = 30
"""Most starts in another order after the first."""


@dataclass(frozen=True)
class Plan:
    """Primitives from the start of an instance on, and the score they reach."""

    steps: tuple[tuple[int, int], ...]
    score: float
    seconds: float
    """Processor time that planning took."""
    obstacle: tuple[Signed, str] | None = None
    """Where the goal was not reached: a literal that stayed, and why."""


class _Search:
    def __init__(self, instance: Instance, deadline: float) -> None:
        self.household = instance.household
        self.start = instance.start
        self.tracker = GoalTracker(instance.household)
        self.deadline = deadline
        self.obstacle: tuple[Signed, str] | None = None
        self.best: tuple[float, list[tuple[int, int]]] = (-1.0, [])

    def climb(self, rng: random.Random | None) -> bool:
        """Follow errands that raise Q, or the best of those that do not, until the goal holds."""
        state, steps = self.start, []  # type: tuple[State, list[tuple[int, int]]]
        seen: set[int] = set()
        banned = self._commit(rng)
        while time.process_time() < self.deadline:
            truth = self.tracker.truth(state)
            score, success = self.tracker.score(truth)
            if score > self.best[0]:
                self.best = (score, steps)
            if score == 1.0 and success:
                self.best = (score, steps)
                return True
            seen.add(truth)
            true_atoms = self.tracker.true_atoms(truth)
            option = self.tracker.goal.nearest_option(true_atoms, banned)
            if option is None:
                return False
            holding = set(true_atoms)
            pending = [lit for lit in dict.fromkeys(option) if (lit[0] in holding) != lit[1]]
            if rng is not None:
                rng.shuffle(pending)
            if rng is None or rng.random() < 0.7:
                pending.sort(key=lambda lit: rank(*lit))
            if not pending:
                return False  # the option holds, but the goal does not: too many of something
            actor = self._advance(state, score, pending, seen)
            if actor is None:
                banned.update(pending)
                continue
            state = actor.state
            steps = steps + actor.steps
        return False

    def _commit(self, rng: random.Random | None) -> set[Signed]:
        """Rule out literals at random as long as options remain, so that each start differs."""
        if rng is None:
            return set()
        banned: set[Signed] = set()
        atoms = list(self.tracker.atoms)
        rng.shuffle(atoms)
        for atom in atoms[:40]:
            tried = banned | {(atom, True)}
            if rng.random() < 0.4 and self.tracker.goal.nearest_option((), tried) is not None:
                banned = tried
        return banned

    def _advance(
        self, state: State, score: float, pending: list[Signed], seen: set[int]
    ) -> Actor | None:
        """The first errand that raises Q, else the one that leads to the best new situation."""
        best: tuple[float, int, Actor] | None = None
        for signed in pending:
            literal, wanted = signed
            holds = fact(self.household, literal)
            for way in ways(self.household, literal, wanted):
                if time.process_time() > self.deadline:
                    return None
                actor = Actor(self.household, state)
                try:
                    if wanted:
                        self._make_named(actor, literal)
                    way(actor)
                except Stuck as reason:
                    if self.obstacle is None or self.obstacle[0] != signed:
                        self.obstacle = (signed, str(reason))
                    continue
                if holds(actor.state) != wanted:
                    continue
                truth = self.tracker.truth(actor.state)
                now = self.tracker.score(truth)[0]
                if now > score:
                    return actor
                if truth not in seen and (best is None or (now, -len(actor.steps)) > best[:2]):
                    best = (now, -len(actor.steps), actor)
        return best[2] if best else None

    def _make_named(self, actor: Actor, literal: Literal) -> None:
        """Make the things that a literal speaks of, where they do not exist yet."""
        for slot in self.household.literal_slots(literal):
            if self.household.carried[slot]:
                make_thing(actor, slot)


def plan(instance: Instance, seconds: float = 10.0, seed: int = 0) -> Plan:
    """Search for primitives that reach an activity's goal.

    From the ground options of the goal the search takes the nearest one, brings about its literals
    one by one by errands, and keeps what raises the exact Q. Where it ends it starts again in
    another order, until the time is over.

    Args:
        instance: What to solve.
        seconds: Most processor time to spend.
        seed: Decides the orders of later starts.
    """
    began = time.process_time()
    search = _Search(instance, began + seconds)
    rng = random.Random(seed)
    reached = search.climb(None)
    for _ in range(_STARTS):
        if reached or time.process_time() >= search.deadline:
            break
        reached = search.climb(rng)
    score, steps = search.best
    took = time.process_time() - began
    return Plan(tuple(steps), score, took, None if reached else search.obstacle)


def require(instance: Instance, seconds: float = 10.0) -> Plan:
    """A plan that reaches the goal.

    Raises:
        ActivityError: If none is found, at the part of the goal that stayed, with the reason.
    """
    found = plan(instance, seconds)
    if found.score == 1.0:
        return found
    problem = instance.household.problem
    literal: tuple[str, ...] = ()
    sentence = "No primitives were found that reach the goal."
    if found.obstacle is not None:
        (literal, wanted), reason = found.obstacle
        text = " ".join(literal) if wanted else f"not {' '.join(literal)}"
        sentence = f"No primitive reaches ({text}): {reason}."
    raise at_goal(problem, literal or ("",), sentence)
