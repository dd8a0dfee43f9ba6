"""An activity as a task of choices: from one vector to a primitive and its object."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from clframe.streams.behavior import efficiency
from clframe.worlds.bddl import Problem
from clframe.worlds.behavior import features
from clframe.worlds.behavior.env import KEPT, BehaviorEnv, Observation
from clframe.worlds.behavior.features import Features
from clframe.worlds.behavior.layout import VERBS, Layout, Primitives


class ChoiceEnv(BehaviorEnv):
    """A `BehaviorEnv` whose actions and observations have the same size in the whole stream.

    An action is a choice of `Layout`. An observation is ``state``, the vector of `Features`, which
    begins with the mask of possible choices.

    Args:
        problem: An activity as read by `clframe.worlds.bddl`, or (corpus, name) of a published one.
        horizon: Steps after which the episode is truncated.
        slots: The stream's number of slots.
        primitives: The paper's ``six``, or ``all``.
        record: Whether to record data for the efficiency metrics.
    """

    def __init__(
        self,
        problem: Problem | tuple[str, str],
        horizon: int,
        slots: int,
        primitives: Primitives = "all",
        record: bool = False,
    ) -> None:
        self.verbs = VERBS[primitives]
        self._features: Features | None = None
        self._references: dict[int, dict[str, float] | None] = {}
        self._things = slots
        super().__init__(problem, 0, horizon, None, record)
        actions: spaces.Space[Any] = spaces.Discrete(len(self.verbs) * slots)
        self.action_space = actions
        shape = (features.size(slots, len(self.verbs)),)
        observations: spaces.Space[Any] = spaces.Dict(
            {"state": spaces.Box(-np.inf, np.inf, shape, np.float32)}
        )
        self.observation_space = observations

    def _take(self, seed: int) -> None:
        super()._take(seed)
        if self._features is None:
            self.layout = Layout(self.household, self._things, self.verbs)
            self._features = Features(self.household, self.layout, self.tracker)

    def _observe(self) -> Observation:
        assert self._features is not None
        offered = self._offered(self.verbs)
        vector = self._features.vector(self.household, self.state, self._truth, self.q, offered)
        return {"state": vector}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Do the primitive of a choice."""
        return self._act(*self.layout.choice(int(action)))

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask of the choices that are possible now."""
        mask: NDArray[np.bool_] = self._observe()["state"][: len(self.verbs) * self._things] > 0.5
        return mask

    def measures(self) -> dict[str, float]:
        """Return the measures of the episode so far: Q and, if recorded, its efficiency."""
        measures = {"q": self.q}
        if self.recorder is not None:
            seed = self.instance.seed
            if seed not in self._references:
                if len(self._references) >= KEPT:
                    self._references.clear()
                self._references[seed] = self._reference()
            measures |= efficiency.measures(self.recorder, self._references[seed])
        return measures

    def _reference(self) -> dict[str, float] | None:
        """Return the metrics of the planner's episode from the same start; None if it fails."""
        return efficiency.reference_of(self.instance)
