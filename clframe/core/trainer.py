"""How to train: the config group ``trainer``, under Lightning's own names."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from clframe.data import storage
from clframe.errors import SettingError, nearest
from clframe.utils.setting_checks import at_least

PRECISIONS = ("32-true", "32", "bf16-mixed", "16-mixed")
DEFAULT_EPOCHS = 10
"""Per experience, where neither the user nor the stream says how long to train."""


@dataclass(frozen=True)
class Budget:
    """How long and in what portions to train.

    Args:
        epochs: Passes over the data; None for no limit.
        steps: Optimizer steps; None for no limit.
        batch_size: Samples per step.
        drop_last: Leave out an epoch's last batch when it is smaller.
        batches_per_epoch: Batches per epoch at most; None for all.
        shuffle: Draw a random order of samples for each epoch, or use the order of the data.

    Example:
        >>> Budget(epochs=None, steps=100, batch_size=32).steps
        100
    """

    epochs: int | None = 1
    steps: int | None = None
    batch_size: int = 128
    drop_last: bool = False
    batches_per_epoch: int | None = None
    shuffle: bool = True

    def times(self, factor: int) -> Budget:
        """Multiply the steps. Epochs stay, because they grow with the data."""
        return dataclasses.replace(self, steps=None if self.steps is None else self.steps * factor)


@dataclass(frozen=True)
class TrainerSettings:
    """How to train: the config group ``trainer``.

    Args:
        accelerator: Lightning's name for the hardware; ``auto`` takes what is there.
        devices: How many of them, or which.
        num_nodes: Machines.
        strategy: Lightning's name for how ranks work together.
        precision: Lightning's name for the precision: 32-true, bf16-mixed or 16-mixed. Weights and
            what plugins keep are in 32 bits in any case.
        max_epochs: Per experience; None for no limit other than ``max_steps``. Where neither is
            given, 10.
        max_steps: Optimizer steps per experience; None for no limit other than ``max_epochs``.
        passes: 1 learns online: every sample is seen once, in the order that the stream gives; None
            goes by ``max_epochs`` and ``max_steps``.
        shuffle: Draw a random order of an experience's samples for each epoch. None does so
            unless ``passes=1``.
        step_cost: Online, the stream does not wait: batches that it gives while one is learned, so
            that with 2 every other batch is missed (Ghunaim et al., "Real-Time Evaluation in Online
            Continual Learning", 2023). It is the cost of the method's step, counted in passes
            through the model and not in seconds, relative to what the stream leaves time for.
            None waits for the learner.
        limit_train_batches: Batches per epoch at most; None for all.
        experience_order: Learn the stream's experiences in this order, each by its number from 0 or
            its name; None learns them as they come. Columns of the matrix follow; tasks, outputs
            and data stay what they are, so that orders that begin alike learn the same bits.
        batch_size: Samples of the current experience per step, over all processes together.
        drop_last: Leave out an epoch's last batch when it is smaller.
        gradient_clip_val: Clip the gradient to this; None for no clipping.
        gradient_clip_algorithm: Whether the ``norm`` of all gradients together is clipped, or each
            ``value`` by itself.
        reset_optimizer: Start each experience with a fresh optimizer.
        on_nan: When the loss is not finite, ``stop`` with a sentence that says where and whose term
            it was (no checkpoint is taken of such a run), or ``ignore`` it.
        augment: Random changes of the training images, such as ``[flip, {crop: {padding: 4}}]``;
            see :mod:`clframe.data.augment`.
        device_memory: How much data may be on the device, such as 8GB; what does not fit is sent
            over batch by batch. None is half of what is free. On the CPU: mapped files up to
            this size are read into memory, None leaves them mapped.
        compile: Compile the model's pass with ``torch.compile``; the first steps wait for it.
        channels_last: Keep convolutions' weights with channels last, which many devices prefer.
        cuda_graphs: Replay the model's pass as CUDA graphs (compiles it as well).
        batched: Train by the products that serve several seeds at once, as every run of ``seeds=``
            does; so one of them is continued, or repeated by itself, with the same bits.
        deterministic: Take only algorithms that give the same bits each time, which on a GPU is not
            the default; an operation that has none stops the run (docs/gpu.md).
    """

    accelerator: str = "auto"
    devices: int | str | list[int] = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    max_epochs: int | None = None
    max_steps: int | None = None
    passes: int | None = None
    shuffle: bool | None = None
    step_cost: float | None = None
    limit_train_batches: int | None = None
    experience_order: tuple[Any, ...] | None = None
    batch_size: int = 128
    drop_last: bool = False
    gradient_clip_val: float | None = None
    gradient_clip_algorithm: Literal["norm", "value"] = "norm"
    reset_optimizer: bool = False
    on_nan: Literal["stop", "ignore"] = "stop"
    augment: tuple[Any, ...] = ()
    device_memory: int | str | None = None
    compile: bool = False
    channels_last: bool = False
    cuda_graphs: bool = False
    batched: bool = False
    deterministic: bool = False

    def __post_init__(self) -> None:
        for name, bound in (
            ("max_epochs", 0),
            ("max_steps", 0),
            ("limit_train_batches", 1),
            ("batch_size", 1),
            ("gradient_clip_val", 0),
            ("step_cost", 1),
            ("num_nodes", 1),
        ):
            at_least(getattr(self, name), bound, f"trainer.{name}")
        if self.passes is not None:
            self._check_passes()
            object.__setattr__(self, "max_epochs", 1)
        elif self.step_cost is not None:
            raise SettingError(
                f"trainer.step_cost={self.step_cost} is for a stream that does not wait, which "
                "shows each sample once at most: set trainer.passes=1 too"
            )
        if self.max_epochs is None and self.max_steps is None:
            object.__setattr__(self, "max_epochs", DEFAULT_EPOCHS)
        storage.bytes_of(self.device_memory, "trainer.device_memory")
        if self.precision not in PRECISIONS:
            raise SettingError(
                "trainer.precision must be 32-true, bf16-mixed or 16-mixed, "
                f"got {self.precision!r}; {nearest(self.precision, PRECISIONS)}"
            )

    def _check_passes(self) -> None:
        """Refuse what contradicts that every sample is seen once."""
        if self.passes != 1:
            raise SettingError(
                f"trainer.passes must be 1 (every sample is seen once) or null, got {self.passes}; "
                "for more passes set trainer.max_epochs"
            )
        if self.max_epochs not in (None, 1):
            raise SettingError(
                "trainer.passes=1 shows every sample once, but trainer.max_epochs="
                f"{self.max_epochs} says otherwise: leave one of them out"
            )
        for name in ("max_steps", "limit_train_batches", "drop_last"):
            value = getattr(self, name)
            if value is not None and value is not False:
                raise SettingError(
                    f"trainer.passes=1 shows every sample once, but trainer.{name}={value} leaves "
                    "some out: leave one of them out"
                )

    @property
    def budget(self) -> Budget:
        """How long to train on one experience."""
        return Budget(
            epochs=self.max_epochs,
            steps=self.max_steps,
            batch_size=self.batch_size,
            drop_last=self.drop_last,
            batches_per_epoch=self.limit_train_batches,
            shuffle=self.passes is None if self.shuffle is None else self.shuffle,
        )
