"""Check that a fork keeps the experiences learned before it; the first difference is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clframe.build import Built, build_stream
from clframe.config.run_config import RunConfig
from clframe.core.registry import discover
from clframe.data.identify import fingerprint, ids_of
from clframe.data.stream_order import in_order
from clframe.errors import RunFolderError, SettingError
from clframe.reproduce.parent import Parent
from clframe.runs.data_record import DATA, DataRecord, listed, read_record, taught
from clframe.utils.console import warn_user

if TYPE_CHECKING:
    from clframe.core.stream import Stream

_OF_STREAM = ("stream", "scenario", "seed")


def check_prefix(parent: Parent, learned: int, built: Built, config: RunConfig) -> None:
    """Refuse a child that would change an experience its parent has learned.

    Args:
        parent: The run to fork.
        learned: Number of experiences to keep.
        built: The child.
        config: The child's config.

    Raises:
        ClframeError: Names the first difference.
    """
    stream = built.stream
    names = [experience.name for experience in stream]
    for index, (was, now) in enumerate(zip(parent.names[:learned], [*names, None], strict=False)):
        if was != now:
            raise RunFolderError(
                f"run '{parent.path}' cannot be forked after {learned} experiences: the one of "
                f"number {index + 1} was '{was}' and would be '{now or 'none'}', but learned "
                "experiences must stay; change only later ones"
            )
    if learned >= len(names):
        raise SettingError(
            f"after '{parent.names[learned - 1]}' stream '{stream.name}' has nothing left to "
            "learn: give more data, or fork at an earlier experience"
        )
    same = "object" not in parent.content["stream"] and all(
        parent.content[key] == built.content[key] for key in _OF_STREAM
    )
    record = read_record(parent.path)
    if record is None or any(name not in record.experiences for name in parent.names[:learned]):
        _compare_unrecorded(parent, learned, stream, same, config)
    elif not same or record.own_data or parent.content.get("plugin_path"):
        # The parent's folder may have changed since; only its record tells what it learned.
        _compare(parent, learned, built, record)
    if names[learned:] != parent.names[learned:]:
        _check_plugins(parent, built)


def _compare(parent: Parent, learned: int, built: Built, record: DataRecord) -> None:
    """Compare tasks and data up to the fork with the parent's record.

    A later task may have other test data: the parent's results on it become unknown.
    """
    stream = built.stream
    past = stream.experiences[:learned]
    for experience in past:
        was, now = record.experiences[experience.name].tasks, taught(experience)
        if was != now:
            raise RunFolderError(
                f"run '{parent.path}' cannot be forked so: experience '{experience.name}' taught "
                f"{_task_text(was)} and would teach {_task_text(now)}"
            )
    before = {task.name for experience in past for task in experience.tasks}
    changes = record.changes(past, [task for task in stream.tasks if task.name in before])
    if changes:
        raise RunFolderError(
            f"run '{parent.path}' cannot be forked with this data: {listed(changes)}. Put the "
            "old data back and only add new experiences"
        )
    later = [task for task in stream.tasks if task.name not in before]
    other = [task.name for task in later if record.test_changed(task)]
    if other:
        built.content["fork"]["remeasured"] = other
    learned_before = DataRecord({e.name: record.experiences[e.name] for e in past})
    for name, (n, total) in learned_before.trained_on(later).items():
        warn_user(f"{n:,} of {total:,} test samples of task '{name}' were learned before the fork")


def _compare_unrecorded(
    parent: Parent, learned: int, stream: Stream, same: bool, config: RunConfig
) -> None:
    """Compare with a run of an older version, which recorded only its settings."""
    first = stream.experiences[0]
    if learned and ids_of(first.data) is not None:
        raise RunFolderError(
            f"run '{parent.path}' cannot be forked: it has no record of its data "
            f"('{DATA}'), so this data may differ. Train it again"
        )
    if same:
        return
    if "object" in parent.content["stream"]:
        sums = parent.state_after(learned)["identity"].get("data", {})
        if learned and sums.get(first.name) != fingerprint(first.data):
            raise _other_data(parent, first.name)
        return
    named = None if config.plugin_files else config.plugin_paths  # by the user, for this fork
    before = RunConfig.from_folder(parent.path, named)
    old = build_stream(before, discover(before.plugin_paths))
    old = in_order(old, parent.content["trainer"].get("experience_order"))
    for was, now in zip(old.experiences[:learned], stream.experiences, strict=False):
        if taught(was) != taught(now) or fingerprint(was.data) != fingerprint(now.data):
            raise _other_data(parent, was.name)


def _task_text(tasks: list[list[Any]]) -> str:
    index, name, outputs = tasks[0]
    return f"'{name}' (number {index}, outputs {outputs})"


def _other_data(parent: Parent, name: str) -> RunFolderError:
    return RunFolderError(
        f"run '{parent.path}' cannot be forked so: experience '{name}' was learned from other data "
        "than it would have; change only data after the fork"
    )


def _check_plugins(parent: Parent, built: Built) -> None:
    """Reject reordering for methods that looked at the order in advance."""
    kept: list[Any] = [
        plugin for plugin in built.learner.plugins.ordered if plugin.capabilities.order_dependent
    ]
    for plugin in kept:
        if plugin.name in parent.content["strategy"]:
            raise RunFolderError(
                f"run '{parent.path}' cannot be forked into another order or other data: plugin "
                f"'{plugin.name}' prepared for the original ones"
            )
