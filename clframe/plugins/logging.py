"""Sends the numbers of a run to its Lightning loggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clframe.hookspecs import hookimpl
from clframe.plugin import Plugin

if TYPE_CHECKING:
    from clframe.experience import Experience
    from clframe.learner import Learner
    from clframe.results import Result


class Logging(Plugin):
    """Logs per-epoch losses, every row of the matrix and, at the end, the matrix and the metrics.

    Args:
        loggers: Lightning loggers.
    """

    def __init__(self, loggers: Sequence[Any]) -> None:
        self.loggers = list(loggers)

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Send numbers to every logger."""
        for logger in self.loggers:
            logger.log_metrics(numbers, step=step)

    @hookimpl(trylast=True)
    def after_epoch(
        self, learner: Learner, experience: Experience, epoch: int, logs: dict[str, Any]
    ) -> None:
        """The epoch's numbers at the step it ended with."""
        numbers = {f"train/{key}": float(value) for key, value in logs.items() if key != "seconds"}
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
    def after_run(self, learner: Learner, result: Result) -> None:
        """The metrics, the matrix as table and image where the logger takes them; then close."""
        numbers = {
            f"metrics/{family}.{name}": float(value)
            for family, values in result.metrics.items()
            for name, value in values.items()
            if isinstance(value, int | float)
        }
        self.log(numbers, learner.global_steps)
        for logger in self.loggers:
            _log_matrix(logger, result, learner.global_steps)
            logger.finalize("success")


def _log_matrix(logger: Any, result: Result, step: int) -> None:
    """The matrix as a table and an image, for loggers that have such."""
    if hasattr(logger, "log_table") and hasattr(logger, "log_image"):  # Weights & Biases
        content = result.matrix.to_json()
        rows = [[name, *row] for name, row in zip(content["rows"], content["values"], strict=True)]
        logger.log_table("matrix", columns=["row", *content["columns"]], data=rows, step=step)
        logger.log_image("matrix_image", images=[_picture(result)], step=step)
        logger.experiment.finish()
    elif hasattr(getattr(logger, "experiment", None), "add_image"):  # TensorBoard
        import numpy as np

        logger.experiment.add_image("matrix", np.asarray(_picture(result)), step, dataformats="HWC")


def _picture(result: Result) -> Any:
    import io

    from PIL import Image

    from clframe.report import figures

    png = figures.to_png_bytes(figures.matrix_heatmap(result.matrix.to_json()))
    return Image.open(io.BytesIO(png)).convert("RGB")
