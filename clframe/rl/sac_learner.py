"""One update of soft actor-critic, and what is reset when a task begins.

The actor is ``learner.model``: plugins freeze, prune and replay it like any model. The critics,
their targets and the temperature belong to the learner and are invisible to plugins. An experience
leaves its visited states to plugins, labelled with the policy's outputs, so that replay clones the
behavior of old policies (ClonEx-SAC, Wolczyk et al., 2022).
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from clframe.core import hooks
from clframe.data.dataset import Batch, Data
from clframe.errors import PluginError
from clframe.models.policy import Body
from clframe.rl._collector import Interaction
from clframe.rl.actor import SquashedGaussian
from clframe.rl.critics import Critics
from clframe.rl.online_data import LiveData, TransitionBatch
from clframe.rl.transitions import Transitions
from clframe.robot.evaluation import inputs_of
from clframe.robot.learner import ImitationLearner

if TYPE_CHECKING:
    from clframe.core.step import Step
    from clframe.core.stream import Experience
    from clframe.rl.sac_settings import SACSettings


class SACLearner(ImitationLearner):
    """Acts, and improves critics, temperature and actor in turn.

    Args:
        *arguments: The arguments of :class:`clframe.Learner`.
        settings: The config group ``learner``.
    """

    model: SquashedGaussian

    def __init__(self, *arguments: Any, settings: SACSettings) -> None:
        model, stream, plugins, engine, *rest = arguments
        joint = any("joint training" in plugin.roles for plugin in plugins)
        for plugin in plugins:
            if "training data" in plugin.roles and "joint training" not in plugin.roles:
                raise PluginError(
                    f"plugin '{plugin.name}' chooses an experience's training samples, but "
                    "learner=sac has none before it acts; choose another strategy, such as "
                    "multitask"
                )
        body = model.body
        if settings.critic_hidden is not None:
            body = Body(tuple(settings.critic_hidden), body.layer_norm, body.activation)
        critics = Critics(math.prod(stream.input_shape), model.n_actions, body, model.n_tasks)
        inputs = inputs_of(stream.tasks[0])
        transitions = Transitions(
            settings.rows(len(stream), joint),
            (inputs.window, inputs.state_size),
            model.n_actions,
            0 if joint else min(settings.memory, settings.steps * (len(stream) - 1)),
        )
        interaction = Interaction(settings.pace, transitions, settings.num_envs, settings.overlap)
        super().__init__(model, stream, [*plugins, interaction], engine, *rest)
        self.settings = settings
        self.interaction = interaction
        self.joint = joint
        """Whether all tasks are learned in the first experience."""
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
            "temperature": torch.optim.Adam(
                [self.log_temperature], self.settings.temperature_lr, fused=True
            ),
        }

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the actor's optimizer; the others belong to the learner."""
        return self.make_optimizer([p for p in self.model.parameters() if p.requires_grad])

    def begin(self, experience: Experience) -> None:
        """Start an experience, and reset what the settings name."""
        super().begin(experience)
        if self.joint and self.seen:
            return  # nothing more is learned
        reset = self.settings.reset if self.seen else ()
        self.interaction.begin(explores="exploration" in reset or not self.seen)
        if "buffer" in reset:
            self.interaction.transitions.clear(self.generator)
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
        """Return actions sampled from the policy."""
        return self.model.draw(self.run_model(x, task)[0], self._noise(len(x)))[0]

    def training_step(self, batch: Batch) -> Step:  # type: ignore[override]
        """Run an update up to the actor's loss; a batch without transitions is cloned."""
        if not isinstance(batch, TransitionBatch):
            return super().training_step(batch)
        step = self.run_parts(hooks.extra_batches(self, batch))
        outputs = step.outputs[0]
        batch.y = outputs.detach()  # labels for plugins that store single steps
        action, log_density = self.model.draw(outputs, self._noise(len(batch)))
        temperature = self.log_temperature.detach().exp()[batch.task]
        self._step("temperature", self.temperature_loss(log_density.detach(), batch.task))
        self._update_critics(batch, temperature)
        with torch.no_grad():
            torch._foreach_lerp_(self.targets.stack, self.critics.stack, self.settings.tau)

        # Uses its argument: a batch that refers to itself would wait for the garbage collector.
        def loss(_: Any, part: Any) -> Tensor:
            return self.actor_loss(part, action, log_density, temperature)

        batch.loss = loss
        self.loss_of(step)
        self._log("sac/temperature", temperature.mean())
        self._log("sac/entropy", -log_density.detach().mean())
        return step

    @torch.no_grad()
    def temperature_loss(self, log_density: Tensor, task: Tensor) -> Tensor:
        """Return ``-log alpha * (log pi + target)``, which pulls each task's entropy to the target.

        It is linear in ``log alpha``, so its gradient is set here directly.
        """
        slope = torch.zeros_like(self.log_temperature)
        slope.index_add_(0, task, log_density + self.target_entropy, alpha=-1 / len(task))
        self.log_temperature.grad = slope
        return self.log_temperature @ slope

    def critic_loss(self, batch: TransitionBatch, temperature: Tensor, noise: Tensor) -> Tensor:
        """Return half the squared distance of both values from the target, mean over samples."""
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
        """Return ``alpha log pi - min Q`` of the current policy's actions."""
        values = self.critics(batch.x, action, fixed=True).amin(0)
        loss: Tensor = (temperature * log_density - values).mean()
        return loss

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """Return the loss of cloning an earlier policy on its samples."""
        return self.settings.cloning * super().task_loss(outputs, batch)

    def _update_critics(self, batch: TransitionBatch, temperature: Tensor) -> None:
        noise, ranks = self._noise(len(batch)), cast(Any, self.engine.ranks)
        if ranks is None:
            loss = self.critic_loss(batch, temperature, noise)
            loss.backward()
        else:
            rows = ranks.share(torch.arange(len(batch), device=noise.device))
            loss = self.critic_loss(batch.rows(rows), temperature[rows], noise[rows])
            # The mean over ranks is the loss of the whole batch.
            loss = loss * (len(rows) * ranks.size / len(batch))
            loss.backward()
            loss = loss.detach() / ranks.size
            ranks.sum({"loss": loss})
            ranks.average_gradients(self.critics.stack)
        self._step("critics", loss)

    def _step(self, name: str, loss: Tensor) -> None:
        """Step one of the learner's own optimizers, whose gradients are set."""
        optimizer = self.interaction.optimizers[name]
        optimizer.step()
        # Cleared, because others look at all gradients of the learner.
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad = None
        self._log(f"sac/{name}_loss", loss.detach())

    def _log(self, name: str, value: Tensor) -> None:
        each = self.engine.logging.log_every_n_steps is not None
        self.log(name, value, on_step=each, on_epoch=True)

    # ------------------------------------------------------------ a task has been learned

    @torch.no_grad()
    def data_for_plugins(self, experience: Experience, data: Data) -> Data:
        """Return the visited states with the policy's outputs as labels."""
        if not isinstance(data, LiveData):
            return data
        visited = self.interaction.visited(data.task, self.settings.remember)
        visited = visited.to(self.engine.device)
        rows = [
            torch.cat(self.model.gaussian(self.run_model(batch.x, batch.task)[0]), 1)
            for batch in visited.batches(
                torch.arange(len(visited)), self.engine.evaluation.eval_batch_size
            )
        ]
        visited.labels = torch.cat(rows)
        return visited
