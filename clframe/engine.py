"""Lightning Fabric as we use it: device, precision and ranks for one learner.

The settings bear Lightning's own names. Nothing else in the package chooses a device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from clframe.errors import SettingError
from clframe.loop import Budget
from clframe.settings import at_least

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from clframe.data import Batch
    from clframe.learner import Learner, Step


@dataclass(frozen=True)
class TrainerSettings:
    """How to train: the config group ``trainer``.

    Args:
        accelerator: Lightning's name for the hardware; ``auto`` takes what is there.
        devices: How many of them, or which.
        num_nodes: Machines.
        strategy: Lightning's name for how ranks work together.
        precision: Lightning's name for the precision.
        max_epochs: Per experience; None for no limit other than ``max_steps``.
        max_steps: Optimiser steps per experience; None for no limit other than ``max_epochs``.
        limit_train_batches: Batches per epoch at most; None for all.
        batch_size: Samples of the current experience per step.
        drop_last: Leave out an epoch's last batch when it is smaller.
        eval_batch_size: Samples per evaluation batch.
        gradient_clip_val: Clip the gradient's norm to this; None for no clipping.
        reset_optimizer: Start each experience with a fresh optimiser.
        check_val_every_n_epoch: Evaluate the current tasks every n epochs; None for never.
    """

    accelerator: str = "auto"
    devices: int | str | list[int] = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    max_epochs: int | None = None
    max_steps: int | None = None
    limit_train_batches: int | None = None
    batch_size: int = 128
    drop_last: bool = False
    eval_batch_size: int = 1024
    gradient_clip_val: float | None = None
    reset_optimizer: bool = False
    check_val_every_n_epoch: int | None = None

    def __post_init__(self) -> None:
        for name, bound in (
            ("max_epochs", 0),
            ("max_steps", 0),
            ("limit_train_batches", 1),
            ("batch_size", 1),
            ("eval_batch_size", 1),
            ("gradient_clip_val", 0),
            ("num_nodes", 1),
            ("check_val_every_n_epoch", 1),
        ):
            at_least(getattr(self, name), bound, f"trainer.{name}")

    @property
    def budget(self) -> Budget:
        """How long to train on one experience; one epoch if nothing is said."""
        epochs = 1 if self.max_epochs is None and self.max_steps is None else self.max_epochs
        return Budget(
            epochs=epochs,
            steps=self.max_steps,
            batch_size=self.batch_size,
            drop_last=self.drop_last,
            batches_per_epoch=self.limit_train_batches,
        )


class Engine:
    """Fabric set up for one learner.

    Args:
        settings: The config group ``trainer``.
    """

    def __init__(self, settings: TrainerSettings | None = None) -> None:
        from lightning.fabric import Fabric

        self.settings = settings or TrainerSettings()
        try:
            self.fabric: Fabric = Fabric(
                accelerator=self.settings.accelerator,
                devices=self.settings.devices,
                num_nodes=self.settings.num_nodes,
                strategy=self.settings.strategy,
                precision=self.settings.precision,  # type: ignore[arg-type]
            )
        except (ValueError, RuntimeError, ImportError, TypeError) as error:
            # Fabric's own classes of error; its first sentence names the setting.
            raise SettingError(f"trainer: {str(error).splitlines()[0]}") from error
        if self.fabric.world_size > 1:
            raise SettingError(
                f"trainer.devices={self.settings.devices} with trainer.num_nodes="
                f"{self.settings.num_nodes} asks for {self.fabric.world_size} processes; this "
                "version trains in one process: set trainer.devices=1 trainer.num_nodes=1"
            )
        self.fabric.launch()
        self._plain = self.settings.precision in ("32-true", "32", "64-true", "64")
        self._step: Callable[[Batch], Step] | None = None

    @property
    def device(self) -> torch.device:
        """Where the learner and its data live."""
        return self.fabric.device

    def attach(self, learner: Learner) -> None:
        """Put the learner on its device and make its optimiser."""
        optimizer = learner.configure_optimizers()
        wrapped, wrapped_optimizer = self.fabric.setup(learner, optimizer)
        wrapped.mark_forward_method("training_step")
        learner.optimizer = wrapped_optimizer
        # With one process the learner's own method is called; going through the wrapper is only
        # needed where gradients are exchanged between ranks.
        self._step = wrapped.training_step if self.fabric.world_size > 1 else learner.training_step
        learner.generator = torch.Generator(device=self.device)
        learner.generator.manual_seed(learner.seed)

    def renew_optimizer(self, learner: Learner) -> None:
        """Replace the optimiser by a fresh one."""
        fresh = self.fabric.setup_optimizers(learner.configure_optimizers())
        learner.optimizer = cast(torch.optim.Optimizer, fresh)

    def run_step(self, batch: Batch) -> Step:
        """Forward pass and loss in the chosen precision."""
        assert self._step is not None
        if self._plain:
            return self._step(batch)
        with self.fabric.autocast():
            return self._step(batch)

    def backward(self, loss: Tensor) -> None:
        """Backward pass in the chosen precision."""
        self.fabric.backward(loss)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The chosen precision for code outside the training step."""
        return contextlib.nullcontext() if self._plain else self.fabric.autocast()
