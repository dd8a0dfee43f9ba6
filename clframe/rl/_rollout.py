"""Rollouts as data of core's training loop: collect one with the current policy, then learn it.

An epoch of the loop is a rollout: when its first batch is requested, the policy acts for
``n_steps`` in each of the environments; then the rollout's minibatches follow, pass after pass.
Checkpoints include the state of :class:`Collector`: the rollout, the progress on it, and the
position of the environments (:mod:`clframe.rl.vector`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from clframe.core.plugin import Plugin
from clframe.data.dataset import Batch, Data, TensorData
from clframe.data.sampler import epoch_order
from clframe.errors import PluginError
from clframe.hookspecs import hookimpl
from clframe.rl.env_slots import Maker
from clframe.rl.online_data import LiveData
from clframe.rl.stream import state_mask
from clframe.rl.vector import VectorEnvironment
from clframe.robot.evaluation import episodes_of, inputs_of
from clframe.robot.observation_windows import STATE
from clframe.robot.task import TRAINING, seed_key

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Stream, Task
    from clframe.core.trainer import Budget


class Actor(Protocol):
    """A learner with a policy and a value estimate."""

    generator: torch.Generator

    def act(self, x: Tensor, task: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return samples for each row, their log-probabilities, and the environment's actions."""

    def value_of(self, x: Tensor) -> Tensor:
        """Return the expected return from each row."""

    def advantages(self, happened: dict[str, Tensor]) -> Tensor:
        """Return how much better each decision was than expected, ``[step, environment]``."""

    def goes_on(self, batch: RolloutBatch) -> bool:
        """Return whether to continue with this minibatch of the rollout."""


@dataclass(frozen=True)
class Portions:
    """The sizes of a rollout and its minibatches.

    Args:
        n_steps: Decisions per environment.
        n_envs: Number of environments.
        n_epochs: Passes over the decisions.
        batch_size: Decisions of a minibatch; the last one of a pass may be smaller.
    """

    n_steps: int
    n_envs: int
    n_epochs: int
    batch_size: int

    @property
    def decisions(self) -> int:
        """Decisions in a rollout."""
        return self.n_steps * self.n_envs

    @property
    def batches(self) -> int:
        """Minibatches in a pass."""
        return math.ceil(self.decisions / self.batch_size)

    @property
    def updates(self) -> int:
        """Updates per rollout."""
        return self.n_epochs * self.batches


class RolloutBatch(Batch):
    """A minibatch of a rollout; ``x`` are the policy's inputs, ``y`` its samples."""

    __slots__ = ("advantage", "log_prob", "returns", "value")

    advantage: Tensor
    log_prob: Tensor
    returns: Tensor
    value: Tensor


class RolloutData(LiveData):
    """The data of a task: one rollout after the other."""

    collector: Collector

    def batches(self, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Act and learn; the order only tells whether the epoch has steps left.

        It is empty in a run that was saved after an epoch's last step: then no rollout is due.
        """
        return self.collector.batches(self.task) if len(order) else iter(())


class Collector(Plugin):
    """Collects rollouts, yields their minibatches, and counts.

    Args:
        portions: The sizes of a rollout.
        processes: Worker processes of the environments.
        remember: Number of an experience's last states to keep.
        optimizers: Further optimizers of the learner by name, saved with the run.
    """

    name = "collector"
    state = ("optimizers", "recent", "rollout", "rollouts", "updates")

    def __init__(
        self,
        portions: Portions,
        processes: int | None,
        remember: int,
        optimizers: dict[str, torch.optim.Optimizer],
    ) -> None:
        self.portions, self.processes = portions, processes
        self.remember = remember
        self.optimizers = optimizers
        self.environments: VectorEnvironment | None = None
        self._learner: Any = None
        self._x: Tensor | None = None
        """The rollout's states as inputs of the policy; recomputed after a resume."""
        self._order: tuple[tuple[int, ...], Tensor] | None = None
        """The key of the current pass, and the order of its decisions."""
        self._clear()

    def _clear(self) -> None:
        self.rollouts = 0
        """Rollouts collected in this experience."""
        self.updates = self.portions.updates
        """Updates on the current rollout; all are done, so the next rollout is due."""
        self.rollout: dict[str, Tensor] = {}
        self.recent = torch.empty(0)
        self._x = None

    # ------------------------------------------------------------ start of a run and of a task

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Create every task's environment once, to report errors before training."""
        self._learner = learner
        for task in stream.tasks:
            self._maker(task)().close()

    @hookimpl(tryfirst=True)
    def fit_experience(self, experience: Experience, data: Data, budget: Budget) -> None:
        """Reject data joined with an experience's own, which has no samples."""
        if not isinstance(data, RolloutData):
            raise PluginError(
                f"experience '{experience.name}' is learned by acting, so it cannot be joined "
                "with other data; choose a method that acts within steps, such as replay"
            )

    @hookimpl
    def teardown(self) -> None:
        """Close the environments."""
        if self.environments is not None:
            self.environments.close()

    def begin(self, task: Task, experience: int) -> None:
        """Start a new experience."""
        self.teardown()
        self._clear()
        evaluation = episodes_of(task)
        key = seed_key(evaluation.robot, evaluation.goal_seed, TRAINING)
        self.environments = VectorEnvironment(
            self._maker(task),
            self.portions.n_envs,
            (*key, self._learner.seed, experience),
            evaluation.horizon,
            evaluation.inputs.window,
            self.processes,
        )

    def _maker(self, task: Task) -> Maker:
        evaluation = episodes_of(task)
        inputs: Any = evaluation.inputs
        stream = self._learner.stream
        return Maker(
            evaluation.robot,
            inputs.state_size,
            stream.n_outputs,
            stream.discrete,
            state_mask(stream),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the rollout and the position of the environments."""
        environments = None if self.environments is None else self.environments.state_dict()
        return {**super().state_dict(), "environments": environments}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the rollout and the position of the environments."""
        environments = state["environments"]
        super().load_state_dict({k: v for k, v in state.items() if k != "environments"})
        # Between two experiences there are no environments.
        if self.environments is not None and environments is not None:
            self.environments.load_state_dict(environments)
        self._x = None

    # ------------------------------------------------------------ batches for the training loop

    def batches(self, task: Task) -> Iterator[RolloutBatch]:
        """Yield the remaining minibatches of the current rollout, or those of a new one."""
        if self.updates >= self.portions.updates:
            self._collect(task)
            self.updates = 0
        while self.updates < self.portions.updates:
            batch = self._batch(task)
            if not self._learner.goes_on(batch):
                self.updates = self.portions.updates
                return
            # The loop may save the run after using the batch, so the batch is counted before.
            self.updates += 1
            yield batch

    def _batch(self, task: Task) -> RolloutBatch:
        """Return the next minibatch; seed, experience, rollout and pass determine the order."""
        rollout, portions, learner = self.rollout, self.portions, self._learner
        number, position = divmod(self.updates, portions.batches)
        key = (learner.seed, learner.experience.index, self.rollouts, number)
        if self._order is None or self._order[0] != key:
            order = epoch_order(portions.decisions, *key).to(rollout["value"].device)
            self._order = (key, order)
        size = portions.batch_size
        chosen = self._order[1][position * size : (position + 1) * size]
        if self._x is None:
            inputs = inputs_of(task)
            self._x = inputs({STATE: rollout[STATE]}, self._numbers(task, portions.decisions))
        batch = RolloutBatch(
            self._x[chosen], rollout["drawn"][chosen], self._numbers(task, len(chosen))
        )
        for name in RolloutBatch.__slots__:
            setattr(batch, name, rollout[name][chosen])
        return batch

    def _numbers(self, task: Task, n: int) -> Tensor:
        device = self._learner.generator.device
        return torch.full((n,), task.index, dtype=torch.long, device=device)

    def visited(self, task: Task) -> TensorData:
        """Return the last states of this experience, without labels yet."""
        labels = torch.zeros(len(self.recent), 0)
        inputs = inputs_of(task)
        return TensorData({STATE: self.recent}, labels, task.index, transform=inputs)

    # ------------------------------------------------------------ acting

    @torch.no_grad()
    def _collect(self, task: Task) -> None:
        """Collect a rollout with the current policy."""
        environments, learner, portions = self.environments, self._learner, self.portions
        assert environments is not None
        inputs = inputs_of(task)
        device = learner.generator.device
        numbers = self._numbers(task, portions.n_envs)
        shape = (portions.n_steps, portions.n_envs)
        states = np.zeros((*shape, *environments.windows.shape[1:]), np.float32)
        reward = np.zeros(shape, np.float32)
        terminated, ended = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        drawn, log_prob = [], []
        last: dict[tuple[int, int], Any] = {}
        for step in range(portions.n_steps):
            states[step] = environments.windows
            x = inputs({STATE: torch.from_numpy(states[step]).to(device)}, numbers)
            chosen, density, action = learner.act(x, numbers)
            drawn.append(chosen)
            log_prob.append(density)
            happened = environments.step(action.cpu().numpy())
            reward[step], terminated[step] = happened.reward, happened.terminated
            ended[step] = happened.ended
            last |= {(step, slot): window for slot, window in happened.last.items()}
            self._log(happened.finished)
        self.rollouts += 1
        both = torch.from_numpy(np.concatenate([states, environments.windows[None]])).to(device)
        values = self._values(task, both.flatten(0, 1)).reshape(-1, portions.n_envs)
        next_value = values[1:].clone()
        if last:
            steps, slots = torch.tensor(list(last), device=device).T
            windows = torch.from_numpy(np.stack(list(last.values()))).to(device)
            # The value of an episode's last state, instead of the next episode's first.
            next_value[steps, slots] = self._values(task, windows)
        arrays = {"reward": reward, "terminated": terminated, "ended": ended}
        columns = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        columns |= {"value": values[:-1], "next_value": next_value}
        columns["advantage"] = learner.advantages(columns)
        columns["returns"] = columns["advantage"] + columns["value"]
        columns |= {"drawn": torch.stack(drawn), "log_prob": torch.stack(log_prob)}
        columns[STATE] = both[:-1]
        kept = (STATE, "drawn", *RolloutBatch.__slots__)
        self.rollout = {name: columns[name].flatten(0, 1) for name in kept}
        self._x = None
        so_far = self.recent.to(device) if len(self.recent) else self.rollout[STATE][:0]
        self.recent = torch.cat([so_far, self.rollout[STATE]])[-self.remember :].clone()

    def _values(self, task: Task, windows: Tensor) -> Tensor:
        """Return the values of windows, computed in batches."""
        inputs = inputs_of(task)
        rows = windows.split(self._learner.engine.evaluation.eval_batch_size)
        return torch.cat(
            [
                self._learner.value_of(inputs({STATE: row}, self._numbers(task, len(row))))
                for row in rows
            ]
        )

    def _log(self, finished: list[Any]) -> None:
        log = self._learner.log
        for episode in finished:
            # Logged per epoch, because single steps may be thinned out and episodes are rare.
            log("rollout/return", episode.total, on_step=False, on_epoch=True)
            log("rollout/success", float(episode.success), on_step=False, on_epoch=True)
            log("rollout/steps", float(episode.steps), on_step=False, on_epoch=True)

    # ------------------------------------------------------------ the learner's own optimizers

    @hookimpl
    def after_step(self) -> None:
        """Step these optimizers, whose gradients were clipped together with the policy's."""
        for optimizer in self.optimizers.values():
            if any(p.grad is not None for group in optimizer.param_groups for p in group["params"]):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
