"""The Gymnasium environment of an activity."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from clframe.errors import SettingError
from clframe.worlds.bddl import Literal, Problem
from clframe.worlds.behavior import observation
from clframe.worlds.behavior.corpus import load_activity
from clframe.worlds.behavior.facts import literals
from clframe.worlds.behavior.record import Recorder
from clframe.worlds.behavior.sampling import Instance, sample
from clframe.worlds.behavior.state import State
from clframe.worlds.behavior.tracker import GoalTracker
from clframe.worlds.behavior.verbs import Verb, act, possible
from clframe.worlds.environment import Environment

HORIZON = 500
KEPT = 100
"""Instances that an environment keeps."""
VERBS = len(Verb)
Observation = dict[str, NDArray[Any]]


class BehaviorEnv(gymnasium.Env[Observation, int], Environment):
    """One activity: an action is a verb with a thing, the reward is the increase of Q.

    An action is a number, ``verb * slots + slot`` (see `action`). An impossible one changes only
    the time, and ``info["refusal"]`` says why; `action_masks` says what is possible. An episode
    ends when the goal holds, and is cut off after ``horizon`` steps. Observations are ``things``
    (a row per slot), ``matter`` (substances per slot) and ``agent``; `literals` gives the same
    state as a set. ``info`` holds ``q``, ``success`` and ``refusal``.

    Args:
        problem: An activity as read by `clframe.worlds.bddl`, or (corpus, name) of a published one.
        instance: The seed of the start that resets without a seed lead to.
        horizon: Steps until the episode is cut off.
        slots: Rows of the observation; None takes as many as the household has.
        record: Whether to keep what the efficiency metrics need; see ``recorder``.

    >>> env = BehaviorEnv(("b100", "making_tea"))
    >>> _, info = env.reset()
    >>> info["q"], info["success"]
    (0.0, False)
    """

    metadata = {"render_modes": []}  # noqa: RUF012  Gymnasium's own

    def __init__(
        self,
        problem: Problem | tuple[str, str],
        instance: int = 0,
        horizon: int = HORIZON,
        slots: int | None = None,
        record: bool = False,
    ) -> None:
        if horizon < 1:
            raise SettingError(f"horizon is a number of steps from 1 up, not {horizon}.")
        self.problem = problem if isinstance(problem, Problem) else load_activity(*problem)
        self.default_instance = instance
        self.horizon = horizon
        self._record = record
        self._instances: dict[int, tuple[Instance, GoalTracker]] = {}
        self._scores: dict[int, tuple[float, bool]] = {}
        self._take(instance)
        count = len(self.household.names)
        if slots is not None and slots < count:
            raise SettingError(f"{self.problem.name} has {count} things; slots={slots} is too few.")
        self.slots = slots or count
        self.substances = max(1, len(self.household.substances))
        actions: spaces.Space[Any] = spaces.Discrete(VERBS * self.slots)
        self.action_space = actions
        shape = (self.slots, observation.COLUMNS)
        seen: spaces.Space[Any] = spaces.Dict(
            {
                "things": spaces.Box(-np.inf, np.inf, shape, np.float32),
                "matter": spaces.Box(0, 1, (self.slots, 4, self.substances), np.int8),
                "agent": spaces.Box(-np.inf, np.inf, (observation.AGENT_SIZE,), np.float32),
            }
        )
        self.observation_space = seen

    def _take(self, seed: int) -> None:
        if seed not in self._instances:
            if len(self._instances) >= KEPT:
                del self._instances[next(iter(self._instances))]
            drawn = sample(self.problem, seed)
            self._instances[seed] = (drawn, GoalTracker(drawn.household, self._scores))
        self.instance, self.tracker = self._instances[seed]
        self.household = self.instance.household
        self.state = self.instance.start.copy()
        self.steps = 0
        self.recorder = Recorder(self.household) if self._record else None
        self._judge()
        if self.recorder is not None:
            self.recorder.add(self.state)

    def _judge(self) -> None:
        self._truth = self.tracker.truth(self.state)
        self.q, self.success = self.tracker.score(self._truth)
        self._version = self.state.version

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start again: at the instance of the seed, or without one at the default instance.

        ``options={"instance": number}`` also chooses the instance.
        """
        super().reset(seed=seed)
        chosen = (options or {}).get("instance", self.default_instance if seed is None else seed)
        self._take(chosen)
        return self._observe(), self._info("")

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Do one primitive."""
        verb, slot = divmod(int(action), self.slots)
        return self._act(verb, slot)

    def _act(self, verb: int, slot: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        before = self.q
        if not 0 <= slot < len(self.household.names) or not 0 <= verb < VERBS:
            refusal = "there is no such thing"
        else:
            refusal = act(self.household, self.state, verb, slot)
        self.steps += 1
        if self.state.version != self._version:
            self._judge()
        if self.recorder is not None:
            self.recorder.add(self.state)
        cut_off = self.steps >= self.horizon and not self.success
        return self._observe(), self.q - before, self.success, cut_off, self._info(refusal)

    def action(self, verb: Verb | int, slot: int | str) -> int:
        """The number of a verb with a thing, which may be given by its name."""
        place = self.household.index[slot] if isinstance(slot, str) else slot
        return int(verb) * self.slots + place

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are possible now; the name is that of sb3-contrib."""
        mask = np.zeros(VERBS * self.slots, dtype=np.bool_)
        for verb, slot in possible(self.household, self.state, self._offered(tuple(Verb))):
            mask[verb * self.slots + slot] = True
        return mask

    def _offered(self, verbs: tuple[Verb, ...]) -> tuple[Verb, ...]:
        """Those of the verbs that there are at all now."""
        return verbs

    def render(self) -> NDArray[np.uint8] | None:
        """Return None: without physics there are no images."""
        return None

    def literals(self) -> frozenset[Literal]:
        """All literals that hold, in the words of the activity's domain."""
        return literals(self.household, self.state)

    def save(self) -> dict[str, Any]:
        """What `restore` needs to come back to this moment, as plain values."""
        return {"seed": self.instance.seed, "steps": self.steps, "state": self.state.save()}

    def restore(self, saved: dict[str, Any]) -> Observation:
        """Restore a saved state; a recording starts again there."""
        self._take(saved["seed"])
        self.state = State.restore(saved["state"])
        self.steps = saved["steps"]
        self._judge()
        if self._record:
            self.recorder = Recorder(self.household)
            self.recorder.add(self.state)
        return self._observe()

    def _observe(self) -> Observation:
        return {
            "things": observation.things(self.household, self.state, self.slots),
            "matter": observation.matter(self.state, self.slots, self.substances),
            "agent": observation.agent(self.state),
        }

    def _info(self, refusal: str) -> dict[str, Any]:
        return {"q": self.q, "success": self.success, "refusal": refusal}
