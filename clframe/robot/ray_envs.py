"""Environments on the machines of a Ray cluster.

The policy stays in this process and sees the observations of all slots as one batch, as with
workers on this machine, so results are the same to the bit. What a lost machine's environments had
come to is made again on another: an episode is fixed by its seed and its actions.
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
"""Seconds in which a machine must have taken the first environments."""
_TRIES = 3
"""How often a worker may end before it has begun, while there is no other."""
_STRAGGLERS = 5.0
"""Seconds that further ones are waited for then."""
_LOOK = 0.1

Episode = tuple[int, list[NDArray[Any]]]
"""The seed and the actions so far."""


class EnvironmentActor:
    """Makes the calls of a worker on a machine of the cluster.

    Args:
        path: Where modules are looked for, beside where Ray's own process looks.
        files: Of modules that no search would find, by the module's name.
    """

    def __init__(self, path: list[str], files: dict[str, str]) -> None:
        sys.path += [place for place in path if place not in sys.path]
        find_user_files(files)

    def call(self, call: bytes) -> bytes:
        """Make a call, and return its answer."""
        return make_call(call)


def again(key: str, make: MakeEnvironment, episodes: dict[int, Episode]) -> None:
    """Bring slots to where their episodes were."""
    for slot, (seed, actions) in episodes.items():
        reset(key, make, {slot: seed})
        for number, action in enumerate(actions, 1):
            step(key, make, {slot: (action, number, False)})


class FarmWorker:
    """A worker on some machine of the cluster, and on another when that is lost.

    Args:
        farm: Knows the actors.
        actor: The first to talk to.
    """

    def __init__(self, farm: Farm, actor: Any) -> None:
        self._farm, self.actor = farm, actor
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...], Any]] = deque()
        self._key = ""
        self._make: MakeEnvironment | None = None
        self._episodes: dict[int, Episode] = {}

    def send(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Hand over a call.

        Raises:
            DataError: It cannot be pickled.
        """
        key, make, work = arguments
        if key != self._key:  # a new evaluation, of which no episode is open
            self._key, self._make, self._episodes = key, make, {}
            self.actor = self._farm.better(self.actor)
        if function is reset:
            self._episodes |= {slot: (seed, []) for slot, seed in work.items()}
        self._calls.append((function, arguments, self._ask(function, arguments)))

    def _ask(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return self.actor.call.remote(pickle_call(function, arguments, self._farm.advice))

    def receive(self) -> Any:
        """Wait for what the oldest open call returned.

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
                # What the open call begins anew must not be played; calls are made in order.
                begun = self._episodes.keys() - (arguments[2] if function is reset else {})
                open_ones = {slot: self._episodes[slot] for slot in begun}
                self._ask(again, (self._key, self._make, open_ones))
                answer = self._ask(function, arguments)
        if function is step:
            self._note(arguments[2], value)
        return value

    def _note(
        self, actions: dict[int, tuple[NDArray[Any], int, bool]], results: dict[int, Any]
    ) -> None:
        """Remember the actions of episodes that go on."""
        for slot, (_, success, ended, _) in results.items():
            if success or ended:
                self._episodes.pop(slot, None)
            elif slot in self._episodes:
                self._episodes[slot][1].append(actions[slot][0])

    def close(self) -> None:
        """The farm ends the actors."""


class Farm(WorkerPool):
    """Workers on the machines of a Ray cluster.

    Args:
        processes: How many at most; None or 0 is one for each CPU that is free now.
        most: As many as there is work for.
        advice: What to do about a call that cannot be handed to another process.

    Raises:
        SettingError: No cluster is found, or the package is missing.
        DataError: No machine has a CPU for environments.
    """

    def __init__(self, processes: int | None, most: int, advice: str) -> None:
        super().__init__(0)
        self.advice = advice
        self._cluster = Cluster(SETTING)
        self.ray = self._cluster.ray
        # Restarted by us: an actor that Ray restarts has forgotten its environments.
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
        """Take in the actors that have come."""
        from ray.exceptions import RayActorError

        if not self._coming:
            return
        ready, _ = self.ray.wait(list(self._coming), timeout=seconds)
        for answer in ready:
            actor = self._coming.pop(answer)
            try:
                self.ray.get(answer)
            except RayActorError as error:  # lost before it began, or it cannot begin
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
                    f"{SETTING}: no machine of the Ray cluster can make environments "
                    f"({self._reasons[-1]}); each needs this version of clframe"
                )
            if not self._alive and time.monotonic() > until:
                raise DataError(
                    f"{SETTING}: no machine of the Ray cluster had a CPU free for environments "
                    f"within {_PATIENCE:.0f} s; `ray status` shows what uses them"
                )

    def instead_of(self, actor: Any) -> Any:
        """Another actor in place of one that is lost: one that has come, or one of the others."""
        if actor in self._alive:
            self._alive.remove(actor)
            warn_user(
                "a machine of the Ray cluster was lost; its episodes are done again on another"
            )
            self._order()
        self._arrivals(0)
        self._wait_for_first()
        return self._least_used()

    def better(self, actor: Any) -> Any:
        """The actor itself, or one that has come and has nothing to do where it has too much."""
        self._arrivals(0)
        return self._least_used() if self._users.count(actor) > 1 else actor

    @property
    def _users(self) -> list[Any]:
        return [worker.actor for worker in self.workers if isinstance(worker, FarmWorker)]

    def _least_used(self) -> Any:
        return min(self._alive, key=self._users.count)

    def close(self) -> None:
        """End the actors, and leave the cluster."""
        for actor in (*self._alive, *self._coming.values()):
            self.ray.kill(actor)
        self._alive, self._coming = [], {}
        self._cluster.close()


def check_cluster() -> None:
    """Find the cluster now, so that a run without one does not learn first and fail then.

    Raises:
        SettingError: No cluster is found, or the package is missing.
    """
    Cluster(SETTING).close()
