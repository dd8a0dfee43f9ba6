"""Sends the numbers of a run to its Lightning loggers."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl
from clframe.utils.console import notice

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.step_log import StepLog
    from clframe.core.stream import Experience

_FULL = (errno.ENOSPC, errno.EDQUOT)
_OF_EPOCH = "values of the epoch"


class Logging(Plugin):
    """Logs per-epoch losses, every row of the matrix and, at the end, the matrix and the metrics.

    Args:
        loggers: Lightning loggers.
    """

    supports_batched_seeds = True

    def __init__(self, loggers: Sequence[Any]) -> None:
        self.loggers = list(loggers)
        self._step_log: StepLog | None = None

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Only where the run is written."""
        return None if context.run_dir is None else cls(context.loggers)

    def state_dict(self) -> dict[str, Any]:
        """How far each logger is, of those that can continue where they were."""
        of_epoch = {} if self._step_log is None else self._step_log.state_dict()
        able = [logger for logger in self.loggers if hasattr(logger, "load_state_dict")]
        state = {type(logger).__name__: logger.state_dict() for logger in able}
        return {**state, _OF_EPOCH: of_epoch} if of_epoch else state

    def written_files(self) -> dict[str, dict[str, Any]]:
        """What the loggers have written into the run folder, of those that can say."""
        able = [logger for logger in self.loggers if hasattr(logger, "written_files")]
        return {name: mark for logger in able for name, mark in logger.written_files().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let each logger continue where it was; a new one begins here."""
        for logger in self.loggers:
            if type(logger).__name__ in state:
                logger.load_state_dict(state[type(logger).__name__])
        if self._step_log is not None:
            self._step_log.load_state_dict(state.get(_OF_EPOCH, {}))

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Send numbers to every logger."""
        self._tell(lambda logger: logger.log_metrics(numbers, step=step))

    def _tell(self, say: Callable[[Any], None], loggers: Sequence[Any] | None = None) -> None:
        """Do something with each logger; a server's failure is no reason to lose a run."""
        for logger in list(self.loggers if loggers is None else loggers):
            try:
                say(logger)
            except OSError as error:
                if not getattr(logger, "remote", False) or error.errno in _FULL:
                    raise  # the disk: the run cannot be saved either
                self._give_up(logger, error)
            except Exception as error:
                if not getattr(logger, "remote", False):
                    raise
                self._give_up(logger, error)

    def _give_up(self, logger: Any, error: Exception) -> None:
        self.loggers.remove(logger)
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        notice(f"{type(logger).__name__} failed and is left out from now on: {line}")

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Take what plugins log with ``learner.log``."""
        if self.loggers:
            self._step_log = learner.step_log
            learner.step_log.sink = self.log

    @hookimpl(trylast=True)
    def after_epoch(
        self, learner: Learner, experience: Experience, epoch: int, logs: dict[str, Any]
    ) -> None:
        """The epoch's numbers at the step it ended with."""
        learner.step_log.flush()
        numbers = {f"train/{key}": float(value) for key, value in logs.items() if key != "seconds"}
        numbers |= learner.step_log.end_epoch()
        numbers["train/experience"] = float(experience.index)
        numbers["train/epoch"] = float(epoch)
        self.log(numbers, learner.global_steps)

    @hookimpl(trylast=True)
    def after_evaluation(
        self, learner: Learner, row: str, results: dict[str, dict[str, float]]
    ) -> None:
        """The row of the matrix, by task and as a mean."""
        numbers = {}
        firsts = []
        for task, measures in results.items():
            for measure, value in measures.items():
                numbers[f"eval/{measure}/{task}"] = value
            firsts.append(next(iter(measures.values())))
        if firsts:
            numbers["eval/mean"] = sum(firsts) / len(firsts)
        numbers["eval/experiences"] = float(len(learner.seen))
        self.log(numbers, learner.global_steps)

    @hookimpl(trylast=True)
    def after_measurement(
        self, learner: Learner, name: str, step: int, values: dict[str, float]
    ) -> None:
        """What a plugin measured on the way."""
        learner.step_log.flush()  # so that steps come in their order
        self.log({f"{name}/{key}": value for key, value in values.items()}, step)

    @hookimpl(trylast=True)
    def after_run(self, learner: Learner, result: Result) -> None:
        """The metrics, and the matrix as table and image where the logger takes them."""
        numbers = {
            f"metrics/{family}.{name}": float(value)
            for family, values in result.metrics.items()
            for name, value in values.items()
            if isinstance(value, int | float)
        }
        self.log(numbers, learner.global_steps)
        self._tell(lambda logger: _log_matrix(logger, result, learner.global_steps))

    @hookimpl(trylast=True)
    def teardown(self, error: BaseException | None) -> None:
        """Close every logger, saying how the run ended."""
        status = "success" if error is None else "failed"
        if self._step_log is not None:
            with contextlib.nullcontext() if error is None else contextlib.suppress(Exception):
                self._step_log.flush()
        for logger in list(self.loggers):
            # After a failure (a full disk) closing may fail as well, and that is no news.
            quietly = contextlib.nullcontext() if error is None else contextlib.suppress(Exception)
            with quietly:
                self._tell(lambda one: one.finalize(status), [logger])


def _log_matrix(logger: Any, result: Result, step: int) -> None:
    """The matrix as a table and an image, for loggers that have such."""
    if hasattr(logger, "log_table") and hasattr(logger, "log_image"):  # Weights & Biases
        content = result.matrix.to_json()
        rows = [[name, *row] for name, row in zip(content["rows"], content["values"], strict=True)]
        logger.log_table("matrix", columns=["row", *content["columns"]], data=rows, step=step)
        logger.log_image("matrix_image", images=[_picture(result)], step=step)
    elif hasattr(getattr(logger, "experiment", None), "add_image"):  # TensorBoard
        import numpy as np

        logger.experiment.add_image("matrix", np.asarray(_picture(result)), step, dataformats="HWC")


def _picture(result: Result) -> Any:
    import io

    from PIL import Image

    from clframe.report import figures

    png = figures.to_png_bytes(figures.matrix_heatmap(result.matrix))
    return Image.open(io.BytesIO(png)).convert("RGB")
