"""Adapt the state of a parent run to a forked run.

Shared state is taken over unchanged. New entries begin fresh and removed ones are dropped, each
with a note. A state that cannot be continued (another model) raises an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clframe.core.matrix import AccuracyMatrix
from clframe.errors import ClframeError, RunFolderError
from clframe.evaluation.forgetting_tensor import ForgettingTensor
from clframe.utils.serialization import plain_value

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.plugin import Plugin


def adapt(
    saved: dict[str, Any], learner: Learner, origin: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return a parent's state for its child, and notes about the changes.

    Args:
        saved: The state as the parent saved it.
        learner: The child's learner, configured and with its optimizer.
        origin: The entry ``fork`` of the child's config.

    Raises:
        RunFolderError: The child's model or one of its plugins cannot use the state.
    """
    notes: list[str] = []
    _check_model(saved["learner"], learner.state_dict(), origin)
    columns = learner.stream.columns
    # Results on other test data do not count for the child's tasks.
    comparable = [name for name in columns if name not in origin.get("remeasured", ())]
    matrix = (
        AccuracyMatrix.from_state(saved["matrix"]).with_columns(comparable).with_columns(columns)
    )
    tensor = ForgettingTensor.from_state(saved["matrix"]["columns"], saved["tensor"])
    saved = {
        **saved,
        "matrix": matrix.state_dict(),
        "tensor": tensor.with_columns(columns).state_dict(),
        "plugins": _plugins(saved["plugins"], learner, origin),
    }
    measured = ~np.isnan(matrix.values)
    missing = [name for n, name in enumerate(columns) if matrix.rows and not measured[:, n].any()]
    if missing:
        several = f"tasks {', '.join(missing[:3])}{', ...' if len(missing) > 3 else ''} were"
        single = f"task {missing[0]} was"
        which = single if len(missing) == 1 else several
        notes.append(f"{which} not measured before the fork: those cells stay unknown")
    _optimizer(saved, learner, origin["changed"], notes)
    return saved, notes


# ---------------------------------------------------------------- model


def _check_model(before: Mapping[str, Any], now: Mapping[str, Any], origin: Any) -> None:
    for name in dict.fromkeys((*before, *now)):
        shapes = [
            "none" if name not in state else str(list(getattr(state[name], "shape", ())))
            for state in (before, now)
        ]
        if shapes[0] != shapes[1]:
            raise RunFolderError(
                f"run '{origin['run']}' cannot be forked with another model: '{name}' had the "
                f"shape {shapes[0]} and would have {shapes[1]}"
            )


# ---------------------------------------------------------------- plugins


def _plugins(
    saved: Mapping[str, Any], learner: Learner, origin: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the state of each plugin: the parent's if it has the plugin, else the child's own."""
    states: dict[str, Any] = {}
    for plugin in learner.plugins.ordered:
        states[plugin.name] = plugin.state_dict()
        if plugin.name not in saved:
            continue
        states[plugin.name] = plugin.state_in_fork(saved[plugin.name])
        if any(word.startswith(f"strategy.{plugin.name}.") for word in origin["changed"]):
            _try(plugin, states[plugin.name], origin)
    return states


def _try(plugin: Plugin, state: dict[str, Any], origin: Mapping[str, Any]) -> None:
    """Check that a plugin with other settings can continue from its state."""
    try:
        plugin.load_state_dict(state)
    except (ClframeError, RuntimeError, ValueError, LookupError, TypeError) as error:
        settings = [w for w in origin["changed"] if w.startswith(f"strategy.{plugin.name}.")]
        raise RunFolderError(
            f"run '{origin['run']}' cannot be forked with {', '.join(settings)}: plugin "
            f"'{plugin.name}' cannot continue from its state ({str(error).splitlines()[0]})"
        ) from error


# ---------------------------------------------------------------- optimizer


def _optimizer(
    saved: dict[str, Any], learner: Learner, changed: Sequence[str], notes: list[str]
) -> None:
    """Keep the optimizer's state unless it is another optimizer; apply new settings."""
    groups = {word.split(".")[0] for word in changed}
    if any(word.startswith("trainer.precision=") for word in changed):
        saved["precision"] = learner.engine.precision_state()
    if not groups & {"optimizer", "scheduler"}:
        return
    if saved["schedule"] is not None:
        saved["schedule"] = None
        if learner.schedule is not None:
            notes.append("the learning rate's schedule starts again at the fork")
    if any(word.startswith("optimizer.name=") for word in changed):
        saved["optimizer"] = None
        notes.append("the optimizer is another one and starts fresh at the fork")
    elif saved["optimizer"] is not None and learner.optimizer is not None:
        own = plain_value(learner.optimizer)["param_groups"]
        before = saved["optimizer"]["param_groups"]
        joined = [
            {**old, **{key: value for key, value in new.items() if key != "params"}}
            for old, new in zip(before, own, strict=True)
        ]
        saved["optimizer"] = {**saved["optimizer"], "param_groups": joined}
