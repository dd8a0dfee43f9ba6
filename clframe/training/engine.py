"""Lightning Fabric for one learner: device, precision and ranks.

The settings have Lightning's own names. Nothing else in the package chooses a device.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor

from clframe.core.trainer import TrainerSettings
from clframe.data import storage
from clframe.distributed import launch
from clframe.distributed.batchnorm import sync_batchnorm
from clframe.distributed.ranks import Ranks
from clframe.errors import SettingError
from clframe.evaluation.evaluation_settings import EvaluationSettings
from clframe.recording.logging_settings import LoggingSettings
from clframe.training.compile import apply_options, check_options
from clframe.training.loop import FitRequest, run_epochs

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from clframe.core.learner import Learner
    from clframe.core.stream import Experience
    from clframe.core.trainer import Budget
    from clframe.data.dataset import Batch, Data

ONE_PROCESS = {"devices": 1, "num_nodes": 1, "strategy": "auto"}
"""Settings of a run that is only read, for any number of processes that made it."""

T = TypeVar("T")


class Engine:
    """Fabric set up for one learner.

    Args:
        settings: The config group ``trainer``.
        evaluation: The config group ``evaluation``.
        logging: The config group ``logging``.
    """

    def __init__(
        self,
        settings: TrainerSettings | None = None,
        evaluation: EvaluationSettings | None = None,
        logging: LoggingSettings | None = None,
    ) -> None:
        from lightning.fabric import Fabric

        self.settings = settings or TrainerSettings()
        self.evaluation = evaluation or EvaluationSettings()
        self.logging = logging or LoggingSettings()
        self.ranks: Ranks | None = None
        """The processes of this run; None for a single process."""
        try:
            with warnings.catch_warnings():
                # An error below reports this.
                warnings.filterwarnings("ignore", ".*AMP with fp16 is not supported on CPU")
                self.fabric: Fabric = Fabric(
                    accelerator=self.settings.accelerator,
                    devices=self.settings.devices,
                    num_nodes=self.settings.num_nodes,
                    strategy=self.settings.strategy,
                    precision=self.settings.precision,  # type: ignore[arg-type]
                )
        except (ValueError, RuntimeError, ImportError, TypeError) as error:
            # Fabric has its own error classes; the first sentence names the setting.
            raise SettingError(f"trainer: {str(error).splitlines()[0]}") from error
        if self.settings.precision == "16-mixed" and self.device.type == "cpu":
            raise SettingError(
                "trainer.precision=16-mixed needs a GPU: on the CPU use "
                "trainer.precision=bf16-mixed"
            )
        if self.settings.deterministic:
            # cuBLAS reads this setting when it is first used.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.benchmark = False
        self._check_processes()
        check_options(self.settings, self.device, self.world_size)
        self._plain = self.settings.precision in ("32-true", "32")
        self._finish_gradients: Callable[[], None] | None = None

    def _check_processes(self) -> None:
        """Raise an error for a number of processes or a launcher that cannot work."""
        setting = f"trainer.devices={self.settings.devices}"
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if self.world_size == 1:
            if started > 1 and "TORCHELASTIC_RUN_ID" in os.environ:
                raise SettingError(
                    f"torchrun started {started} processes, but {setting} asks for one: set "
                    "trainer.devices to the processes of a machine and trainer.num_nodes to the "
                    "number of machines"
                )
            return
        from lightning.fabric.strategies.ddp import DDPStrategy

        strategy = self.fabric.strategy
        if not isinstance(strategy, DDPStrategy) or strategy._start_method != "popen":
            raise SettingError(
                f"trainer.strategy={self.settings.strategy} cannot be used with several "
                "processes: set trainer.strategy=ddp"
            )
        cores = os.cpu_count() or 1
        if self.device.type == "cpu" and strategy.num_processes > cores:
            raise SettingError(
                f"{setting} asks for {strategy.num_processes} processes on a machine with {cores} "
                f"CPU cores: set trainer.devices to {cores} at most"
            )

    @property
    def world_size(self) -> int:
        """Number of processes of this run."""
        return self.fabric.world_size

    @property
    def is_global_zero(self) -> bool:
        """Whether this is the main process, which writes and prints."""
        return self.ranks is None or self.ranks.rank == 0

    def launch(self) -> None:
        """Start the other processes of the run, if there are any, and connect to them."""
        if self.world_size == 1:
            self.fabric.launch()
            return
        launch.join(self.fabric)
        self.ranks = Ranks(self.fabric.global_rank, self.world_size, self.device)

    @property
    def device(self) -> torch.device:
        """Device of the learner and its data."""
        return self.fabric.device

    def bind(self, learner: Learner) -> None:
        """Move the learner to the device and make its optimizer."""
        if not torch.cuda.is_available():
            # Lightning makes torch look for GPUs through the driver's own library. On a machine
            # without that library, every optimizer step would search the system for it.
            os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
        size = self.settings.device_memory
        storage.set_budget(self.device, storage.bytes_of(size, "trainer.device_memory"))
        apply_options(learner.model, self.settings)
        optimizer = learner.configure_optimizers()
        if self.ranks is None:
            _, wrapped = self.fabric.setup(learner, optimizer)
        else:
            # Not DDP's wrapper: it does not allow freezing parameters during training, and its
            # gradient is a mean of means. See clframe/distributed/ranks.py.
            self.fabric.to_device(learner)
            wrapped = self.fabric.setup_optimizers(optimizer)
            sync_batchnorm(learner, self.ranks)
        learner.bind(cast(Any, wrapped), self.device)
        self._finish_gradients = self._gradient_finisher(learner)

    def renew_optimizer(self, learner: Learner) -> None:
        """Replace the optimizer with a fresh one."""
        fresh = self.fabric.setup_optimizers(learner.configure_optimizers())
        learner.bind(cast(torch.optim.Optimizer, fresh))

    def precision_state(self) -> dict[str, Any]:
        """Return the state of the precision (the gradient scaler of 16-mixed)."""
        return dict(self.fabric.strategy.precision.state_dict())

    def load_precision_state(self, state: dict[str, Any]) -> None:
        """Restore the result of :meth:`precision_state`."""
        self.fabric.strategy.precision.load_state_dict(state)

    def backward(self, loss: Tensor) -> None:
        """Run the backward pass in the chosen precision; gradients are then ready for plugins."""
        self.fabric.backward(loss)
        if self._finish_gradients is not None:
            self._finish_gradients()

    def _gradient_finisher(self, learner: Learner) -> Callable[[], None] | None:
        """Return what must happen to gradients after a backward pass, or None."""
        scaler = getattr(self.fabric.strategy.precision, "scaler", None)
        ranks = self.ranks
        if scaler is None and ranks is None:
            return None
        parameters = list(learner.parameters())

        def finish() -> None:
            if ranks is not None:
                ranks.average_gradients(parameters)
            if scaler is not None:
                scaler.unscale_(cast(Any, learner.optimizer).optimizer)
                gradients = [p.grad for p in parameters if p.grad is not None]
                # One check for all of them, because each check waits for a GPU.
                finite = [torch.isfinite(g).all() for g in gradients]
                if finite and not bool(torch.stack(finite).all()):
                    # The scaler will skip this step. Plugins that add up gradients must not see
                    # values that are not finite.
                    torch._foreach_zero_(gradients)

        return finish

    def batches(self, data: Data, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Return the global batches of an epoch in this order."""
        if self.ranks is None:
            return data.batches(order, batch_size)
        return self.ranks.batches(data, order, batch_size)

    def share(self, order: Tensor) -> Tensor:
        """Return this process's share of an order, for work whose results are added up."""
        return order if self.ranks is None else self.ranks.share(order)

    def sum(self, tensors: Mapping[str, Tensor]) -> None:
        """Add up the processes' tensors under each name, in place."""
        if self.ranks is not None:
            self.ranks.sum(tensors)

    def broadcast(self, value: T) -> T:
        """Return the main process's value."""
        return value if self.ranks is None else self.ranks.broadcast(value)

    def check_in_sync(self, learner: Learner) -> None:
        """Check that all processes hold the same state."""
        if self.ranks is not None:
            self.ranks.check_in_sync(learner)

    def train(self, learner: Learner, experience: Experience, data: Data, budget: Budget) -> None:
        """Run the training loop."""
        run_epochs([FitRequest(learner, experience, data, budget)])

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Run a pass of the model in the chosen precision."""
        return contextlib.nullcontext() if self._plain else self.fabric.autocast()
