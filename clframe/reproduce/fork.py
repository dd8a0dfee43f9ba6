"""A new lifetime from the end of any experience of a run.

It has other settings, another strategy, another order of what is to come, or other data, and is a
run like any other. Its first checkpoint is the parent's state (a link, not a copy);
:mod:`clframe.checkpoint.adapt` says what is taken over from it.
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
"""What of a config changes nothing of what is learned."""


def fork(parent: str | Path, at: str | int, **values: Any) -> Result:
    """Begin a new run at the end of an experience of another one.

    Args:
        parent: The run folder to begin from, which kept the state after that experience.
        at: After which experience: its name or number (1 is the first; 0 is the untrained model).
        **values: What is to be other than in the parent, as :func:`clframe.fit` takes it:
            ``strategy="er"``, ``max_epochs=2``, ``experience_order=[0, 1, 3, 2]``. What was
            learned already must stay what it was.

    Returns:
        The child's result; ``result.fork`` says where it began. Rows up to there are the parent's.

    Raises:
        ClframeError: There is no such run or state, or something given cannot be used.

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


def fork_words(path: Path, at: str | int, words: Sequence[str]) -> Result:
    """The same from the words of the command line."""
    return begin(Parent(path), at, compose_forked(str(path), words))


def begin(parent: Parent, at: str | int, config: RunConfig) -> Result:
    """Learn what is to come, from a state of the parent.

    Args:
        parent: The run.
        at: After which experience.
        config: The child's, without its beginning.
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
                f"'{parent.names[-1]}' was the last that '{parent.path}' learned, after which a "
                "method prepares nothing for what comes next: it is learned again"
            )
        return run(built.learner, built.stream, built.strategy, built.folder)


def changed_config(path: Path, values: Mapping[str, Any]) -> RunConfig:
    """The description of a run with other values, as :func:`clframe.fit` takes them."""
    for name in _OWN:
        if name in values:
            raise SettingError(f"fork makes a run of its own and takes no {name}")
    content = read_content(path)
    given = dict(values)
    known = {entry.name for entry in dataclasses.fields(RunConfig)}
    if "lr" in given:
        given["optimizer"] = {**content["optimizer"], "lr": given.pop("lr")}
    trainer = {name: given.pop(name) for name in list(given) if name not in known}
    for group, more in (("trainer", trainer), ("checkpoint", {})):
        content[group] = {**content[group], **(given.pop(group, None) or {}), **more}
    # What a run was made of in Python has to be given again, and cannot be read.
    for name in ("stream", "model"):
        if name in given:
            content[name] = {}
    if "strategy" in given:
        given.setdefault("strategy_name", None)
    content.pop("fork", None)
    named = given.pop("plugin_path", None)
    if named is not None:
        content |= {"plugin_path": [str(one) for one in as_list(named)], "plugin_files": None}
    typed = [f"{name}={value}" for name, value in given.items()]
    typed += [f"plugin_path={one}" for one in (content["plugin_path"] or ()) if named is not None]
    if "logger" not in given:
        check_places(content, path, typed)
    content["overrides"] = None
    return RunConfig.from_content(content, path, typed).replace(**given)


def _begun(parent: Parent, state: Mapping[str, Any], config: RunConfig) -> RunConfig:
    """The child's description, with where it begins."""
    if config.run_dir is False:
        raise SettingError("a fork is written to a folder, which run_dir=False does not give")
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
    """The parent's folder as seen from the child's; absolute where there is no way."""
    try:
        return Path(os.path.relpath(parent.resolve(), child.resolve())).as_posix()
    except ValueError:  # on another drive
        return str(parent.resolve())


def _say_changes(parent: Parent, built: Built) -> None:
    """Note what is other than in the parent, and say what becomes of plugins."""
    origin = built.content["fork"]
    before, now = parent.content["strategy"], built.content["strategy"]
    if before.keys() != now.keys():
        origin["changed"].append(f"strategy={override_value(built.strategy)}")
    origin["changed"] += differences(parent.content, built.content)
    for name in now:
        if name not in before:
            warn_user(f"plugin '{name}' is new at the fork and begins fresh")
    for name in before:
        if name not in now:
            warn_user(f"plugin '{name}' is gone at the fork and its state is dropped")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The settings in which two configs differ, as the second has them.

    >>> differences({"seed": 0, "optimizer": {"lr": 0.1}}, {"seed": 0, "optimizer": {"lr": 0.2}})
    ['optimizer.lr=0.2']
    """
    old, new = (
        dict(leaves({key: value for key, value in one.items() if key not in _NOT_COMPARED}))
        for one in (before, now)
    )
    return [f"{name}={override_value(new.get(name))}" for name in new if new[name] != old.get(name)]
