"""The information about a run that its built-in plugins are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clframe.core.stream import Stream
    from clframe.core.trainer import TrainerSettings
    from clframe.evaluation.evaluation_settings import EvaluationSettings
    from clframe.recording.logger import RunLogger
    from clframe.recording.logging_settings import LoggingSettings


@dataclass(frozen=True)
class RunContext:
    """A run that is being built, as :meth:`clframe.Plugin.for_run` sees it.

    Args:
        stream: The stream to learn.
        settings: The config group ``trainer``.
        evaluation: The config group ``evaluation``.
        logging: The config group ``logging``.
        run_dir: The run folder; None if this process writes nothing.
        resumed: Whether the run continues one in the folder.
        progress: Whether to show progress.
        loggers: The run's loggers.
        metrics: Functions of the result by family name.
        strategy: The strategy's name.
    """

    stream: Stream
    settings: TrainerSettings
    evaluation: EvaluationSettings
    logging: LoggingSettings
    run_dir: Path | None = None
    resumed: bool = False
    progress: bool = False
    loggers: Sequence[RunLogger] = ()
    metrics: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    strategy: str = ""
