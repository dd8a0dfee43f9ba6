"""Loggers that write into the run folder: CSV and TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from lightning.fabric.loggers.logger import Logger

    from clframe.registry import Registry


def csv(run_dir: Path, flush_every_n_steps: int = 100) -> Logger:
    """A table of all logged numbers, ``csv/metrics.csv`` in the run folder."""
    from lightning.fabric.loggers.csv_logs import CSVLogger

    return CSVLogger(
        root_dir=run_dir, name="", version="csv", flush_logs_every_n_steps=flush_every_n_steps
    )


def tensorboard(run_dir: Path) -> Logger:
    """TensorBoard event files, ``tensorboard/`` in the run folder."""
    from lightning.fabric.loggers.tensorboard import TensorBoardLogger

    return TensorBoardLogger(root_dir=run_dir, name="", version="tensorboard")


@hookimpl
def register(registry: Registry) -> None:
    """Add the loggers."""
    registry.add("logger", "csv", csv)
    registry.add("logger", "tensorboard", tensorboard)
