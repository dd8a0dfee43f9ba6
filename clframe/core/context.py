"""What a built-in plugin knows of the run it is made for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clframe.core.stream import Stream
    from clframe.core.trainer import TrainerSettings


@dataclass(frozen=True)
class RunContext:
    """A run that is being built, as :meth:`clframe.Plugin.for_run` sees it.

    Args:
        stream: What will be learned.
        settings: The config group ``trainer``.
        run_dir: Where the run is written; None where it is not, or not by this process.
        resumed: Whether the folder holds a run that is continued.
        progress: Whether to show how far the run is.
        loggers: Lightning loggers, ready to use.
        metrics: Functions of the result, by the name of their family.
        strategy: The strategy's name.
    """

    stream: Stream
    settings: TrainerSettings
    run_dir: Path | None = None
    resumed: bool = False
    progress: bool = False
    loggers: Sequence[Any] = ()
    metrics: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    strategy: str = ""
