"""Proximal policy optimisation (Schulman et al., 2017), in the order of the algorithm.

Settings, advantages (generalised advantage estimation: Schulman et al., 2016), one update, the
learner. The names and defaults of settings follow stable-baselines3.

The actor is ``learner.model``: plugins freeze, prune and replay it like any model. The value
network belongs to the learner, has its own optimizer, and is invisible to plugins. An experience
leaves its last visited states to plugins, labelled with the policy's outputs, so that replay clones
the behavior of old policies.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.core import hooks
from clframe.core.learner_factory import LearnerFactory
from clframe.core.protocols import RobotStream
from clframe.data.dataset import Batch, Data
from clframe.errors import PluginError, SettingError
from clframe.hookspecs import hookimpl
from clframe.models.categorical import CategoricalPolicy
from clframe.rl._rollout import Collector, Portions, RolloutBatch, RolloutData
from clframe.rl.actor import SquashedGaussian
from clframe.rl.stream import live_stream
from clframe.rl.value_network import Actor, renew, value_network
from clframe.robot.evaluation import Evaluation, episodes_of
from clframe.robot.learner import ImitationLearner
from clframe.utils.setting_checks import at_least, check_at_least

if TYPE_CHECKING:
    from clframe.core.engine import Engine
    from clframe.core.registry import Registry
    from clframe.core.step import Step
    from clframe.core.stream import Experience, Stream

Part: TypeAlias = Literal["optimizers", "value"]
TRAINER = {"batch_size": 64, "gradient_clip_val": 0.5}
"""The trainer's defaults, as in stable-baselines3."""


# ---------------------------------------------------------------- settings


@dataclass(frozen=True)
class PPO(LearnerFactory):
    """Proximal policy optimisation: learning by reward from rollouts.

    A minibatch has ``trainer.batch_size`` decisions (default 64).
    ``trainer.gradient_clip_val`` (0.5) clips the gradients of policy and value network together.

    Args:
        steps: Decisions in an experience, rounded up to whole rollouts.
        n_steps: Decisions per environment in a rollout.
        n_envs: Environments stepped at the same time; None uses ``stream.num_envs``.
        n_epochs: Passes over a rollout.
        gamma: Discount factor per decision.
        gae_lambda: How far advantages look beyond the value network's estimate; 1 looks to the end
            of the episode.
        clip_range: Largest change of an action's probability before its gradient is clipped.
        clip_range_vf: The same for values, in their own units; None does not clip.
        normalize_advantage: Scale the advantages of a minibatch to mean 0 and deviation 1.
        ent_coef: Weight of the entropy.
        vf_coef: Weight of the values' squared error.
        target_kl: Stop learning from a rollout when the divergence exceeds 1.5 times this.
        value_hidden: Widths of the value network's hidden layers; None uses the actor's.
        value_lr: Learning rate of the value network; None uses the optimizer's.
        action_repeat: How often each action is repeated, in training and in evaluation.
        reset: What to reset when a task begins: the ``optimizers``, the ``value`` network.
        cloning: Weight of the divergence from earlier policies in replay.
        remember: Number of an experience's last states to leave to plugins.
    """

    supports_distributed: ClassVar[bool] = False

    steps: int = 100_000
    n_steps: int = 2048
    n_envs: int | None = None
    n_epochs: int = 10
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    clip_range_vf: float | None = None
    normalize_advantage: bool = True
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    target_kl: float | None = None
    value_hidden: list[int] | tuple[int, ...] | None = None
    value_lr: float | None = None
    action_repeat: int = 1
    reset: Sequence[Part] = ("optimizers", "value")
    cloning: float = 1.0
    remember: int = 10_000

    def __post_init__(self) -> None:
        check_at_least(
            self, "learner", steps=1, n_steps=1, n_envs=1, n_epochs=1, gamma=0, gae_lambda=0,
            ent_coef=0, vf_coef=0, value_lr=0, action_repeat=1, cloning=0, remember=1,
        )  # fmt: skip
        for width in self.value_hidden or ():
            at_least(width, 1, "learner.value_hidden")
        for name in ("clip_range", "clip_range_vf", "target_kl"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingError(f"learner.{name} must be above 0, got {value!r}")
        for name in ("gamma", "gae_lambda"):
            if getattr(self, name) > 1:
                raise SettingError(f"learner.{name} must be at most 1, got {getattr(self, name)!r}")

    def for_stream(self, stream: Stream) -> PPO:
        """Return the settings, with the stream's number of environments as the default."""
        evaluation = stream.tasks[0].evaluation if stream.tasks else None
        if self.n_envs is not None or not isinstance(evaluation, Evaluation):
            return self
        return dataclasses.replace(self, n_envs=evaluation.num_envs)

    def portions(self, batch_size: int) -> Portions:
        """Return the sizes of a rollout and its minibatches."""
        return Portions(self.n_steps, self.n_envs or 1, self.n_epochs, batch_size)

    def trainer(self, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the budget as rollouts and their updates; a stream's defaults count samples."""
        values = {**TRAINER, **given}
        # An invalid batch size is reported when all settings of the trainer are checked.
        size = values["batch_size"]
        portions = self.portions(size if isinstance(size, int) and size > 0 else 1)
        rollouts = math.ceil(self.steps / portions.decisions)
        budget = {"max_epochs": rollouts, "max_steps": rollouts * portions.updates}
        for name, value in budget.items():
            if given.get(name) not in (None, value):
                raise SettingError(
                    f"trainer.{name}={given[name]}: learner=ppo learns for learner.steps="
                    f"{self.steps} decisions, which are {rollouts} rollouts (max_epochs) with "
                    f"{portions.updates} updates each; set learner.steps instead"
                )
        return {**values, **budget}

    def prepare_stream(self, stream: Stream, model: nn.Module, engine: Engine) -> Stream:
        """Return the stream with environments to act in instead of demonstrations."""
        name, kind, model_class = (
            ("categorical", "choices", CategoricalPolicy)
            if isinstance(stream, RobotStream) and stream.discrete
            else ("actor", "numbers", SquashedGaussian)
        )
        if not isinstance(model, model_class):
            raise SettingError(
                f"learner=ppo needs model={name}, not {type(model).__name__}: the actions of "
                f"stream '{stream.name}' are {kind}"
            )
        if engine.settings.precision not in ("32", "32-true"):
            raise SettingError(
                f"learner=ppo learns in 32 bits: trainer.precision={engine.settings.precision} "
                "must be 32-true"
            )
        for name in ("limit_train_batches", "drop_last"):
            if getattr(engine.settings, name):
                raise SettingError(
                    f"trainer.{name} has no effect with learner=ppo, whose epoch is a rollout; set "
                    "learner.n_steps and learner.n_epochs instead"
                )
        portions = self.portions(engine.settings.batch_size)
        samples = portions.updates * portions.batch_size
        outputs = model.n_choices if isinstance(model, CategoricalPolicy) else 2 * model.n_actions

        def data(task: Any) -> RolloutData:
            return RolloutData(task, samples, outputs)

        return live_stream(stream, "ppo", self.action_repeat, sys.maxsize, data)

    def learner_class(self, stream: Stream) -> Callable[..., PPOLearner]:
        """Return the constructor of the learner with these settings."""
        return functools.partial(PPOLearner, settings=self)


# ---------------------------------------------------------------- advantages


def generalized_advantages(
    happened: Mapping[str, Tensor], gamma: float, gae_lambda: float
) -> Tensor:
    """``A_t = d_t + gamma lambda A_(t+1)`` within an episode, where ``d_t = r_t + gamma V' - V``.

    Schulman et al., 2016, equations 11 and 16. ``V'`` is the value of the next state, 0 if the
    episode terminated there. At a truncation (horizon), only the sum ends.

    Args:
        happened: ``reward``, ``value``, ``next_value``, ``terminated`` and ``ended``, each
            ``[step, environment]``.
        gamma: The discount factor.
        gae_lambda: The estimate's lambda.
    """
    # Computed on the host, because it is a chain of many small steps.
    columns = {name: column.cpu().numpy() for name, column in happened.items()}
    deltas = (
        columns["reward"]
        + gamma * columns["next_value"] * (1 - columns["terminated"])
        - columns["value"]
    )
    decay = gamma * gae_lambda * (1 - columns["ended"])
    advantages = np.empty_like(deltas)
    so_far = np.zeros_like(deltas[0])
    for step in reversed(range(len(deltas))):
        so_far = deltas[step] + decay[step] * so_far
        advantages[step] = so_far
    return torch.from_numpy(advantages).to(happened["reward"].device)


# ---------------------------------------------------------------- one update


def clipped_surrogate(
    log_prob: Tensor, batch: RolloutBatch, clip_range: float, normalize: bool
) -> Tensor:
    """``-mean min(r A, clip(r, 1 - eps, 1 + eps) A)``: Schulman et al., 2017, equation 7.

    Args:
        log_prob: Log-probabilities of the batch's actions under the current policy.
        batch: A batch of a rollout.
        clip_range: The ``eps``.
        normalize: Scale the batch's advantages to mean 0 and deviation 1.
    """
    advantage = batch.advantage
    if normalize and len(advantage) > 1:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = (log_prob - batch.log_prob).exp()
    clipped = ratio.clamp(1 - clip_range, 1 + clip_range)
    return -torch.min(ratio * advantage, clipped * advantage).mean()


def value_error(values: Tensor, batch: RolloutBatch, clip_range: float | None) -> Tensor:
    """Return the mean squared distance of values from the rollout's returns."""
    if clip_range is not None:
        values = batch.value + (values - batch.value).clamp(-clip_range, clip_range)
    return functional.mse_loss(values, batch.returns)


def divergence(log_prob: Tensor, old: Tensor) -> Tensor:
    """Return ``mean(r - 1 - log r)``, an estimate of ``KL(old || new)`` from old samples.

    Never negative; Schulman's note "Approximating KL divergence" (2020), as in stable-baselines3.
    """
    log_ratio = log_prob - old
    return (log_ratio.exp() - 1 - log_ratio).mean()


# ---------------------------------------------------------------- learning


class PPOLearner(ImitationLearner):
    """Collects a rollout and improves policy and value network on it.

    Args:
        *arguments: The arguments of :class:`clframe.Learner`.
        settings: The config group ``learner``.
    """

    model: Actor

    def __init__(self, *arguments: Any, settings: PPO) -> None:
        model, stream, plugins, engine, *rest = arguments
        for plugin in plugins:
            if "training data" in plugin.roles:
                raise PluginError(
                    f"plugin '{plugin.name}' chooses an experience's training samples, but "
                    "learner=ppo has none before it acts; choose another strategy"
                )
        evaluation = episodes_of(stream.tasks[0])
        portions = settings.portions(engine.settings.batch_size)
        collector = Collector(portions, evaluation.num_workers, settings.remember, {})
        super().__init__(model, stream, [*plugins, collector], engine, *rest)
        self.settings = settings
        self.collector = collector
        self.value = value_network(model, math.prod(stream.input_shape), settings.value_hidden)
        self._renew_optimizer()
        for experience in stream:
            data: Any = experience.data
            data.collector = collector

    # ------------------------------------------------------------ a task begins

    def _renew_optimizer(self) -> None:
        optimizer = self.make_optimizer(self.value.parameters())
        if self.settings.value_lr is not None:
            for group in optimizer.param_groups:
                group["lr"] = self.settings.value_lr
        self.collector.optimizers = {"value": optimizer}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the actor's optimizer; the value network has the learner's own."""
        return self.make_optimizer([p for p in self.model.parameters() if p.requires_grad])

    def begin(self, experience: Experience) -> None:
        """Start an experience, and reset what the settings name."""
        super().begin(experience)
        reset = self.settings.reset if self.seen else ()
        self.collector.begin(experience.tasks[0], experience.index)
        if "value" in reset:
            renew(self.value)
        if "optimizers" in reset:
            self._renew_optimizer()
            self.engine.renew_optimizer(self)

    # ------------------------------------------------------------ a rollout

    def act(self, x: Tensor, task: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sampled actions, their log-probabilities, and the environment's actions."""
        outputs = self.run_model(x, task)[0]
        drawn = self.model.sample(outputs, self.generator)
        return drawn, self.model.log_prob(outputs, drawn), self.model.act_on(drawn)

    def value_of(self, x: Tensor) -> Tensor:
        """Return the expected return from each row."""
        return self.value(x).squeeze(1)  # type: ignore[no-any-return]

    def advantages(self, happened: Mapping[str, Tensor]) -> Tensor:
        """Return how much better each decision was than expected."""
        return generalized_advantages(happened, self.settings.gamma, self.settings.gae_lambda)

    @torch.no_grad()
    def goes_on(self, batch: RolloutBatch) -> bool:
        """Return whether the policy is still close to the rollout's on this minibatch."""
        if self.settings.target_kl is None:
            return True
        outputs = self.run_model(batch.x, batch.task)[0]
        kl = divergence(self.model.log_prob(outputs, batch.y), batch.log_prob)
        return float(kl) <= 1.5 * self.settings.target_kl

    # ------------------------------------------------------------ an update

    def training_step(self, batch: Batch) -> Step:  # type: ignore[override]
        """Run an update up to the actor's loss; a batch that is not from a rollout is cloned."""
        if not isinstance(batch, RolloutBatch):
            return super().training_step(batch)
        step = self.run_parts(hooks.extra_batches(self, batch))
        outputs, drawn = step.outputs[0], batch.y
        batch.y = self.model.law(outputs).detach()  # labels for plugins that store single steps
        batch.loss = lambda *_: self.actor_loss(outputs, drawn, batch)
        self.loss_of(step)
        # These gradients are clipped together with the policy's: see Collector.after_step.
        self.value_loss(batch).backward()
        return step

    def actor_loss(self, outputs: Tensor, drawn: Tensor, batch: RolloutBatch) -> Tensor:
        """Return the clipped surrogate minus the weighted entropy."""
        settings = self.settings
        log_prob = self.model.log_prob(outputs, drawn)
        surrogate = clipped_surrogate(
            log_prob, batch, settings.clip_range, settings.normalize_advantage
        )
        entropy = self.model.entropy(outputs).mean()
        with torch.no_grad():
            beyond = ((log_prob - batch.log_prob).exp() - 1).abs() > settings.clip_range
            self._log("policy_loss", surrogate)
            self._log("entropy", entropy)
            self._log("clip_fraction", beyond.float().mean())
            self._log("approx_kl", divergence(log_prob, batch.log_prob))
        return surrogate - settings.ent_coef * entropy

    def value_loss(self, batch: RolloutBatch) -> Tensor:
        """Return the weighted squared error of the values."""
        error = value_error(self.value_of(batch.x), batch, self.settings.clip_range_vf)
        self._log("value_loss", error)
        return self.settings.vf_coef * error

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """Return the loss of cloning an earlier policy on its samples."""
        return self.settings.cloning * super().task_loss(outputs, batch)

    def _log(self, name: str, value: Tensor) -> None:
        each = self.engine.logging.log_every_n_steps is not None
        self.log(f"ppo/{name}", value.detach(), on_step=each, on_epoch=True)

    # ------------------------------------------------------------ a task has been learned

    @torch.no_grad()
    def data_for_plugins(self, experience: Experience, data: Data) -> Data:
        """Return the last visited states with the policy's outputs as labels."""
        if not isinstance(data, RolloutData):
            return data
        visited = self.collector.visited(data.task).to(self.engine.device)
        rows = [
            self.model.law(self.run_model(batch.x, batch.task)[0])
            for batch in visited.batches(
                torch.arange(len(visited)), self.engine.evaluation.eval_batch_size
            )
        ]
        visited.labels = torch.cat(rows)
        return visited


@hookimpl
def register(registry: Registry) -> None:
    """Register the learner."""
    registry.add("learner", "ppo", PPO, model={"name": "actor"})
