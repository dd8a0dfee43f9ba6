"""Environments on the machines of a Ray cluster.

The policy stays in this process and sees the observations of all slots as one batch, as with
local workers, so results are identical to the bit. If a machine is lost, another one replays its
environments: the seed and the actions determine an episode.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot.episodes import reset, step
from clframe.robot.task import MakeEnvironment
from clframe.utils.console import warn_user
from clframe.utils.processes import (
    WorkerPool,
    find_user_files,
    make_call,
    pickle_call,
    read_answer,
    user_files,
)
from clframe.utils.ray_cluster import Cluster

SETTING = "stream.rollouts=ray"
_PATIENCE = 60.0
"""Seconds in which a machine must have started the first environments."""
_TRIES = 3
"""How often workers may end before they start while there is no other."""
_STRAGGLERS = 5.0
"""Seconds to wait for further machines after the first."""
_LOOK = 0.1

Episode = tuple[int, list[NDArray[Any]]]
"""The seed and the actions so far."""


class EnvironmentActor:
    """Runs the calls of a worker on a machine of the cluster.

    Args:
        path: Folders to search for modules, in addition to those of Ray's own process.
        files: Files of modules that no search would find, by module name.
    """

    def __init__(self, path: list[str], files: dict[str, str]) -> None:
        sys.path += [folder for folder in path if folder not in sys.path]
        find_user_files(files)

    def call(self, call: bytes) -> bytes:
        """Run a call and return its answer."""
        return make_call(call)


def again(key: str, make: MakeEnvironment, episodes: dict[int, Episode]) -> None:
    """Replay slots to the current step of their episodes."""
    for slot, (seed, actions) in episodes.items():
        reset(key, make, {slot: seed})
        for number, action in enumerate(actions, 1):
            step(key, make, {slot: (action, number, False)})


class FarmWorker:
    """A worker on a machine of the cluster, which moves to another machine if that one is lost.

    Args:
        farm: Manages the actors.
        actor: The first actor to use.
    """

    def __init__(self, farm: Farm, actor: Any) -> None:
        self._farm, self.actor = farm, actor
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...], Any]] = deque()
        self._key = ""
        self._make: MakeEnvironment | None = None
        self._episodes: dict[int, Episode] = {}

    def send(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Submit a call.

        Raises:
            DataError: The call cannot be pickled.
        """
        key, make, work = arguments
        if key != self._key:  # a new evaluation, so no episode is open
            self._key, self._make, self._episodes = key, make, {}
            self.actor = self._farm.better(self.actor)
        if function is reset:
            self._episodes |= {slot: (seed, []) for slot, seed in work.items()}
        self._calls.append((function, arguments, self._ask(function, arguments)))

    def _ask(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return self.actor.call.remote(pickle_call(function, arguments, self._farm.advice))

    def receive(self) -> Any:
        """Wait for the result of the oldest open call.

        Raises:
            DataError: The call raised an error that a user can cause, or no machine is left.
            RuntimeError: The call raised another error.
        """
        from ray.exceptions import RayActorError

        function, arguments, answer = self._calls.popleft()
        while True:
            try:
                value = read_answer(self._farm.ray.get(answer))
                break
            except RayActorError:
                self.actor = self._farm.instead_of(self.actor)
                # Calls run in order: do not replay the episodes that the open call resets.
                begun = self._episodes.keys() - (arguments[2] if function is reset else {})
                unfinished = {slot: self._episodes[slot] for slot in begun}
                self._ask(again, (self._key, self._make, unfinished))
                answer = self._ask(function, arguments)
        if function is step:
            self._note(arguments[2], value)
        return value

    def _note(
        self, actions: dict[int, tuple[NDArray[Any], int, bool]], results: dict[int, Any]
    ) -> None:
        """Record the actions of episodes that continue."""
        for slot, (_, success, ended, _) in results.items():
            if success or ended:
                self._episodes.pop(slot, None)
            elif slot in self._episodes:
                self._episodes[slot][1].append(actions[slot][0])

    def close(self) -> None:
        """Do nothing; the farm ends the actors."""


class Farm(WorkerPool):
    """Workers on the machines of a Ray cluster.

    Args:
        processes: Largest number of workers; None or 0 is one per free CPU.
        most: Largest number of workers that have work.
        advice: What to do about a call that cannot be pickled.

    Raises:
        SettingError: There is no cluster, or the package is missing.
        DataError: No machine has a CPU for environments.
    """

    def __init__(self, processes: int | None, most: int, advice: str) -> None:
        super().__init__(0)
        self.advice = advice
        self._cluster = Cluster(SETTING)
        self.ray = self._cluster.ray
        # We restart actors ourselves: an actor that Ray restarts has lost its environments.
        options = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        self._class = self.ray.remote(**options)(EnvironmentActor)
        self._alive: list[Any] = []
        self._coming: dict[Any, Any] = {}
        self._reasons: list[str] = []
        count = processes or int(self.ray.available_resources().get("CPU", 0))
        try:
            for _ in range(max(1, min(count, most))):
                self._order()
            self._wait_for_first()
            until = time.monotonic() + _STRAGGLERS
            while self._coming and time.monotonic() < until:
                self._arrivals(_LOOK)
        except BaseException:
            self.close()
            raise
        self.workers = [FarmWorker(self, actor) for actor in self._alive]

    def _order(self) -> None:
        """Ask the cluster for another actor."""
        actor = self._class.remote(sys.path, user_files())
        self._coming[actor.call.remote(pickle_call(int, (), self.advice))] = actor

    def _arrivals(self, seconds: float) -> None:
        """Add the actors that have started."""
        from ray.exceptions import RayActorError

        if not self._coming:
            return
        ready, _ = self.ray.wait(list(self._coming), timeout=seconds)
        for answer in ready:
            actor = self._coming.pop(answer)
            try:
                self.ray.get(answer)
            except RayActorError as error:  # lost before it started, or it cannot start
                self._reasons.append(str(error).strip().splitlines()[-1].strip())
                self._order()
            else:
                self._alive.append(actor)

    def _wait_for_first(self) -> None:
        until = time.monotonic() + _PATIENCE
        while not self._alive:
            self._arrivals(_LOOK)
            if not self._alive and len(self._reasons) > _TRIES:
                raise DataError(
                    f"{SETTING}: no machine of the Ray cluster can create environments "
                    f"({self._reasons[-1]}); each needs this version of clframe"
                )
            if not self._alive and time.monotonic() > until:
                raise DataError(
                    f"{SETTING}: no machine of the Ray cluster had a CPU free for environments "
                    f"within {_PATIENCE:.0f} s; `ray status` shows what uses them"
                )

    def instead_of(self, actor: Any) -> Any:
        """Return a replacement for a lost actor: a newly started one, or one that is in use."""
        if actor in self._alive:
            self._alive.remove(actor)
            warn_user("a machine of the Ray cluster was lost; another one repeats its episodes")
            self._order()
        self._arrivals(0)
        self._wait_for_first()
        return self._least_used()

    def better(self, actor: Any) -> Any:
        """Return the actor itself, or an idle one if the actor serves several workers."""
        self._arrivals(0)
        return self._least_used() if self._users.count(actor) > 1 else actor

    @property
    def _users(self) -> list[Any]:
        return [worker.actor for worker in self.workers if isinstance(worker, FarmWorker)]

    def _least_used(self) -> Any:
        return min(self._alive, key=self._users.count)

    def close(self) -> None:
        """End the actors and leave the cluster."""
        for actor in (*self._alive, *self._coming.values()):
            self.ray.kill(actor)
        self._alive, self._coming = [], {}
        self._cluster.close()


def check_cluster() -> None:
    """Check for the cluster now, so that a run without one does not train first and fail later.

    Raises:
        SettingError: There is no cluster, or the package is missing.
    """
    Cluster(SETTING).close()
