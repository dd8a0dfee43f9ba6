"""Soft actor-critic (Haarnoja et al., 2018), from top to bottom: critics, one update, settings.

The actor is ``learner.model``: plugins hold, prune, replay and freeze it as they do any model. The
critics, their targets and the temperature are the learner's own; no plugin sees them. What an
experience leaves to plugins is the states that were visited with the policy's own outputs, so that
replay clones the old policies' behavior (ClonEx-SAC, Wolczyk et al., 2022).
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.core import hooks
from clframe.core.learning import Learning
from clframe.data.dataset import Batch, Data
from clframe.errors import PluginError, SettingError
from clframe.hookspecs import hookimpl
from clframe.models.policy import ACTIVATIONS, Body
from clframe.rl._interaction import Interaction, LiveData, Pace, TransitionBatch
from clframe.rl.actor import SquashedGaussian
from clframe.rl.stream import live_stream
from clframe.rl.transitions import Transitions
from clframe.robot.learner import ImitationLearner
from clframe.utils.settings import at_least, check_at_least

if TYPE_CHECKING:
    from clframe.core.engine import Engine
    from clframe.core.registry import Registry
    from clframe.core.step import Step
    from clframe.core.stream import Experience, Stream

Part: TypeAlias = Literal["buffer", "optimizers", "critics", "temperature", "exploration"]


# ---------------------------------------------------------------- the critics


class Critics(nn.Module):
    """Two action values, as a stack of layers in which one product serves both.

    Args:
        n_inputs: Length of the policy's inputs.
        n_actions: Numbers of an action.
        body: How the hidden layers are made.
        n_tasks: How many heads, chosen by the code at the end of inputs; None for a shared one.
    """

    def __init__(self, n_inputs: int, n_actions: int, body: Body, n_tasks: int | None) -> None:
        super().__init__()
        self.n_tasks, self.layer_norm = n_tasks, body.layer_norm
        self.activate = ACTIVATIONS[body.activation]()
        widths = [n_inputs + n_actions - (n_tasks or 0), *body.hidden, n_tasks or 1]
        self.weights = nn.ParameterList(
            torch.empty(2, before, after) for before, after in itertools.pairwise(widths)
        )
        self.biases = nn.ParameterList(torch.empty(2, 1, after) for after in widths[1:])
        # Scale and shift of the norm, where there is one.
        normed = widths[1:2] if body.layer_norm else []
        self.scales = nn.ParameterList(torch.empty(2, 1, width) for width in normed)
        self.shifts = nn.ParameterList(torch.empty(2, 1, width) for width in normed)
        self.reset()

    def reset(self) -> None:
        """Draw the weights anew, as those of linear layers are drawn."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1 / math.sqrt(weight.shape[1])
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)
        for scale, shift in zip(self.scales, self.shifts, strict=True):
            nn.init.ones_(scale)
            nn.init.zeros_(shift)

    def forward(self, x: Tensor, action: Tensor, fixed: bool = False) -> Tensor:
        """Both values ``[2, n]``; ``fixed`` lets no gradient come to the weights."""

        def own(parameter: Tensor) -> Tensor:
            return parameter.detach() if fixed else parameter

        seen = x if self.n_tasks is None else x[:, : -self.n_tasks]
        hidden = torch.cat([seen, action], 1).expand(2, -1, -1)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.baddbmm(own(bias), hidden, own(weight))
            if number == len(self.weights) - 1:
                break
            if self.layer_norm and number == 0:
                normed = functional.layer_norm(hidden, hidden.shape[-1:])
                hidden = (normed * own(self.scales[0]) + own(self.shifts[0])).tanh()
            else:
                hidden = self.activate(hidden)
        if self.n_tasks is None:
            return hidden.squeeze(-1)
        return (hidden * x[:, -self.n_tasks :]).sum(-1)


# ---------------------------------------------------------------- learning


class SACLearner(ImitationLearner):
    """Acts, and improves critics, temperature and actor in turn.

    Args:
        *arguments: Those of :class:`clframe.Learner`.
        settings: The config group ``learner``.
    """

    model: SquashedGaussian

    def __init__(self, *arguments: Any, settings: SAC) -> None:
        model, stream, plugins, engine, *rest = arguments
        for plugin in plugins:
            if plugin.name in ("multitask", "cumulative"):
                raise PluginError(
                    f"plugin '{plugin.name}' joins the data of several tasks, but learner=sac has "
                    "none before it acts: choose another strategy"
                )
        body = model.body
        if settings.critic_hidden is not None:
            body = Body(tuple(settings.critic_hidden), body.layer_norm, body.activation)
        critics = Critics(math.prod(stream.input_shape), model.n_actions, body, model.n_tasks)
        inputs = stream.tasks[0].info["evaluation"].inputs
        transitions = Transitions(
            settings.rows(len(stream)), (inputs.window, inputs.state_size), model.n_actions
        )
        interaction = Interaction(settings.pace, transitions, {})
        super().__init__(model, stream, [*plugins, interaction], engine, *rest)
        self.settings = settings
        self.interaction = interaction
        self.critics = critics
        self.targets = copy.deepcopy(critics).requires_grad_(False)
        self.log_temperature = nn.Parameter(
            torch.full((len(stream.tasks),), math.log(settings.temperature))
        )
        entropy = settings.target_entropy
        self.target_entropy = -float(model.n_actions) if entropy is None else entropy
        self._renew_optimizers()
        for experience in stream:
            data: Any = experience.data
            data.interaction = interaction

    # ------------------------------------------------------------ a task begins

    def _renew_optimizers(self) -> None:
        self.interaction.optimizers = {
            "critics": torch.optim.Adam(
                self.critics.parameters(), self.settings.critic_lr, fused=True
            ),
            "temperature": torch.optim.Adam([self.log_temperature], self.settings.temperature_lr),
        }

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The actor's; the others are the learner's own."""
        return self.make_optimizer([p for p in self.model.parameters() if p.requires_grad])

    def begin(self, experience: Experience) -> None:
        """Make an experience the current one, and what is to be reset for it as new."""
        super().begin(experience)
        reset = self.settings.reset if self.seen else ()
        self.interaction.begin(explores="exploration" in reset or not self.seen)
        if "buffer" in reset:
            self.interaction.transitions.clear()
        if "critics" in reset:
            self.critics.reset()
            self.targets.load_state_dict(self.critics.state_dict())
        if "temperature" in reset:
            nn.init.constant_(self.log_temperature, math.log(self.settings.temperature))
        if "optimizers" in reset:
            self._renew_optimizers()
            self.engine.renew_optimizer(self)

    # ------------------------------------------------------------ one update

    def _noise(self, n: int) -> Tensor:
        shape = (n, self.model.n_actions)
        return torch.randn(shape, generator=self.generator, device=self.generator.device)

    @torch.no_grad()
    def act(self, x: Tensor, task: Tensor) -> Tensor:
        """Actions drawn from the policy."""
        return self.model.draw(self.run_model(x, task)[0], self._noise(len(x)))[0]

    def training_step(self, batch: Batch) -> Step:  # type: ignore[override]
        """One update up to the actor's loss; a batch that is not of transitions is cloned."""
        if not isinstance(batch, TransitionBatch):
            return super().training_step(batch)
        step = self.run_parts(hooks.extra_batches(self, batch))
        outputs = step.outputs[0]
        batch.y = outputs.detach()  # what a memory of single steps keeps
        action, log_density = self.model.draw(outputs, self._noise(len(batch)))
        temperature = self.log_temperature.detach().exp()[batch.task]
        self._update("temperature", self.temperature_loss(log_density.detach(), batch.task))
        self._update("critics", self.critic_loss(batch, temperature, self._noise(len(batch))))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.targets.parameters()),
                list(self.critics.parameters()),
                self.settings.tau,
            )
        batch.loss = lambda *_: self.actor_loss(batch, action, log_density, temperature)
        self.loss_of(step)
        self._log("sac/temperature", temperature.mean())
        self._log("sac/entropy", -log_density.detach().mean())
        return step

    def temperature_loss(self, log_density: Tensor, task: Tensor) -> Tensor:
        """Pulls each task's entropy to the target: ``-log alpha * (log pi + target)``."""
        return -(self.log_temperature[task] * (log_density + self.target_entropy)).mean()

    def critic_loss(self, batch: TransitionBatch, temperature: Tensor, noise: Tensor) -> Tensor:
        """Half the squared distance of both values from the target, mean over samples."""
        with torch.no_grad():
            outputs = self.run_model(batch.next_x, batch.task)[0]
            action, log_density = self.model.draw(outputs, noise)
            future = self.targets(batch.next_x, action).amin(0) - temperature * log_density
            target = batch.reward + (1 - batch.terminated) * self.settings.gamma * future
        values = self.critics(batch.x, batch.action)
        loss: Tensor = 0.5 * (values - target).square().mean(1).sum()
        return loss

    def actor_loss(
        self, batch: TransitionBatch, action: Tensor, log_density: Tensor, temperature: Tensor
    ) -> Tensor:
        """``alpha log pi - min Q`` of actions that the policy draws now."""
        values = self.critics(batch.x, action, fixed=True).amin(0)
        loss: Tensor = (temperature * log_density - values).mean()
        return loss

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """Of samples that an earlier policy has left: cloning it."""
        return self.settings.cloning * super().task_loss(outputs, batch)

    def _update(self, name: str, loss: Tensor) -> None:
        """A step of one of the learner's own optimizers."""
        optimizer = self.interaction.optimizers[name]
        loss.backward()
        optimizer.step()
        # None is left for whoever looks at all gradients of the learner.
        optimizer.zero_grad(set_to_none=True)
        self._log(f"sac/{name}_loss", loss.detach())

    def _log(self, name: str, value: Tensor) -> None:
        each = self.engine.settings.log_every_n_steps is not None
        self.log(name, value, on_step=each, on_epoch=True)

    # ------------------------------------------------------------ a task has been learned

    @torch.no_grad()
    def left_by(self, experience: Experience, data: Data) -> Data:
        """The states that were visited, each with the policy's outputs there."""
        if not isinstance(data, LiveData):
            return data
        visited = self.interaction.visited(data.task, self.settings.remember)
        visited = visited.to(self.engine.device)
        rows = [
            torch.cat(self.model.gaussian(self.run_model(batch.x, batch.task)[0]), 1)
            for batch in visited.batches(
                torch.arange(len(visited)), self.engine.settings.eval_batch_size
            )
        ]
        visited.labels = torch.cat(rows)
        return visited


@dataclass(frozen=True)
class SAC(Learning):
    """Soft actor-critic: learning by reward, with a budget of decisions for each experience.

    The batch size is ``trainer.batch_size``, the actor's learning rate the optimizer's.

    Args:
        steps: Decisions in an experience.
        start_steps: Of these, before the first update; see ``reset`` for who makes them.
        update_ratio: Updates per decision after that.
        action_repeat: How often each action is done, in learning and in evaluation.
        gamma: What a reward one decision later counts.
        tau: Share of the critics that goes into their targets with each update.
        critic_hidden: Width of each hidden layer of the critics; None is as the actor has it.
        critic_lr: Learning rate of the critics.
        temperature: At first; what entropy counts against reward.
        temperature_lr: Its learning rate; 0 leaves it as it is.
        target_entropy: What the temperature aims at; None is minus the numbers of an action.
        buffer_size: Transitions to keep at most.
        reset: What is made new when a task begins: the ``buffer``, the ``optimizers``, the
            ``critics``, the ``temperature``; and ``exploration``, that the decisions before the
            first update are random again, instead of the policy's.
        cloning: Weight of the divergence from what earlier policies have left, in replay.
        remember: States of an experience to leave to plugins, the last ones; None for all.
        epoch_steps: Updates in an epoch, after which numbers are logged.
    """

    steps: int = 10_000
    start_steps: int = 1_000
    update_ratio: float = 1.0
    action_repeat: int = 1
    gamma: float = 0.99
    tau: float = 0.005
    critic_hidden: list[int] | tuple[int, ...] | None = None
    critic_lr: float = 1e-3
    temperature: float = 1.0
    temperature_lr: float = 1e-3
    target_entropy: float | None = None
    buffer_size: int = 1_000_000
    reset: Sequence[Part] = ("buffer", "optimizers", "critics", "temperature", "exploration")
    cloning: float = 1.0
    remember: int | None = None
    epoch_steps: int = 1_000

    def __post_init__(self) -> None:
        check_at_least(
            self, "learner", steps=1, start_steps=0, action_repeat=1, gamma=0, tau=0,
            critic_lr=0, temperature_lr=0, buffer_size=1, cloning=0, remember=1, epoch_steps=1,
        )  # fmt: skip
        for width in self.critic_hidden or ():
            at_least(width, 1, "learner.critic_hidden")
        for name in ("update_ratio", "temperature"):
            if not getattr(self, name) > 0:
                raise SettingError(f"learner.{name} must be above 0, got {getattr(self, name)!r}")
        for name in ("gamma", "tau"):
            if getattr(self, name) > 1:
                raise SettingError(f"learner.{name} must be at most 1, got {getattr(self, name)!r}")
        if self.pace.updates < 1:
            raise SettingError(
                f"learner.steps={self.steps} leaves no update after learner.start_steps="
                f"{self.start_steps}: raise steps or lower start_steps"
            )

    @property
    def pace(self) -> Pace:
        """Decisions and updates of an experience."""
        return Pace(self.steps, self.start_steps, self.update_ratio)

    def rows(self, experiences: int) -> int:
        """Transitions that have to be kept: no more than there will be."""
        of_run = self.steps * (1 if "buffer" in self.reset else experiences)
        return min(self.buffer_size, of_run)

    def trainer(self, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """The budget is the updates that follow from the decisions; a stream's is for samples."""
        for name, value in (("max_epochs", None), ("max_steps", self.pace.updates)):
            if given.get(name) not in (None, value):
                raise SettingError(
                    f"trainer.{name}={given[name]}: learner=sac learns for learner.steps="
                    f"{self.steps} decisions, which are {self.pace.updates} updates; set "
                    "learner.steps instead"
                )
        return {**given, "max_epochs": None, "max_steps": self.pace.updates}

    def prepare_stream(self, stream: Stream, model: nn.Module, engine: Engine) -> Stream:
        """The stream with environments to act in, in the place of demonstrations."""
        if not isinstance(model, SquashedGaussian):
            raise SettingError(f"learner=sac needs model=actor, not {type(model).__name__}")
        if engine.world_size > 1:
            raise SettingError("learner=sac learns in one process: set trainer.devices=1")
        if engine.settings.precision not in ("32", "32-true"):
            raise SettingError(
                f"learner=sac learns in 32 bits: trainer.precision={engine.settings.precision} "
                "must be 32-true"
            )
        samples = self.epoch_steps * engine.settings.batch_size

        def data(task: Any) -> LiveData:
            return LiveData(task, samples, 2 * model.n_actions)

        return live_stream(stream, "sac", self.action_repeat, self.buffer_size, data)

    def learner_class(self, stream: Stream) -> Callable[..., SACLearner]:
        """The learner with these settings."""
        return functools.partial(SACLearner, settings=self)


@hookimpl
def register(registry: Registry) -> None:
    """Add the learner."""
    registry.add("learner", "sac", SAC, model={"name": "actor"})
