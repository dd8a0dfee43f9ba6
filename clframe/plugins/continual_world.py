"""Continual World's metrics of a run whose tasks are environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe import metrics as formulas
from clframe.core.plugin import Plugin
from clframe.errors import PluginError
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.registry import Registry
    from clframe.core.results import Result
    from clframe.core.stream import Stream


class ContinualWorld(Plugin):
    """Adds Continual World's forward transfer against runs that learned one task each.

    Average performance and forgetting need no reference and are always told. The reference runs
    must have been trained for as long and measured as often (``trainer.check_val_every_n_epoch``).

    Args:
        reference: Folders of runs, each of which learned one task of this stream from scratch.
    """

    name = "continual_world"
    paper = (
        "Wołczyk et al., Continual World: A Robotic Benchmark For Continual Reinforcement "
        "Learning, 2021"
    )
    supports_batched_seeds = True

    def __init__(self, reference: list[str] | tuple[str, ...] = ()) -> None:
        self.reference = list(reference)
        self.curves: dict[str, list[float]] = {}

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Read the references, so that a missing one is known before anything is learned."""
        if learner.engine.settings.check_val_every_n_epoch is None:
            raise PluginError(
                "plugin 'continual_world' needs success while learning: set "
                "trainer.check_val_every_n_epoch, as the reference runs have it"
            )
        self.curves = {}
        for folder in self.reference:
            self.curves |= single_task_curves(Path(folder).expanduser() / "results.json")
        taught = [task.name for experience in stream for task in experience.tasks]
        missing = [name for name in dict.fromkeys(taught) if name not in self.curves]
        if missing:
            raise PluginError(
                f"plugin 'continual_world' has no reference run for {', '.join(missing)}: name "
                "their folders in strategy.continual_world.reference"
            )

    @hookimpl(trylast=True)
    def metrics(self, result: Result) -> dict[str, dict[str, Any]] | None:
        """The family with forward transfer, in the place of the one without."""
        found = continual_world(result, self.curves)
        return None if found is None else {"continual_world": found}


def single_task_curves(path: Path) -> dict[str, list[float]]:
    """The success of a single-task run while it learned, by task."""
    try:
        content = json.loads(path.read_text())
        (curves,) = content["curves"].values()
        return {str(task): [float(v) for v in values] for task, values in curves.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PluginError(
            f"'{path}' is not the result of a run of one task that was measured while it learned: "
            f"{error}"
        ) from error


def continual_world(
    result: Result, reference: dict[str, list[float]] | None = None
) -> dict[str, Any] | None:
    """Average performance, forgetting, forward transfer (Wołczyk et al., 2021) of success rates."""
    single = all(len(columns) == 1 for columns in result.task_of_row)
    if result.matrix.measure != "success" or not single or not len(result.matrix.learned):
        return None
    names = [result.matrix.columns[columns[0]] for columns in result.task_of_row]
    rows = result.matrix.rows[-len(names) :]
    return formulas.continual_world(
        result.matrix.learned,
        result.task_of_row,
        [result.curves.get(row, {}).get(name) for row, name in zip(rows, names, strict=True)],
        [(reference or {}).get(name) for name in names],
    )


@hookimpl
def register(registry: Registry) -> None:
    """Add the family."""
    registry.add("metric", "continual_world", continual_world)
