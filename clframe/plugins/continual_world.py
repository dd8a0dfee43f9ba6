"""Continual World's metrics of a run whose tasks are environments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe import metrics as formulas
from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.core.results import Result
from clframe.errors import PluginError, RunFolderError
from clframe.hookspecs import hookimpl
from clframe.metrics.continual_world_metrics import of_run, tasks_of

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Stream


class ContinualWorld(Plugin):
    """Continual World's forward transfer against runs that learned one task each.

    Average performance and forgetting need no reference and are always reported. The reference runs
    must have been trained for as long and measured as often
    (``evaluation.check_val_every_n_epoch``).

    Args:
        reference: Folders of runs, each of which learned one task of this stream from scratch.

    Example:
        >>> from clframe.plugins import ContinualWorld
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [ContinualWorld(reference=["runs/single"])]).strategy
        'continual_world'
    """

    name = "continual_world"
    paper = (
        "Wołczyk et al., Continual World: A Robotic Benchmark For Continual Reinforcement "
        "Learning, 2021"
    )
    capabilities = Capabilities(
        batched_seeds=True,
        attachable="it measures runs of clframe's own and changes nothing that is learned",
    )

    def __init__(self, reference: list[str] | tuple[str, ...] = ()) -> None:
        self.reference = list(reference)
        self.curves: dict[str, list[float]] = {}

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Read the references, so that a missing one raises an error before training."""
        if learner.engine.evaluation.check_val_every_n_epoch is None:
            raise PluginError(
                "plugin 'continual_world' needs success during training: set "
                "evaluation.check_val_every_n_epoch, as in the reference runs"
            )
        self.curves = {}
        for folder in self.reference:
            self.curves |= single_task_curves(Path(folder))
        taught = [task.name for experience in stream for task in experience.tasks]
        missing = [name for name in dict.fromkeys(taught) if name not in self.curves]
        if missing:
            raise PluginError(
                f"plugin 'continual_world' has no reference run for {', '.join(missing)}: name "
                "their folders in strategy.continual_world.reference"
            )

    @hookimpl(trylast=True)
    def metrics(self, result: Result) -> dict[str, dict[str, Any]] | None:
        """Return the family with forward transfer, which replaces the one without."""
        arguments = of_run(result)
        if arguments is None:
            return None
        reference = [self.curves.get(task) for task in tasks_of(result)]
        return {"continual_world": formulas.continual_world(**arguments, reference=reference)}


def single_task_curves(folder: Path) -> dict[str, list[float]]:
    """Return the success of a single-task run during training, by task."""
    problem = f"'{folder}' is not a run of one task that was measured while it learned"
    try:
        curves = list(Result.load(folder).curves.values())
    except RunFolderError as error:
        raise PluginError(f"{problem}: {error}") from error
    if len(curves) != 1:
        raise PluginError(f"{problem}: it has curves of {len(curves)} experiences")
    return curves[0]
