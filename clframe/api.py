"""The Python interface: :func:`fit`, :func:`load` and :func:`stream`."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clframe.build import build, build_stream
from clframe.config.run_config import RunConfig
from clframe.core.registry import discover
from clframe.distributed import launch
from clframe.errors import PluginError, RunFolderError, SettingError, UnknownNameError
from clframe.run import run, set_up
from clframe.runs.folder import RunFolder
from clframe.runs.pretrain import find_checkpoint, put_weights
from clframe.runs.received import as_list
from clframe.training.engine import ONE_PROCESS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import nn

    from clframe.core.factory import Named
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.state import RunState
    from clframe.core.stream import Scenario, Stream
    from clframe.strategies import StrategyLike


def fit(
    stream: Named | Stream = "split_mnist",
    strategy: StrategyLike = "naive",
    model: Named | nn.Module | None = None,
    *,
    learner: Named = "default",
    scenario: Scenario | None = None,
    optimizer: Named = "adam",
    scheduler: Named = "none",
    logger: Named | Sequence[str] | None = "csv",
    seed: int = 0,
    data_dir: str | Path | None = None,
    download: bool = False,
    active_outputs: Literal["seen", "all"] = "seen",
    pretrain: str | Path | None = None,
    plugin_path: str | Path | Sequence[str | Path] | None = None,
    plugin_files: Sequence[str | Path] | None = None,
    run_dir: str | Path | Literal[False] | None = None,
    resume: str | Path | None = None,
    resume_allow: Sequence[str] = (),
    progress: bool = True,
    strategy_name: str | None = None,
    overrides: Sequence[str] | None = None,
    fork: Mapping[str, Any] | None = None,
    trainer: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    logging: Mapping[str, Any] | None = None,
    checkpoint: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Result:
    """Learn a stream with a strategy and return the matrix and its metrics.

    The arguments are the fields of :class:`clframe.RunConfig`, which explains each of them. Any
    other keyword is a setting of ``trainer``, ``evaluation`` or ``logging``, such as
    ``max_epochs=1`` or ``evaluate_every=2``, or ``lr``, the optimizer's learning rate.

    Raises:
        ClframeError: An argument cannot be used. Nothing has been written yet.

    Example:
        >>> import clframe
        >>> result = clframe.fit(
        ...     "split_mnist",
        ...     ["ewc", clframe.plugins.Replay(size=200)],
        ...     max_epochs=1,
        ...     limit_train_batches=2,
        ...     run_dir=False,
        ...     progress=False,
        ... )
        >>> result.strategy, result.matrix.values.shape
        ('ewc+replay', (6, 5))
    """
    arguments = dict(locals())
    return fit_config(RunConfig.of(**arguments.pop("settings"), **arguments))


def _with_arguments(text: str, explained: str) -> str:
    """Return a docstring with the ``Args`` of another one, for ``help()``."""
    arguments = explained.partition("Args:\n")[2].partition("\n\n")[0]
    before, raises, after = text.partition("Raises:")
    return f"{before}Args:\n{arguments}\n\n{raises}{after}"


fit.__doc__ = _with_arguments(inspect.getdoc(fit) or "", inspect.getdoc(RunConfig) or "")


def fit_config(config: RunConfig) -> Result:
    """Learn what a :class:`clframe.RunConfig` describes."""
    with launch.report_rank_failures():
        with _naming_config(config):
            built = build(config)
        return run(built.learner, built.stream, built.strategy, built.folder)


def load_learner(
    run_dir: str | Path, final: bool = True, plugin_path: Sequence[str | Path] | None = None
) -> tuple[Learner, RunState]:
    """Return a run's learner as of its last checkpoint, and the state of the run.

    The run is only read, even while another process continues it.

    Args:
        run_dir: The run folder.
        final: If the run has finished, accept only its final state.
        plugin_path: Files of yours to load instead of the run's own plugin files.

    Raises:
        ClframeError: There is no such run, it has no checkpoint, or its last one is damaged.
    """
    config = RunConfig.from_folder(run_dir, plugin_path)
    trainer = {**(config.trainer or {}), **ONE_PROCESS}
    with _naming_config(config):
        built = build(config.replace(logger=None, progress=False, trainer=trainer))
    if built.folder is None or not built.folder.checkpoints.numbers():
        raise RunFolderError(f"run '{run_dir}' has no checkpoint to load")
    final = final and built.folder.results.exists()
    state, _ = set_up(built.learner, built.stream, built.folder, read_only=True, final=final)
    return built.learner, state


@contextlib.contextmanager
def _naming_config(config: RunConfig) -> Iterator[None]:
    """Name the ``config.yaml`` of an existing run in errors about its settings."""
    try:
        yield
    except (SettingError, UnknownNameError, PluginError) as error:
        if config.resume in (None, "auto"):
            raise
        path = Path(str(config.resume)) / "config.yaml"
        raise type(error)(f"{error}; the settings of this run are in '{path}'") from error


def load(
    run_dir: str | Path,
    after: str | int | None = None,
    model: nn.Module | None = None,
    plugin_path: str | Path | Sequence[str | Path] | None = None,
) -> nn.Module:
    """Return the trained model of a run: one logit per output for a batch of inputs.

    Args:
        run_dir: The run folder.
        after: Load the weights after this number of experiences, or after the experience of
            this name, instead of the newest. A run keeps only its last checkpoints by default;
            see ``checkpoint.keep``.
        model: For a run that was made in Python with its own model: a model of the same
            structure, which gets the weights.
        plugin_path: Files of yours to load instead of the run's own plugin files.

    Raises:
        ClframeError: There is no such run, it has no such checkpoint, or it names code that you
            have not confirmed (``clframe trust``).

    Example:
        >>> import clframe, tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     short = {"max_epochs": 1, "limit_train_batches": 1, "progress": False}
        ...     _ = clframe.fit("split_mnist", run_dir=f"{folder}/run", **short)
        ...     model = clframe.load(f"{folder}/run")
        >>> model(torch.zeros(1, 1, 28, 28)).shape
        torch.Size([1, 10])
    """
    folder = RunFolder(Path(run_dir).expanduser())
    folder.read_config()
    number = find_checkpoint(folder, after)
    if model is None:
        named = None if plugin_path is None else as_list(plugin_path)
        learner, _ = load_learner(folder.path, after is None, named)
        model = learner.model
    put_weights(folder, number, model)
    return model.eval()


def stream(
    name: str,
    *,
    data_dir: str | Path | None = None,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    plugin_path: Sequence[str | Path] = (),
    **values: Any,
) -> Stream:
    """Make a registered stream.

    Args:
        name: Registered name, such as ``split_mnist``.
        data_dir: The data folder; None is ``$CLFRAME_DATA`` or ``~/.cache/clframe``.
        download: Whether missing data may be fetched.
        seed: Of everything the stream draws.
        scenario: task, domain or class; None takes the stream's own.
        plugin_path: Files with streams of your own.
        **values: The stream's own settings.

    Example:
        >>> import clframe
        >>> stream = clframe.stream("permuted_mnist", n_experiences=3)
        >>> [experience.name for experience in stream.experiences]
        ['exp0', 'exp1', 'exp2']
    """
    config = RunConfig(
        {"name": name, **values},
        scenario=scenario,
        seed=seed,
        data_dir=data_dir,
        download=download,
        plugin_path=plugin_path,
    )
    return build_stream(config, discover(config.plugin_paths))
