"""Fork a run: start a new run from the end of any of its experiences.

The child has other settings, another strategy, another order of the remaining experiences, or other
data, and is a run like any other. Its first checkpoint is the parent's state (a link, not a copy);
:mod:`clframe.checkpoint.adapt` defines what it takes over.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.build import Built, build
from clframe.config.compose_over import compose_forked
from clframe.config.read_config import read_content
from clframe.config.run_config import RunConfig
from clframe.core.matrix import BEFORE
from clframe.distributed import launch
from clframe.errors import SettingError
from clframe.recording.results_file import leaves
from clframe.reproduce.fork_checks import check_prefix
from clframe.reproduce.parent import Parent
from clframe.run import run
from clframe.runs.folder import RunFolder
from clframe.runs.received import as_list, check_places
from clframe.utils.console import warn_user
from clframe.utils.hydra_quote import override_value

if TYPE_CHECKING:
    from clframe.core.results import Result

_OWN = ("resume", "resume_allow", "fork", "seeds")
_NOT_COMPARED = (
    "logger",
    "checkpoint",
    "overrides",
    "data_dir",
    "download",
    "strategy_name",
    "fork",
    "plugin_path",
)
"""Config entries that do not affect training."""


def fork(parent: str | Path, at: str | int, **values: Any) -> Result:
    """Start a new run from the end of an experience of another one.

    Args:
        parent: The run folder to fork, which kept the state after that experience.
        at: The last experience to keep: its name or number (1 is the first; 0 is the untrained
            model).
        **values: Changes from the parent, as arguments of :func:`clframe.fit`: ``strategy="er"``,
            ``max_epochs=2``, ``experience_order=[0, 1, 3, 2]``. Experiences learned already must
            stay unchanged.

    Returns:
        The child's result; ``result.fork`` is its origin. Rows up to there are the parent's.

    Raises:
        ClframeError: There is no such run or state, or a value is invalid.

    Example:
        >>> import clframe, tempfile
        >>> short = {"max_epochs": 1, "limit_train_batches": 1, "progress": False}
        >>> kept = {"checkpoint": {"every_experience": True}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = clframe.fit("split_mnist", run_dir=f"{folder}/parent", **short, **kept)
        ...     child = clframe.fork(
        ...         f"{folder}/parent",
        ...         at=3,
        ...         strategy="er",
        ...         experience_order=[0, 1, 2, 4, 3],
        ...         run_dir=f"{folder}/child",
        ...     )
        >>> child.matrix.rows
        ['before', 'exp0', 'exp1', 'exp2', 'exp4', 'exp3']
        >>> child.fork["run"], child.fork["experience"], child.fork["learned_here"]
        ('../parent', 'exp2', 2)
    """
    path = Path(parent).expanduser()
    return begin(Parent(path), at, changed_config(path, values))


def fork_words(path: Path, at: str | int, overrides: Sequence[str]) -> Result:
    """Fork a run with arguments of the command line."""
    return begin(Parent(path), at, compose_forked(str(path), overrides))


def begin(parent: Parent, at: str | int, config: RunConfig) -> Result:
    """Learn the remaining experiences from a state of the parent.

    Args:
        parent: The parent run.
        at: The last experience to keep.
        config: The child's config, without its origin.
    """
    parent.check_idle()
    learned = parent.learned(at)
    repeated = parent.ended_with(learned)
    with launch.report_rank_failures():
        built = build(_begun(parent, parent.state_after(learned - repeated), config))
        check_prefix(parent, learned, built, config)
        _say_changes(parent, built)
        if repeated:
            warn_user(
                f"'{parent.names[-1]}' was the last experience of '{parent.path}', after which a "
                "method prepares nothing for the next one: it is learned again"
            )
        return run(built.learner, built.stream, built.strategy, built.folder)


def changed_config(path: Path, values: Mapping[str, Any]) -> RunConfig:
    """Return the description of a run with other arguments of :func:`clframe.fit`."""
    for name in _OWN:
        if name in values:
            raise SettingError(f"a fork is a new run and takes no {name}")
    content = read_content(path)
    changes = dict(values)
    fields = {entry.name for entry in dataclasses.fields(RunConfig)}
    if "lr" in changes:
        changes["optimizer"] = {**content["optimizer"], "lr": changes.pop("lr")}
    trainer = {name: changes.pop(name) for name in list(changes) if name not in fields}
    for group, more in (("trainer", trainer), ("checkpoint", {})):
        content[group] = {**content[group], **(changes.pop(group, None) or {}), **more}
    # Python objects of a run cannot be read from its config and must be given again.
    for name in ("stream", "model"):
        if name in changes:
            content[name] = {}
    if "strategy" in changes:
        changes.setdefault("strategy_name", None)
    content.pop("fork", None)
    named = changes.pop("plugin_path", None)
    if named is not None:
        content |= {"plugin_path": [str(file) for file in as_list(named)], "plugin_files": None}
    typed = [f"{name}={value}" for name, value in changes.items()]
    typed += [f"plugin_path={file}" for file in (content["plugin_path"] or ()) if named is not None]
    if "logger" not in changes:
        check_places(content, path, typed)
    content["overrides"] = None
    return RunConfig.from_content(content, path, typed).replace(**changes)


def _begun(parent: Parent, state: Mapping[str, Any], config: RunConfig) -> RunConfig:
    """Return the child's description, with its origin."""
    if config.run_dir is False:
        raise SettingError("a fork needs a run folder; leave run_dir=False out")
    folder = config.run_dir
    if folder is None:
        name = config.strategy_name or "forked"
        folder = RunFolder.default(_name_of_stream(config), name, config.seed).path
    learned = state["position"]["experiences_learned"]
    origin = {
        "run": relative(parent.path, Path(folder)),
        "at": learned,
        "experience": [BEFORE, *parent.names][learned],
        "sha256": state["sha256"],
        "changed": [],
    }
    return config.replace(resume=None, run_dir=folder, fork=origin)


def _name_of_stream(config: RunConfig) -> str:
    stream = config.stream
    if isinstance(stream, Mapping):
        return str(stream["name"])
    return stream if isinstance(stream, str) else stream.name


def relative(parent: Path, child: Path) -> str:
    """Return the parent's folder relative to the child's; absolute if there is no such path."""
    try:
        return Path(os.path.relpath(parent.resolve(), child.resolve())).as_posix()
    except ValueError:  # on another drive
        return str(parent.resolve())


def _say_changes(parent: Parent, built: Built) -> None:
    """Record the changes from the parent, and report plugins that are new or gone."""
    origin = built.content["fork"]
    before, now = parent.content["strategy"], built.content["strategy"]
    if before.keys() != now.keys():
        origin["changed"].append(f"strategy={override_value(built.strategy)}")
    origin["changed"] += differences(parent.content, built.content)
    for name in now:
        if name not in before:
            warn_user(f"plugin '{name}' is new at the fork and starts fresh")
    for name in before:
        if name not in now:
            warn_user(f"plugin '{name}' is gone at the fork and its state is dropped")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the settings in which two configs differ, with the second one's values.

    >>> differences({"seed": 0, "optimizer": {"lr": 0.1}}, {"seed": 0, "optimizer": {"lr": 0.2}})
    ['optimizer.lr=0.2']
    """
    old, new = (
        dict(leaves({key: value for key, value in config.items() if key not in _NOT_COMPARED}))
        for config in (before, now)
    )
    return [f"{name}={override_value(new.get(name))}" for name in new if new[name] != old.get(name)]
