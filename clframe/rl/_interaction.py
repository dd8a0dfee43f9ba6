"""Acting in an experience's environment while it is learned, as data of core's training loop.

:class:`LiveData` is what an experience has instead of samples. When the loop asks it for a batch,
the policy first makes as many decisions as are due; the batch is then drawn from the transitions so
far. :class:`Interaction` does that, and its state is part of every checkpoint: counters and
transitions. An episode is begun by a seed that follows from run, experience and number, so a
resumed run comes to the middle of an episode by doing its actions again.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clframe.core.plugin import Plugin
from clframe.data.dataset import Batch, Data, TensorData
from clframe.errors import DataError, PluginError
from clframe.hookspecs import hookimpl
from clframe.rl.environment import CheckedEnvironment
from clframe.rl.transitions import Transitions
from clframe.robot.evaluation import Evaluation
from clframe.robot.task import TRAINING, episode_seeds, seed_key
from clframe.robot.windows import STATE, ObservationTransform

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Stream, Task
    from clframe.core.trainer import Budget


class Actor(Protocol):
    """A learner that acts."""

    generator: torch.Generator

    def act(self, x: Tensor, task: Tensor) -> Tensor:
        """An action for each row of inputs, with the noise that exploring takes."""

    def log(self, name: str, value: Any, **arguments: Any) -> None:
        """Send a number to every logger."""


@dataclass(frozen=True)
class Pace:
    """How decisions and updates follow each other in an experience.

    Args:
        steps: Decisions.
        start_steps: Of these, before the first update.
        update_ratio: Updates per decision after that.
    """

    steps: int
    start_steps: int
    update_ratio: float

    def times(self, tasks: int) -> Pace:
        """That of so many tasks which are learned together."""
        return Pace(self.steps * tasks, self.start_steps * tasks, self.update_ratio)

    @property
    def updates(self) -> int:
        """Updates in an experience."""
        return math.floor((self.steps - self.start_steps) * self.update_ratio + 1e-9)

    def decisions_before(self, update: int) -> int:
        """Decisions made when an update is due, counted from 0.

        >>> [Pace(10, 4, 0.5).decisions_before(n) for n in range(3)]
        [6, 8, 10]
        >>> [Pace(10, 4, 2.0).decisions_before(n) for n in range(4)]
        [5, 5, 6, 6]
        """
        return self.start_steps + math.ceil((update + 1) / self.update_ratio - 1e-9)


class TransitionBatch(Batch):
    """A batch of transitions; ``x`` and ``next_x`` are inputs of the policy."""

    __slots__ = ("action", "next_x", "reward", "terminated")

    action: Tensor
    next_x: Tensor
    reward: Tensor
    terminated: Tensor


class LiveData(Data):
    """What there is to learn in a task: nothing until the policy acts in it.

    Args:
        task: Whose environment it is.
        epoch_samples: Samples that the training loop takes for one epoch.
        outputs: Numbers of the policy's outputs, which are the labels.
    """

    def __init__(self, task: Task, epoch_samples: int, outputs: int) -> None:
        self.task = task
        self.turns: tuple[Task, ...] = (task,)
        """Tasks that are learned together, in the order in which they are acted in."""
        self.epoch_samples = epoch_samples
        self.labels = torch.empty(0, outputs)
        self.tasks = torch.empty(0, dtype=torch.long)
        self.transform = task.info["evaluation"].inputs
        self.interaction: Interaction | None = None

    def __len__(self) -> int:
        return self.epoch_samples

    def gather(self, positions: Tensor) -> Any:
        """Refused: there are no samples before the policy has acted."""
        raise PluginError(
            f"task '{self.task.name}' is learned by acting in it, so it has no samples to choose "
            "from: leave out the plugin that asks for them"
        )

    def subset(self, positions: Tensor) -> Data:
        """Refused, as :meth:`gather` is."""
        refused: Data = self.gather(positions)
        return refused

    def to(self, device: torch.device) -> LiveData:
        """The same: batches are made on the learner's device."""
        return self

    def joined_with(self, others: Sequence[Data]) -> LiveData:
        """All tasks, acted in one after the other."""
        together = copy.copy(self)
        for other in others:
            if not isinstance(other, LiveData):
                raise PluginError(
                    f"task '{self.task.name}' is learned by acting in it, so other data cannot be "
                    "joined with its own: choose a method that acts within steps, such as replay"
                )
            together.turns += other.turns
        return together

    def batches(self, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Act and draw; of the order only its length counts."""
        assert self.interaction is not None
        return self.interaction.batches(self.turns, math.ceil(len(order) / batch_size), batch_size)


class Interaction(Plugin):
    """Acts, keeps what happens, and counts.

    Args:
        pace: Decisions and updates of an experience.
        transitions: Where to keep what happens.
        optimizers: Further ones of the learner, by name, to be saved with the run.
    """

    name = "interaction"
    state = (
        "transitions",
        "optimizers",
        "decisions",
        "updates",
        "made",
        "turn",
        "episode",
        "episode_steps",
        "episode_return",
        "episode_success",
    )

    def __init__(
        self,
        pace: Pace,
        transitions: Transitions,
        optimizers: dict[str, torch.optim.Optimizer],
    ) -> None:
        self.pace = pace
        self.transitions = transitions
        self.optimizers = optimizers
        self.explores = True
        """Whether the decisions before the first update are random; else the policy makes them."""
        self._clear()
        self._learner: Any = None
        self._environments: dict[int, CheckedEnvironment] = {}
        """By the task's index."""
        self._at: tuple[int, int, int, int] | None = None
        """Experience, turn, episode and step at which its environment is."""
        self._window: NDArray[np.float32] = np.zeros((1, 1), np.float32)

    def _clear(self) -> None:
        self.decisions = self.updates = self.episode = self.episode_steps = 0
        self.made: list[int] = []
        """Decisions of each task that is learned now."""
        self.turn = 0
        """Which of them is acted in."""
        self.episode_return, self.episode_success = 0.0, False

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Look at every task's environment before anything is learned."""
        self._learner = learner
        for task in stream.tasks:
            self._make_environment(task).close()

    @hookimpl(tryfirst=True)
    def fit_experience(self, experience: Experience, data: Data, budget: Budget) -> None:
        """Refuse data that is joined with an experience's own, which there is none of."""
        if not isinstance(data, LiveData) or len(data.turns) > 1:
            raise PluginError(
                f"experience '{experience.name}' is learned by acting in it, so other data cannot "
                "be joined with its own: choose a method that acts within steps, such as replay"
            )

    @hookimpl
    def teardown(self) -> None:
        """Give the environments up."""
        for environment in self._environments.values():
            environment.close()
        self._environments = {}

    def begin(self, explores: bool) -> None:
        """A new experience begins."""
        self.explores = explores
        self._clear()
        self._at = None
        self.teardown()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore counters and transitions; the environment follows when it is needed."""
        super().load_state_dict(state)
        self._at = None

    # ------------------------------------------------------------ what the loop asks for

    def batches(self, turns: Sequence[Task], n: int, size: int) -> Iterator[TransitionBatch]:
        """So many batches, with the decisions between them; an even share of tasks in each."""
        pace = self.pace.times(len(turns))
        inputs: ObservationTransform = turns[0].info["evaluation"].inputs
        self.made = self.made or [0] * len(turns)
        for _ in range(n):
            while self.decisions < pace.decisions_before(self.updates):
                self._decide(turns, inputs)
            # Counted before the loop can save the run, which it does when it has used the batch.
            self.updates += 1
            generator = self._learner.generator
            if len(turns) == 1:
                drawn = self.transitions.sample(size, generator)
            else:
                tasks = [task.index for task in turns]
                drawn = self.transitions.sample_evenly(size, tasks, self.updates, generator)
            yield self._batch(inputs, drawn, size)

    def _batch(
        self, inputs: ObservationTransform, drawn: dict[str, Tensor], size: int
    ) -> TransitionBatch:
        tasks = drawn["task"]
        # One call for both observations of a transition.
        both = inputs(
            {STATE: torch.cat([drawn["state"], drawn["next_state"]])}, torch.cat([tasks, tasks])
        )
        batch = TransitionBatch(both[:size], drawn["action"], tasks)
        batch.next_x, batch.action = both[size:], drawn["action"]
        batch.reward, batch.terminated = drawn["reward"], drawn["terminated"]
        return batch

    def visited(self, task: Task, most: int | None) -> TensorData:
        """A task's states since the experience began, without labels yet; the last so many."""
        newest = self.transitions.newest(self.decisions)
        states = newest[STATE][newest["task"] == task.index]
        states = states if most is None else states[-most:]
        labels = torch.zeros(len(states), 0)
        inputs = task.info["evaluation"].inputs
        return TensorData({STATE: states}, labels, task.index, transform=inputs)

    # ------------------------------------------------------------ one decision

    def _decide(self, turns: Sequence[Task], inputs: ObservationTransform) -> None:
        if not self.episode_steps:
            # Where episodes are equally long: one after the other.
            self.turn = min(range(len(turns)), key=self.made.__getitem__)
        task = turns[self.turn]
        environment = self._environment_now(task)
        state = self._window.copy()
        action = self._choose(task, inputs, state)
        moment = environment.step(action)
        self._see(moment.state)
        self.transitions.add(
            state, action, moment.reward, self._window, moment.terminated, task.index
        )
        self.decisions += 1
        self.made[self.turn] += 1
        self.episode_steps += 1
        self.episode_return += moment.reward
        self.episode_success = self.episode_success or moment.success
        horizon = task.info["evaluation"].horizon
        if moment.terminated or moment.truncated or self.episode_steps >= horizon:
            self._log_episode()
            self._next_episode()
        elif len(turns) > 1 and self.made[self.turn] in (self.pace.start_steps, self.pace.steps):
            # Every task has its decisions before the first update, and no more than its budget.
            self._next_episode()
        else:
            self._at = self._place

    @property
    def _place(self) -> tuple[int, int, int, int]:
        return (self._learner.experience.index, self.turn, self.episode, self.episode_steps)

    def _choose(
        self, task: Task, inputs: ObservationTransform, state: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        generator = self._learner.generator
        device = generator.device
        if self.explores and self.made[self.turn] < self.pace.start_steps:
            size = self.transitions.newest(0)["action"].shape[1]
            action = torch.rand(size, generator=generator, device=device) * 2 - 1
        else:
            number = torch.full((1,), task.index, dtype=torch.long, device=device)
            x = inputs({STATE: torch.from_numpy(state[None]).to(device)}, number)
            action = self._learner.act(x, number)[0]
        chosen: NDArray[np.float32] = action.cpu().numpy()
        return chosen

    def _log_episode(self) -> None:
        log = self._learner.log
        # One number an epoch: single steps may be thinned out, and an episode has few.
        log("rollout/return", self.episode_return, on_step=False, on_epoch=True)
        log("rollout/success", float(self.episode_success), on_step=False, on_epoch=True)
        log("rollout/steps", float(self.episode_steps), on_step=False, on_epoch=True)

    def _next_episode(self) -> None:
        self.episode += 1
        self.episode_steps, self.episode_return, self.episode_success = 0, 0.0, False

    # ------------------------------------------------------------ where the environment is

    def _make_environment(self, task: Task) -> CheckedEnvironment:
        evaluation: Evaluation = task.info["evaluation"]
        inputs: Any = evaluation.inputs
        return CheckedEnvironment(
            evaluation.robot, inputs.state_size, self._learner.stream.n_outputs
        )

    def _environment_now(self, task: Task) -> CheckedEnvironment:
        """The environment at the current episode and step, to which a resumed run has to go."""
        if task.index not in self._environments:
            self._environments[task.index] = self._make_environment(task)
        environment = self._environments[task.index]
        if self._at == self._place:
            return environment
        evaluation: Evaluation = task.info["evaluation"]
        learner = self._learner
        key = seed_key(evaluation.robot, evaluation.goal_seed, TRAINING)
        place = (*key, learner.seed, learner.experience.index)
        first = environment.reset(episode_seeds(1, *place, start=self.episode)[0])
        self._window = np.repeat(first[None], evaluation.inputs.window, 0)
        done = self.transitions.newest(self.episode_steps)
        for action in done["action"].numpy():
            self._see(environment.step(action).state)
        if self.episode_steps and not np.array_equal(self._window, done["next_state"][-1].numpy()):
            raise DataError(
                f"the environment of task '{task.name}' does not repeat an episode: after the same "
                f"seed and {self.episode_steps} equal actions its state is another one, so the run "
                "cannot be resumed at the very step"
            )
        self._at = self._place
        return environment

    def _see(self, state: NDArray[np.float32]) -> None:
        self._window = np.concatenate([self._window[1:], state[None]])
