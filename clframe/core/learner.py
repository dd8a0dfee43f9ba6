"""The learner: model, loss and optimizer, with the plugins that act on them.

``Learner`` is a ``LightningModule`` for classification. A classifier with another loss overrides
:meth:`Learner.task_loss`, which is then given the competing outputs alone. Other kinds of learning
override :meth:`Learner.run_model`, too; plugins that only need parameters, gradients and losses
then work on them unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn import functional

from clframe.core import hooks
from clframe.core.losses import ActiveLogits
from clframe.core.plugin import Plugin, Plugins
from clframe.core.protocols import Policy, policy_of, split_model
from clframe.core.state import RunState
from clframe.core.step import Step
from clframe.data.dataset import Batch, Data, cat_inputs, map_inputs
from clframe.recording import step_log
from clframe.utils.overrides import check_overrides

if TYPE_CHECKING:
    from clframe.core.engine import Engine, Schedule
    from clframe.core.stream import Experience, Stream, Task
    from clframe.core.trainer import Budget

OptimizerFactory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class Learner(LightningModule):
    """A classifier whose active outputs follow the stream's scenario.

    Args:
        model: Maps inputs to one logit per output unit. If it has ``features`` and ``head``, the
            inputs of the head are kept for plugins.
        stream: What will be learned; gives scenario, tasks and output units.
        plugins: The strategy, in order.
        engine: Device, precision and processes.
        optimizer: Makes the optimizer from parameters.
        active_outputs: Class-incremental only: compete among the classes ``seen`` so far or among
            ``all`` from the start.
        seed: Of this run.

    Example:
        >>> from clframe import plugins
        >>> from clframe.testing import prepare
        >>> learner = prepare("split_mnist", [plugins.EWC()]).learner
        >>> sum(p.numel() for p in learner.parameters())
        478410
    """

    classifies: ClassVar[bool] = True
    """Whether labels are classes with a logit for each, which some methods need. A subclass that
    overrides ``run_model`` or ``mask_outputs`` does not, unless it says that it does."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_overrides(cls, [Learner], inherited=False)
        if "classifies" not in cls.__dict__ and {"run_model", "mask_outputs"} & set(cls.__dict__):
            cls.classifies = False

    def __init__(
        self,
        model: nn.Module,
        stream: Stream,
        plugins: Sequence[Plugin],
        engine: Engine,
        optimizer: OptimizerFactory | None = None,
        active_outputs: str = "seen",
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model = model
        self.stream = stream
        self.plugins = Plugins(plugins)
        self.seed = seed
        self.active_outputs = active_outputs
        self.make_optimizer = optimizer or (lambda parameters: torch.optim.Adam(parameters))
        self.optimizer: torch.optim.Optimizer | None = None
        self.schedule: Schedule | None = None
        """Changes the learning rate; None keeps it constant."""
        self.engine = engine
        self.state = RunState.new(stream)
        """How far the run is."""
        self.pretrained: dict[str, Any] | None = None
        """The run that the model's weights come from."""
        self.forked: dict[str, Any] | None = None
        """The run whose state this run began with; see :mod:`clframe.reproduce.fork`."""
        self.step_log = step_log.StepLog()
        self.current_task: Tensor | None = None
        """The task of each sample in the current pass, for layers that are gated by task."""
        self.generator = torch.Generator()
        self.generator.manual_seed(seed)
        self._split_model = split_model(model) is not None
        units = torch.zeros(len(stream.tasks) + 1, stream.n_outputs, dtype=torch.bool)
        for task in stream.tasks:
            units[task.index, list(task.outputs)] = True
        # Task -1 finds the last row: samples without a task, with all outputs open.
        units[-1] = True
        self.register_buffer("inactive_of_task", ~units, persistent=False)
        self.register_buffer("inactive", torch.zeros(stream.n_outputs, dtype=torch.bool))
        self.inactive_of_task: Tensor
        self.inactive: Tensor
        self._any_inactive = False
        self._opened = False
        self._own_loss = self.classifies and type(self).task_loss is not Learner.task_loss
        self._active_logits: ActiveLogits | None = None

    # ------------------------------------------------------------ what others set

    def begin_run(self, stream: Stream) -> RunState:
        """Start a run over a stream and return its state, which the learner shares."""
        self.state = RunState.new(stream)
        return self.state

    def bind(self, optimizer: torch.optim.Optimizer, device: torch.device | None = None) -> None:
        """Use this optimizer. With a device, draw random numbers there, from the run's seed."""
        self.optimizer = optimizer
        if device is not None:
            self.generator = torch.Generator(device=device)
            self.generator.manual_seed(self.seed)

    def set_optimizer_factory(self, factory: OptimizerFactory) -> None:
        """Make the optimizer with this function. Call it in ``configure``."""
        self.make_optimizer = factory

    def set_schedule(self, schedule: Schedule) -> None:
        """Let a schedule change the learning rate."""
        self.schedule = schedule

    def set_origin(
        self, pretrained: dict[str, Any] | None = None, forked: dict[str, Any] | None = None
    ) -> None:
        """Record which runs the weights and the state come from."""
        self.pretrained, self.forked = pretrained, forked

    def set_task(self, task: Tensor | None) -> None:
        """Set the task of each sample in the next pass, for layers that are gated by task."""
        self.current_task = task

    def set_stream(self, stream: Stream) -> None:
        """Evaluate the tasks of this stream from now on."""
        self.stream = stream

    def set_head(self, head: nn.Module, features: nn.Module | None = None) -> None:
        """Replace the model's head, and its features if given. Call it in ``configure``."""
        self.model.head = head
        if features is not None:
            self.model.features = features

    # ------------------------------------------------------------ acting

    @property
    def policy(self) -> Policy:
        """How the model acts; see :class:`clframe.Policy`."""
        return policy_of(self.model)

    @property
    def acts(self) -> Mapping[str, Any]:
        """How the learner acts in environments, for the results; empty if it does not."""
        return {}

    @property
    def squared_error(self) -> bool:
        """Whether outputs are actions that are learned by their squared error."""
        return False

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the actions that outputs stand for."""
        return self.policy.action_of(outputs, generator)

    def possible(self, outputs: Tensor, x: Any) -> Tensor:
        """Return the outputs, with the lowest number for choices that inputs rule out."""
        return outputs

    # ------------------------------------------------------------ how far the run is

    def begin(self, experience: Experience) -> None:
        """Make an experience the current one."""
        self.state.experience, self.state.epoch = experience, 0
        self.activate(experience)
        if self.engine.settings.reset_optimizer and self.seen:
            self.engine.renew_optimizer(self)

    @property
    def experience(self) -> Experience | None:
        """The experience that is being learned, or was learned last."""
        return self.state.experience

    @property
    def seen(self) -> list[Experience]:
        """The experiences learned so far, in order."""
        return self.state.seen

    @property
    def epoch(self) -> int:
        """The epoch of the current experience."""
        return self.state.epoch

    @property
    def global_steps(self) -> int:
        """Optimizer steps so far."""
        return self.state.global_steps

    @property
    def global_step(self) -> int:
        """Optimizer steps so far, those of the current epoch too; Lightning's name."""
        loop = self.state.loop
        return self.global_steps + (0 if loop is None else loop.steps)

    @property
    def current_epoch(self) -> int:
        """The epoch of the current experience; Lightning's name."""
        return self.state.epoch

    @property
    def samples(self) -> int:
        """Samples learned so far."""
        return self.state.samples

    @property
    def curves(self) -> dict[str, dict[str, list[float]]]:
        """Per experience and task, the values measured during training."""
        return self.state.curves

    @property
    def has_next_experience(self) -> bool:
        """Whether another experience follows; if not, nothing has to be prepared for it."""
        return self.experience is not self.stream.experiences[-1]

    # ------------------------------------------------------------ logging

    def log(self, name: str, value: Any, **arguments: Any) -> None:  # type: ignore[override]
        """Send a number to every logger of the run, at the current step.

        Within a step the value is kept as it is, on its device, and read together with others
        later, so that no step waits for it. ``logging.log_every_n_steps`` thins such values out.

        Args:
            name: What loggers call it, such as ``my_plugin/norm``.
            value: A number or a tensor with one element.
            **arguments: Lightning's: ``on_step`` (the value itself, the default), ``on_epoch`` (one
                number at the epoch's end; with both, ``_step`` and ``_epoch`` are added to the
                name), ``reduce_fx`` (how: mean, sum, min or max), ``batch_size`` (the weight in a
                mean). What cannot be done, such as ``prog_bar=True``, is refused.

        Raises:
            PluginError: It is not one number, or an argument cannot be honored.
        """
        step_log.log(self, name, value, arguments)

    def log_dict(self, dictionary: Mapping[str, Any], **arguments: Any) -> None:  # type: ignore[override]
        """Send several numbers to every logger of the run; see :meth:`log`."""
        for name, value in dictionary.items():
            step_log.log(self, name, value, arguments)

    def log_media(self, name: str, value: Any, caption: str = "") -> None:
        """Send an image, a video, a table or a text to every logger that accepts media.

        The file is kept below ``media/`` in the run folder. Loggers that accept only numbers skip
        media and warn once.

        Args:
            name: What loggers call it, such as ``my_plugin/prototypes``.
            value: An image (array, tensor, PIL's, matplotlib's), a video (array with time first, or
                the ``Path`` of a GIF or MP4), a ``clframe.Table``, a ``clframe.Heatmap`` or a text;
                see :mod:`clframe.recording.media`.
            caption: A line below it.

        Raises:
            PluginError: It is none of these.
        """
        step_log.log_media(self, name, value, caption)

    # ------------------------------------------------------------ active outputs

    def activate(self, experience: Experience) -> None:
        """Open the outputs of an experience (class-incremental, ``active_outputs=seen``)."""
        if self.stream.scenario != "class" or self.active_outputs == "all":
            return
        if not self._opened:
            self.inactive.fill_(True)
            self._opened = True
        self.inactive[list(experience.outputs)] = False
        self._active_logits = None
        self._any_inactive = bool(self.inactive.any())

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state: weights and active outputs."""
        self.load_state_dict(state)
        self._opened = self._opened or bool(self.seen)
        self._active_logits = None
        self._any_inactive = bool(self.inactive.any())

    def mask_outputs(self, logits: Tensor, task: Tensor) -> Tensor:
        """Mask the outputs that do not compete: another task's, or classes not seen yet."""
        if self.stream.scenario == "task":
            return logits.masked_fill(self.inactive_of_task[task], torch.finfo(logits.dtype).min)
        if self._any_inactive:
            return logits.masked_fill(self.inactive, torch.finfo(logits.dtype).min)
        return logits

    # ------------------------------------------------------------ model and loss

    def run_model(self, x: Any, task: Tensor) -> tuple[Tensor, Tensor | None]:
        """Masked logits and, where the model tells them apart, the head's inputs."""
        self.current_task = task
        if self._split_model:
            features = self.model.features(x)  # type: ignore[operator]
            return self.mask_outputs(self.model.head(features), task), features  # type: ignore[operator]
        return self.mask_outputs(self.model(x), task), None

    def predict(self, x: Any, task: Task) -> Tensor:
        """A score for every output and sample of a task: core's answer to the hook of the name."""
        first = next(iter(x.values())) if isinstance(x, dict) else x
        of_task = torch.full((len(first),), task.index, dtype=torch.long, device=first.device)
        return self(x, of_task)  # type: ignore[no-any-return]

    def forward(self, x: Any, task: Tensor | Task) -> Tensor:
        """Logits of the outputs that compete for each sample's task.

        Args:
            x: Inputs.
            task: The index of each sample's task, as in ``batch.task``; or the one task of all, as
                the hook ``predict`` is given it.
        """
        if not isinstance(task, Tensor):
            return Learner.predict(self, x, task)
        return self.run_model(x, task)[0]

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """Cross-entropy of the active outputs, mean over samples.

        Override it for another loss; call :meth:`label_loss`. A classifier's override is given the
        outputs that compete and no others, with ``batch.y`` counted among them, so that any loss of
        logits can be used.
        """
        return functional.cross_entropy(outputs, batch.y)

    def label_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """Return the task loss of a batch, from the outputs of :meth:`run_model`."""
        if not self._own_loss or not (self.stream.scenario == "task" or self._any_inactive):
            return self.task_loss(outputs, batch)
        loss: Tensor | None = None
        for logits, labels, rows in self.active_logits(outputs, batch):
            n = len(batch) if rows is None else len(rows)
            task = batch.task if rows is None else batch.task[rows]
            x = batch.x if rows is None or batch.x is None else map_inputs(_take(rows), batch.x)
            of_rows = self.task_loss(logits, Batch(x, labels, task)) * (n / len(batch))
            loss = of_rows if loss is None else loss + of_rows
        assert loss is not None
        return loss

    def active_logits(
        self, outputs: Tensor, batch: Batch
    ) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        """The outputs that compete, without the masked ones, and labels counted among them.

        One entry of all samples, with None for the rows; only where tasks differ in their number
        of outputs there is one for each number, with its rows.
        """
        if self._active_logits is None:
            by_task = self.stream.scenario == "task"
            units = ~self.inactive_of_task[:-1] if by_task else ~self.inactive[None]
            self._active_logits = ActiveLogits(units)
        return self._active_logits.groups(outputs, batch.y, batch.task)

    def part_loss(self, outputs: Any, part: Batch) -> Tensor:
        """Return the loss of one part of a step: its own, if it has one, or the task loss."""
        return self.label_loss(outputs, part) if part.loss is None else part.loss(outputs, part)

    def run_parts(self, parts: list[Batch]) -> Step:
        """Put all parts through the model in one pass."""
        if self.engine.ranks is not None:
            return self.engine.ranks.run_parts(self, parts)
        if len(parts) == 1:
            outputs, features = self.run_model(parts[0].x, parts[0].task)
            return Step(parts, [outputs], [features])
        sizes = [len(part) for part in parts]
        outputs, features = self.run_model(
            cat_inputs([part.x for part in parts]), torch.cat([part.task for part in parts])
        )
        split = [None] * len(parts) if features is None else list(torch.split(features, sizes))
        return Step(parts, list(torch.split(outputs, sizes)), split)

    def training_step(self, batch: Batch) -> Step:  # type: ignore[override]
        """One step up to its loss."""
        step = self.run_parts(hooks.extra_batches(self, batch))
        self.loss_of(step)
        return step

    def loss_of(self, step: Step, of_parts: Sequence[Tensor] | None = None) -> Tensor:
        """The loss of a step: weighted mean over the parts, plus the plugins' terms.

        Args:
            step: With its outputs.
            of_parts: The loss of each part, where it has been computed already.
        """
        terms, added = hooks.penalties(self, step)
        if of_parts is None:
            of_parts = [
                self.part_loss(outputs, part)
                for part, outputs in zip(step.parts, step.outputs, strict=True)
            ]
        loss = of_parts[0]
        if len(step.parts) > 1 or step.terms:
            step.losses.append(loss.detach())
        if len(step.parts) > 1 or terms:
            total = 1.0
            for part, of_part in zip(step.parts[1:], of_parts[1:], strict=True):
                step.losses.append(of_part.detach())
                loss = loss + part.weight * of_part
                total += part.weight
            for term in terms:
                loss = loss + term.weight * term.value
                total += term.weight
            loss = loss / total
        for value in added:
            loss = loss + value
        step.loss = loss
        return loss

    # ------------------------------------------------------------ optimizer and loop

    @property
    def learning_rate(self) -> float | None:
        """The rate of the optimizer's first group of parameters; None without an optimizer."""
        groups = [] if self.optimizer is None else self.optimizer.param_groups
        return float(groups[0]["lr"]) if groups else None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimizer over everything that can be trained."""
        return self.make_optimizer([p for p in self.parameters() if p.requires_grad])

    def named_trainable(self) -> dict[str, nn.Parameter]:
        """The model's parameters that can be trained, by name; what regularizers act on."""
        return {n: p for n, p in self.model.named_parameters() if p.requires_grad}

    def data_for_plugins(self, experience: Experience, data: Data) -> Data:
        """What a learned experience leaves to plugins: its data, unless a learner made its own."""
        return data

    def train_on(self, data: Data, budget: Budget) -> None:
        """Run the training loop on this data; for plugins with phases of their own."""
        if self.experience is None:
            raise RuntimeError("train_on is called while an experience is being learned")
        self.engine.train(self, self.experience, data, budget)


def _take(rows: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor[rows]
