"""Act in an experience's environments while it is learned.

When the training loop requests a batch, the policy first makes the decisions that are due, and
the batch is then drawn from the transitions so far. :class:`Interaction` does this; its counters
and transitions are part of every checkpoint. An episode's seed is derived from run, experience and
number, so a resumed run returns to the middle of an episode by repeating its actions. The
environments are in :mod:`clframe.rl.vector_acting`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clframe.core.plugin import Plugin
from clframe.data.dataset import Data, TensorData
from clframe.errors import DataError, PluginError
from clframe.hookspecs import hookimpl
from clframe.rl import transition_file
from clframe.rl.env_worker import Make
from clframe.rl.online_data import LiveData, Pace, TransitionBatch
from clframe.rl.transitions import Transitions
from clframe.rl.vector_acting import Environments, Start, maker
from clframe.robot.evaluation import episodes_of, inputs_of
from clframe.robot.observation_windows import STATE, ObservationTransform
from clframe.robot.task import TRAINING, episode_seeds, seed_key
from clframe.utils.processes import usable_cores

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Stream, Task
    from clframe.core.trainer import Budget


@dataclass
class Episode:
    """The current episode of an environment.

    Args:
        turn: Position of its task among those learned now.
        number: Episodes begun before it in this experience.
        steps: Decisions so far.
        total: Return so far.
        success: Whether the goal held after any decision.
    """

    turn: int = 0
    number: int = 0
    steps: int = 0
    total: float = 0.0
    success: bool = False

    def state_dict(self) -> dict[str, Any]:
        """Return all fields."""
        return dataclasses.asdict(self)


class Interaction(Plugin):
    """Acts, stores transitions, and counts.

    Args:
        pace: Decisions and updates of an experience.
        transitions: The buffer of transitions.
        num_envs: Environments stepped at the same time; None for one per process.
        overlap: Choose the first action after an update before it, and let worker processes execute
            it meanwhile.
    """

    name = "interaction"
    state = (
        "transitions",
        "optimizers",
        "decisions",
        "updates",
        "made",
        "begun",
        "episodes",
        "chosen",
    )

    def __init__(
        self,
        pace: Pace,
        transitions: Transitions,
        num_envs: int | None = None,
        overlap: bool = False,
    ) -> None:
        self.pace = pace
        self.transitions = transitions
        self.num_envs, self.overlap = num_envs, overlap
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        """Further optimizers of the learner by name, saved with the run."""
        self.explores = True
        """Whether the decisions before the first update are random instead of the policy's."""
        self._learner: Any = None
        self._makers: dict[int, Make] = {}
        self._environments: Environments | None = None
        self._ready: set[int] = set()
        """Environments that are at their episodes' current step."""
        self._sent = False
        self._windows: NDArray[np.float32] = np.zeros((1, 1, 1), np.float32)
        self._clear()

    def _clear(self) -> None:
        self.decisions = self.updates = self.begun = 0
        self.made: list[int] = []
        """Decisions per task that is learned now, including those chosen but not executed."""
        self.episodes = [Episode() for _ in range(self.num_envs or 1)]
        self.chosen: Tensor | None = None
        """Actions that are being executed."""

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Create every task's environment once, to report errors before training."""
        self._learner = learner
        if self.num_envs is None:
            self.num_envs = learner.engine.world_size
        self._makers = {task.index: maker(task, stream.n_outputs) for task in stream.tasks}
        for make in self._makers.values():
            make().close()
        folder = learner.state.run_dir
        path = None if folder is None else folder / transition_file.NAME
        self.transitions.keep_in(path, learner.engine.broadcast)

    @hookimpl(tryfirst=True)
    def fit_experience(self, experience: Experience, data: Data, budget: Budget) -> None:
        """Reject data joined with an experience's own, which has no samples."""
        if not isinstance(data, LiveData) or len(data.turns) > 1:
            raise PluginError(
                f"experience '{experience.name}' is learned by acting, so it cannot be joined "
                "with other data; choose a method that acts within steps, such as replay"
            )

    @hookimpl
    def after_epoch(self, logs: dict[str, Any]) -> None:
        """Log the number of decisions in the epoch."""
        pace, first = self.pace.times(max(1, len(self.made))), self.updates - logs["steps"]
        logs["decisions"] = self.decisions - (pace.decisions_before(first - 1) if first else 0)

    @hookimpl
    def teardown(self) -> None:
        """Close the environments."""
        if self._environments is not None:
            self._environments.close()
        self._environments, self._sent = None, False
        self._ready = set()

    def begin(self, explores: bool) -> None:
        """Start a new experience."""
        self.explores = explores
        self._clear()
        self.teardown()

    def written_files(self) -> dict[str, dict[str, Any]]:
        """Return the file of transitions, if there is one."""
        file = self.transitions.file
        return {} if file is None else {file.path.name: file.last_mark}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore counters and transitions; the environments follow when they are needed."""
        super().load_state_dict(state)
        self.episodes = [Episode(**episode) for episode in state["episodes"]]
        self.chosen = None if state["chosen"] is None else state["chosen"].cpu()
        self.teardown()

    # ------------------------------------------------------------ batches for the training loop

    def batches(self, turns: Sequence[Task], n: int, size: int) -> Iterator[TransitionBatch]:
        """Yield n batches and act between them; tasks have an equal share in each batch."""
        self.transitions.load()
        pace = self.pace.times(len(turns))
        inputs = inputs_of(turns[0])
        self.made = self.made or [0] * len(turns)
        for _ in range(n):
            while self.decisions < min(pace.decisions_before(self.updates), pace.steps):
                if self.chosen is None:
                    self._choose(turns, inputs)
                self._take(turns)
            # The loop may save the run after using the batch, so the batch is counted before.
            self.updates += 1
            generator = self._learner.generator
            if len(turns) == 1:
                drawn = self.transitions.sample(size, generator)
            else:
                tasks = [task.index for task in turns]
                drawn = self.transitions.sample_evenly(size, tasks, self.updates, generator)
            batch = self._batch(inputs, drawn, size)
            due = self.decisions < pace.decisions_before(self.updates) <= pace.steps
            if self.overlap and due:
                self._choose(turns, inputs)
                self._send(turns)
            yield batch

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
        """Return a task's last states of this experience, without labels yet."""
        self.transitions.load()
        newest = self.transitions.newest(self.decisions)
        states = newest[STATE][newest["task"] == task.index]
        states = states if most is None else states[-most:]
        labels = torch.zeros(len(states), 0)
        inputs = inputs_of(task)
        return TensorData({STATE: states}, labels, task.index, transform=inputs)

    # ------------------------------------------------------------ a decision in each environment

    def _choose(self, turns: Sequence[Task], inputs: ObservationTransform) -> None:
        """Choose the next actions; begin episodes for the tasks whose turn it is."""
        left = self.pace.steps * len(turns) - self.decisions
        count = min(len(self.episodes), left)
        random = [self._take_turn(number, len(turns)) for number in range(count)]
        tasks = [turns[episode.turn].index for episode in self.episodes[:count]]
        self._bring(turns, count)
        generator = self._learner.generator
        device = generator.device
        size = self._learner.stream.n_outputs
        action = torch.empty(count, size, device=device)
        if not all(random):
            # Built on the device to avoid a synchronization.
            of_task = torch.cat([torch.full((1,), task, device=device) for task in tasks])
            windows = torch.from_numpy(self._windows[:count].copy()).to(device)
            action = self._learner.act(inputs({STATE: windows}, of_task), of_task)
        if any(random):
            drawn = torch.rand(count, size, generator=generator, device=device) * 2 - 1
            pairs = zip(random, drawn, action, strict=True)
            action = torch.stack([by_chance if chance else own for chance, by_chance, own in pairs])
        self.chosen = action.cpu()

    def _take_turn(self, number: int, turns: int) -> bool:
        """Count a decision of an environment's task; return whether to make it at random."""
        episode, pace = self.episodes[number], self.pace
        starting = sum(self.made) < pace.start_steps * turns
        limit = pace.start_steps if starting else pace.steps
        if turns > 1 and self.made[episode.turn] >= limit:
            self._end(number)  # another environment made the task's last decision
            episode = self.episodes[number]
        if not episode.steps:
            # Episodes of equal length alternate between the tasks.
            episode.turn = min(range(turns), key=self.made.__getitem__)
            episode.number = self.begun
            self.begun += 1
        self.made[episode.turn] += 1
        return self.explores and self.made[episode.turn] <= pace.start_steps

    def _send(self, turns: Sequence[Task]) -> None:
        assert self.chosen is not None
        environments = self._bring(turns, len(self.chosen))
        environments.send(dict(enumerate(self.chosen.numpy())))
        self._sent = True

    def _take(self, turns: Sequence[Task]) -> None:
        """Execute the chosen actions, or wait for them, and store the transitions."""
        if not self._sent:
            self._send(turns)
        assert self.chosen is not None
        assert self._environments is not None
        chosen, self.chosen, self._sent = self.chosen.numpy(), None, False
        for number, moment in self._environments.receive(range(len(chosen))).items():
            episode, window = self.episodes[number], self._windows[number]
            task = turns[episode.turn]
            state = window.copy()
            window[:-1], window[-1] = state[1:], moment.state
            self.transitions.add(
                *(state, chosen[number], moment.reward, window),
                *(moment.terminated, task.index, number),
            )
            self.decisions += 1
            episode.steps += 1
            episode.total += moment.reward
            episode.success = episode.success or moment.success
            horizon = episodes_of(task).horizon
            if moment.terminated or moment.truncated or episode.steps >= horizon:
                self._log(episode)
                self._end(number)
            # Each task gets all its decisions before the first update, and no more than its budget.
            elif len(turns) > 1 and self.made[episode.turn] in (
                self.pace.start_steps,
                self.pace.steps,
            ):
                self._end(number)

    def _end(self, number: int) -> None:
        self.episodes[number] = Episode()
        self._ready.discard(number)

    def _log(self, episode: Episode) -> None:
        # Logged per epoch, because single steps may be thinned out and episodes are rare.
        for name, value in (
            ("return", episode.total),
            ("success", float(episode.success)),
            ("steps", float(episode.steps)),
        ):
            self._learner.log(f"rollout/{name}", value, on_step=False, on_epoch=True)

    # ------------------------------------------------------------ position of the environments

    def _bring(self, turns: Sequence[Task], count: int) -> Environments:
        """Bring the first environments to their episodes' current step, also after a resume."""
        if self._environments is None:
            evaluation = episodes_of(turns[0])
            inputs: Any = evaluation.inputs
            total, size = len(self.episodes), inputs.state_size
            processes = usable_cores() if self.overlap else 0
            ranks = self._learner.engine.ranks
            self._environments = Environments(total, self._makers, size, processes, ranks)
            self._windows = np.zeros((total, inputs.window, size), np.float32)
        missing = [number for number in range(count) if number not in self._ready]
        if missing:
            done = {number: self._done(number) for number in missing}
            starts = {
                number: Start(task.index, self._seed(task, episode), done[number]["action"].numpy())
                for number in missing
                for episode in [self.episodes[number]]
                for task in [turns[episode.turn]]
            }
            windows = self._environments.begin(starts, self._windows.shape[1])
            for number, window in windows.items():
                self._check_repeated(turns, number, window, done[number])
                self._windows[number] = window
            self._ready.update(missing)
        return self._environments

    def _seed(self, task: Task, episode: Episode) -> int:
        evaluation = episodes_of(task)
        key = seed_key(evaluation.robot, evaluation.goal_seed, TRAINING)
        seed_parts = (*key, self._learner.seed, self._learner.experience.index)
        return episode_seeds(1, *seed_parts, start=episode.number)[0]

    def _done(self, number: int) -> dict[str, Tensor]:
        """Return the transitions of an environment's current episode."""
        steps = self.episodes[number].steps
        newest = self.transitions.newest(self.decisions if steps else 0)
        of_number = (newest["environment"] == number).nonzero()[:, 0]
        positions = of_number[len(of_number) - steps :]
        return {name: column[positions] for name, column in newest.items()}

    def _check_repeated(
        self, turns: Sequence[Task], number: int, window: NDArray[Any], done: dict[str, Tensor]
    ) -> None:
        episode = self.episodes[number]
        if episode.steps and not np.array_equal(window, done["next_state"][-1].numpy()):
            raise DataError(
                f"the environment of task '{turns[episode.turn].name}' does not repeat an episode: "
                f"after the same seed and {episode.steps} equal actions its state differs, so the "
                "run cannot be resumed exactly"
            )
