"""A LightningModule as the model, with its own loss, optimizer and schedule.

Its ``forward`` maps inputs to one logit per output, as in any model. Its ``training_step`` is the
loss: it is called with ``(inputs, labels)``, and its call of ``self(inputs)`` returns the logits
that compete. The model therefore runs once per step for all batches of it. Plugins handle outputs,
losses and gradients as for any other learner.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule
from torch import Tensor, nn

from clframe.core.learner import Learner
from clframe.errors import PluginError, SettingError
from clframe.training.optimizers import bare_optimizer
from clframe.utils.console import warn_user
from clframe.utils.serialization import plain_value

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from clframe.core.step import Step
    from clframe.core.stream import Stream
    from clframe.core.trainer import Budget
    from clframe.data.dataset import Batch

_INSTEAD = (
    "give only the network as model= (its optimizer as optimizer=, its own loss as "
    "Learner.task_loss)"
)
_REFUSED = (
    *("backward", "optimizer_step", "optimizer_zero_grad", "configure_gradient_clipping"),
    *("lr_scheduler_step", "configure_callbacks", "configure_model", "configure_sharded_model"),
    *("setup", "on_fit_start", "on_train_start", "on_train_end"),
    *("on_train_epoch_start", "on_train_epoch_end", "on_train_batch_start", "on_train_batch_end"),
    *("on_before_backward", "on_after_backward", "on_before_optimizer_step", "on_before_zero_grad"),
    *("on_before_batch_transfer", "on_after_batch_transfer", "transfer_batch_to_device"),
    *("on_save_checkpoint", "on_load_checkpoint"),
)
"""Hooks of a LightningModule that would change training and are not called here."""
_UNUSED = (
    *("validation_step", "test_step", "predict_step"),
    *("train_dataloader", "val_dataloader", "test_dataloader", "prepare_data"),
)
"""Methods that only measure or load data, which the stream and the evaluation do here."""
_INTERVALS = ("epoch", "step")


def has_own_step(model: object) -> bool:
    """Return whether a model is a LightningModule with its own training step.

    Raises:
        SettingError: It is one of the package pytorch_lightning, which Fabric does not support.
    """
    bases = [base for base in type(model).__mro__ if base.__name__ == "LightningModule"]
    if bases and not isinstance(model, LightningModule):
        raise SettingError(
            f"model {type(model).__name__} is a LightningModule of package "
            f"'{bases[0].__module__.split('.')[0]}': derive it from "
            "lightning.pytorch.LightningModule"
        )
    return _overrides(model, "training_step")


def brings_optimizer(model: object) -> bool:
    """Return whether a model is a LightningModule that makes its own optimizer."""
    return has_own_step(model) and _overrides(model, "configure_optimizers")


def _overrides(model: object, method: str) -> bool:
    if not isinstance(model, LightningModule):
        return False
    return getattr(type(model), method, None) is not getattr(LightningModule, method, None)


def check_module(
    module: LightningModule, stream: Stream, processes: int, own_rate: tuple[str, ...]
) -> None:
    """Raise an error for a module with features that clframe cannot use.

    Args:
        module: The model.
        stream: The stream to learn.
        processes: Number of processes of the run.
        own_rate: The settings of optimizer and scheduler that the user gave.
    """
    name = type(module).__name__
    hooks = [hook for hook in _REFUSED if _overrides(module, hook)]
    if hooks:
        raise SettingError(
            f"model {name}: its {' and '.join(hooks)} would not be called: write them as "
            f"a plugin (docs/hooks.md), or {_INSTEAD}"
        )
    if not module.automatic_optimization:
        raise SettingError(
            f"model {name} uses manual optimization (automatic_optimization=False), which leaves "
            f"no loss for plugins to act on: {_INSTEAD}"
        )
    if not _overrides(module, "forward"):
        raise SettingError(
            f"model {name} has no forward: write the pass from inputs to one logit per output as "
            f"forward, and call self(x) in training_step, or {_INSTEAD}"
        )
    if stream.learner is not None:
        raise SettingError(
            f"model {name} has a training_step, but stream '{stream.name}' is learned by "
            f"{stream.learner.__name__} with its own loss: {_INSTEAD}"
        )
    if processes > 1:
        raise SettingError(
            f"model {name}: its training_step cannot run in {processes} processes: set "
            f"trainer.devices=1, or {_INSTEAD}"
        )
    if own_rate and _overrides(module, "configure_optimizers"):
        raise SettingError(
            f"model {name} has configure_optimizers, so {' and '.join(own_rate)} would have no "
            "effect: leave out one of them"
        )
    unused = [method for method in _UNUSED if _overrides(module, method)]
    if unused:
        warn_user(
            f"model {name}: its {' and '.join(unused)} will not be called: data comes from the "
            "stream, and clframe evaluates every task"
        )


class LightningLearner(Learner):
    """Learner with the loss, optimizer and schedule of a LightningModule."""

    classifies = True

    def __init__(self, model: nn.Module, *arguments: Any) -> None:
        super().__init__(model, *arguments)
        assert isinstance(model, LightningModule)
        self._split_model = False
        self._takes = min(len(inspect.signature(model.training_step).parameters), 2)
        self._logs = False
        self._own_optimizer = brings_optimizer(model)
        if self._own_optimizer:
            self.schedule = OwnSchedule(self)
        # Plain functions, so that a copy of the model (a teacher) does not copy the learner.
        module: Any = model
        module.log = lambda name, value, *_, **settings: self._log({name: value}, settings)
        module.log_dict = lambda values, *_, **settings: self._log(values, settings)
        module._trainer = _Progress(self)

    def training_step(self, batch: Batch) -> Step:  # type: ignore[override]
        """Run one step up to its loss; the module logs values of the current batch only."""
        self._logs = True
        return super().training_step(batch)

    def task_loss(self, outputs: Any, batch: Batch) -> Tensor:
        """Return the loss of the module's training step for these outputs."""
        module: Any = self.model
        name, calls = type(module).__name__, 0

        def forward(x: Any, *arguments: Any, **keywords: Any) -> Any:
            nonlocal calls
            calls += 1
            if x is not batch.x or arguments or keywords:
                raise PluginError(
                    f"model {name}: training_step passes something other than the batch's inputs "
                    f"to self(...): do that in forward, or as trainer.augment; or {_INSTEAD}"
                )
            return outputs

        loop = self.state.loop
        number = 0 if loop is None else loop.steps
        module.forward = forward
        try:
            loss = module.training_step(*((batch.x, batch.y), number)[: self._takes])
        except _Unknown as error:
            raise PluginError(f"model {name}: training_step asks for {error}: {_INSTEAD}") from None
        finally:
            del module.forward
            self._logs = False
        if calls != 1:
            raise PluginError(
                f"model {name}: training_step calls self(x) {calls} times instead of once, so "
                f"plugins would not see its outputs: {_INSTEAD}"
            )
        loss = loss.get("loss") if isinstance(loss, dict) else loss
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise PluginError(
                f"model {name}: training_step returned {type(loss).__name__}, not a loss: return "
                "a tensor with one number, or a dict that has it as 'loss'"
            )
        return loss

    def _log(self, values: dict[str, Any], settings: dict[str, Any]) -> None:
        if self._logs:
            settings.pop("prog_bar", None)  # clframe's bar already shows the loss
            self.log_dict(values, **settings)

    def configure_optimizers(self) -> Optimizer:
        """Return the module's own optimizer, with the parameters that plugins attached."""
        if not self._own_optimizer:
            return super().configure_optimizers()
        assert isinstance(self.model, LightningModule)
        optimizer, scheduler = _read(type(self.model).__name__, self.model.configure_optimizers())
        own = {id(parameter) for parameter in self.model.parameters()}
        attached = [p for p in self.parameters() if p.requires_grad and id(p) not in own]
        if attached:
            optimizer.add_param_group({"params": attached})
        assert isinstance(self.schedule, OwnSchedule)
        self.schedule.take(scheduler)
        return optimizer


class OwnSchedule:
    """Learning rate of a module's own scheduler; see :mod:`clframe.core.engine`.

    It continues from experience to experience, as its optimizer does. With
    ``trainer.reset_optimizer`` both start again.
    """

    follows_loss = False

    def __init__(self, learner: LightningLearner) -> None:
        self.learner = learner
        self.lr = 0.0
        self._scheduler: Any = None
        self._interval, self._frequency, self._count = "epoch", 1, 0

    def take(self, scheduler: dict[str, Any] | None) -> None:
        """Follow the scheduler of a new optimizer."""
        self._count, self._scheduler = 0, None
        if scheduler is not None:
            self._scheduler = scheduler["scheduler"]
            self._interval = scheduler.get("interval", "epoch")
            self._frequency = scheduler.get("frequency", 1)

    def begin(self, n: int, budget: Budget) -> None:
        """Do nothing: the schedule continues."""

    def begin_epoch(self) -> None:
        """Do nothing: the optimizer has its rate."""

    def after_step(self) -> None:
        """Note the step's rate, and move it if the schedule counts steps."""
        self.lr = bare_optimizer(self.learner).param_groups[0]["lr"]
        self._move("step")

    def after_epoch(self, loss: float) -> None:
        """Move the rate if the schedule counts epochs."""
        self._move("epoch")

    def _move(self, interval: str) -> None:
        if self._scheduler is not None and interval == self._interval:
            self._count += 1
            if self._count % self._frequency == 0:
                self._scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the scheduler's state."""
        inner = {} if self._scheduler is None else plain_value(self._scheduler.state_dict())
        return {"lr": self.lr, "count": self._count, "scheduler": inner}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the scheduler's state."""
        self.lr, self._count = state["lr"], state["count"]
        if self._scheduler is not None:
            self._scheduler.load_state_dict(dict(state["scheduler"]))


class _Unknown(Exception):
    """The module asked for an attribute of a trainer that does not exist here."""


class _Progress:
    """The trainer that a module sees: only the progress of the run."""

    def __init__(self, learner: LightningLearner) -> None:
        self._learner = learner

    @property
    def global_step(self) -> int:
        return self._learner.global_step

    @property
    def current_epoch(self) -> int:
        return self._learner.current_epoch

    @property
    def max_epochs(self) -> int | None:
        return self._learner.engine.settings.max_epochs

    @property
    def max_steps(self) -> int | None:
        return self._learner.engine.settings.max_steps

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _Unknown(f"trainer.{name}, which does not exist here")


def _read(name: str, made: Any) -> tuple[Optimizer, dict[str, Any] | None]:
    """Return one optimizer and at most one scheduler from ``configure_optimizers``' result."""
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

    whole = f"model {name}: configure_optimizers returned"
    schedulers: Any = []
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], list | tuple):
        made, schedulers = made
    if isinstance(made, list | tuple) and len(made) == 1:
        made = made[0]
    if isinstance(made, dict):
        schedulers = [made["lr_scheduler"]] if made.get("lr_scheduler") is not None else []
        made = made.get("optimizer")
    if not isinstance(made, Optimizer):
        returned = f"{len(made)} optimizers" if isinstance(made, list | tuple) else repr(made)
        raise SettingError(f"{whole} {returned}, but there must be one optimizer: {_INSTEAD}")
    if not schedulers:
        return made, None
    if len(schedulers) > 1:
        raise SettingError(f"{whole} {len(schedulers)} schedulers, but there can be only one")
    chosen = schedulers[0] if isinstance(schedulers[0], dict) else {"scheduler": schedulers[0]}
    scheduler = chosen.get("scheduler")
    if isinstance(scheduler, ReduceLROnPlateau) or not isinstance(scheduler, LRScheduler):
        raise SettingError(
            f"{whole} a {type(scheduler).__name__}, which follows a monitored value: leave it out "
            "with the optimizer and set scheduler=ReduceLROnPlateau, which follows the loss"
        )
    if chosen.get("interval", "epoch") not in _INTERVALS:
        raise SettingError(f"{whole} interval={chosen['interval']!r}: it must be epoch or step")
    return made, chosen
