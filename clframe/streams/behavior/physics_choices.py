"""The environment of a stream's activity with physics."""

from __future__ import annotations

from collections.abc import Iterator

from clframe.streams.behavior import efficiency
from clframe.streams.behavior.choices import ChoiceEnv
from clframe.worlds.bddl import Problem
from clframe.worlds.behavior.physics.fitting import fit
from clframe.worlds.behavior.physics.layout import lay_out
from clframe.worlds.behavior.physics.physics_env import PhysicalBehaviorEnv
from clframe.worlds.behavior.physics.solve import attempts, solve
from clframe.worlds.behavior.sampling import sample


class PhysicalChoiceEnv(ChoiceEnv, PhysicalBehaviorEnv):
    """A `ChoiceEnv` in which the hand of a `PhysicalBehaviorEnv` executes the primitives."""

    def _reference(self) -> dict[str, float] | None:
        twin = PhysicalBehaviorEnv(self.problem, self.instance.seed, self.horizon, record=True)
        solved = solve(twin).score == 1.0
        assert twin.recorder is not None
        return efficiency.of_recorder(twin.recorder) if solved else None


def choices(env: PhysicalChoiceEnv) -> Iterator[int]:
    """Yield the planner's plan with physics as choices; stop if the stream lacks a verb."""
    for _, verb, slot in attempts(env):
        if verb not in env.verbs:
            return
        yield env.layout.number(verb, slot)


def require_table(problem: Problem) -> None:
    """Check that an activity fits on a table.

    Raises:
        ActivityError: It does not; the error names the literal or object and its position.
    """
    lay_out(fit(sample(problem)))
