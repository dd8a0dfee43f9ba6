"""Several seeds of one run at once: as one batched model where that is possible, else as processes.

Small models spend their time in Python and in starting kernels, not in arithmetic; five of them
side by side cost little more than one. The results are those of separate runs up to the order in
which a batched product adds its terms.
"""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.errors import SettingError
from clframe.utils.console import notice
from clframe.utils.settings import convert

if TYPE_CHECKING:
    from clframe.core.results import Result


def fit_seeds(seeds: Sequence[int], **arguments: Any) -> list[Result]:
    """Learn a stream once for each seed.

    Args:
        seeds: Of the runs; each gets a run folder of its own, ``RUN_DIR/s<seed>`` if ``run_dir`` is
            given.
        **arguments: Those of :func:`clframe.fit`, without ``seed``.

    Returns:
        One result for each seed, in order.
    """
    chosen = [convert(seed, int, "seeds") for seed in seeds]
    if not chosen or len(set(chosen)) != len(chosen):
        raise SettingError(f"seeds must be a list of different numbers, got {list(seeds)}")
    if arguments.get("resume") is not None:
        raise SettingError("seeds cannot be used with resume; continue each run by itself")
    runs = [_arguments(arguments, seed, first=seed == chosen[0]) for seed in chosen]
    if len(runs) == 1:
        return [_fit(runs[0])]

    from clframe.api import prepare_run
    from clframe.sweep.seed_group import run_together, why_not

    trial = [prepare_run(**{**run, "run_dir": False, "progress": False}) for run in runs]
    reason = why_not(trial)
    if reason is not None:
        notice(f"seeds are run in separate processes: {reason}")
        return _in_processes(runs)
    return run_together([prepare_run(**run) for run in runs])


def _arguments(arguments: dict[str, Any], seed: int, first: bool) -> dict[str, Any]:
    """One seed's arguments; only the first shows its progress."""
    own = dict(arguments)
    trainer = {**(own.pop("trainer", None) or {})}
    # As with fit, what is no argument of a run is a setting of the trainer.
    trainer.update({name: own.pop(name) for name in list(own) if name not in _arguments_of_a_run()})
    own.update(seed=seed, trainer=trainer, progress=first and own.get("progress", True))
    own.setdefault("stream", "split_mnist")
    own.setdefault("logger", "csv")
    if own.setdefault("run_dir", None) not in (None, False):
        own["run_dir"] = Path(own["run_dir"]) / f"s{seed}"
    return own


@functools.cache
def _arguments_of_a_run() -> frozenset[str]:
    from clframe.api import prepare_run

    return frozenset(inspect.signature(prepare_run).parameters)


def _fit(arguments: dict[str, Any]) -> Result:
    from clframe.api import fit

    return fit(**arguments)


def _in_processes(runs: list[dict[str, Any]]) -> list[Result]:
    """One process per seed, as many at a time as there are cores."""
    try:
        pickle.dumps(runs)
    except (pickle.PicklingError, TypeError, AttributeError):
        # A stream or model made in Python may not travel to another process.
        return [_fit(run) for run in runs]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return list(pool.map(_fit, runs))
