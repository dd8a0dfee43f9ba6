"""Bringing an activity with physics to its goal: plan, do, look, and plan again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clframe.worlds.behavior.physics.physics_env import PhysicalBehaviorEnv
from clframe.worlds.behavior.planner.search import plan
from clframe.worlds.behavior.sampling import Instance
from clframe.worlds.behavior.verbs import Verb

_ROUNDS = 6


@dataclass(frozen=True)
class Solution:
    """What an episode came to.

    Attributes:
        score: Q at the end.
        primitives: How many were done.
        motion_steps: How many low-level steps that took.
        plans: How many plans were made: 1 if the first one led to the goal.
        refusal: What the last failed primitive said.
    """

    score: float
    primitives: int
    motion_steps: int
    plans: int
    refusal: str


def attempts(
    env: PhysicalBehaviorEnv, seconds: float = 5.0, rounds: int = _ROUNDS
) -> Iterator[tuple[int, int, int]]:
    """Yields what to do next from where the environment is, which is to be done before going on.

    That is a plan's primitives; after one that failed, those of a new plan from there. Each is
    (number of the plan from 1, verb, slot). It ends with the episode, or with the last plan.

    Args:
        env: Which was reset.
        seconds: Most processor time of one plan.
        rounds: Most plans.
    """
    for number in range(1, rounds + 1):
        found = plan(Instance(env.household, env.state, env.instance.seed), seconds, number - 1)
        for verb, slot in found.steps:
            yield number, verb, slot
            if env.success or env.steps >= env.horizon:
                return
            if env.last_refusal:
                break
        if env.hand.held is not None:  # the planner has two hands, the table one
            yield number, Verb.RELEASE, env.household.index[env.hand.held]


def solve(env: PhysicalBehaviorEnv, seconds: float = 5.0, rounds: int = _ROUNDS) -> Solution:
    """Execute the planner's plan from the environment's state; after a failure, plan again.

    Args:
        env: Which was reset.
        seconds: Most processor time of one plan.
        rounds: Most plans.
    """
    primitives = motion = 0
    number, refusal = rounds, ""
    for number, verb, slot in attempts(env, seconds, rounds):  # noqa: B007  the last one is told
        *_, info = env.step(env.action(verb, slot))
        primitives += 1
        motion += info["motion_steps"]
        if info["refusal"]:
            refusal = f"{env.household.names[slot]}: {info['refusal']}"
    return Solution(env.q, primitives, motion, number, refusal)
