"""What was learned before a fork stays what it was: the first difference is named and refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clframe.build import Built, build_stream
from clframe.checkpoint.identity import fingerprint
from clframe.config.run_config import RunConfig
from clframe.core.registry import discover
from clframe.core.stream_order import in_order
from clframe.errors import RunFolderError, SettingError
from clframe.lineage.parent import Parent

if TYPE_CHECKING:
    from clframe.core.stream import Stream

_OF_STREAM = ("stream", "scenario", "seed")


def check_prefix(parent: Parent, learned: int, built: Built, config: RunConfig) -> None:
    """Refuse a child in which anything that its parent has learned would be something else.

    Args:
        parent: The run that is forked.
        learned: After how many experiences.
        built: The child.
        config: Of the child.

    Raises:
        ClframeError: With the first difference.
    """
    stream = built.stream
    names = [experience.name for experience in stream]
    for place, (was, now) in enumerate(zip(parent.names[:learned], [*names, None], strict=False)):
        if was != now:
            raise RunFolderError(
                f"run '{parent.path}' cannot be forked after {learned} experiences: the one of "
                f"number {place + 1} was '{was}' and would be '{now or 'none'}', but what was "
                "learned already stays; change what comes after it"
            )
    if learned >= len(names):
        raise SettingError(
            f"after '{parent.names[learned - 1]}' nothing is left of stream '{stream.name}' to "
            "learn: give more data, or fork at an earlier experience"
        )
    known = "object" not in parent.content["stream"]  # of one made in Python, only the class is
    if not known or any(parent.content[key] != built.content[key] for key in _OF_STREAM):
        _compare(parent, learned, stream, config)
    if names[learned:] != parent.names[learned:]:
        _check_plugins(parent, built)


def _compare(parent: Parent, learned: int, stream: Stream, config: RunConfig) -> None:
    """Whether another stream has the same tasks and data up to the fork."""
    if "object" in parent.content["stream"]:
        known = parent.state_after(learned)["identity"].get("data", {})
        first = stream.experiences[0]
        if learned and known.get(first.name) != fingerprint(first.data):
            raise _other_data(parent, first.name)
        return
    named = None if config.plugin_files else config.plugin_paths  # by the user, for this fork
    before = RunConfig.from_folder(parent.path, named)
    old = build_stream(before, discover(before.plugin_paths))
    old = in_order(old, parent.content["trainer"].get("experience_order"))
    for was, now in zip(old.experiences[:learned], stream.experiences, strict=False):
        tasks = [
            [(task.index, task.name, list(task.outputs)) for task in one.tasks]
            for one in (was, now)
        ]
        if tasks[0] != tasks[1]:
            raise RunFolderError(
                f"run '{parent.path}' cannot be forked so: experience '{was.name}' taught "
                f"{_words(tasks[0])} and would teach {_words(tasks[1])}"
            )
        if fingerprint(was.data) != fingerprint(now.data):
            raise _other_data(parent, was.name)


def _words(tasks: list[tuple[int, str, list[int]]]) -> str:
    index, name, outputs = tasks[0]
    return f"'{name}' (number {index}, outputs {', '.join(map(str, outputs[:10]))})"


def _other_data(parent: Parent, name: str) -> RunFolderError:
    return RunFolderError(
        f"run '{parent.path}' cannot be forked so: experience '{name}' was learned from other data "
        "than it would have; change what comes after the fork"
    )


def _check_plugins(parent: Parent, built: Built) -> None:
    """Refuse another order to a method that looked at the one that was to come."""
    kept: list[Any] = [plugin for plugin in built.learner.plugins.ordered if plugin.looks_ahead]
    for plugin in kept:
        if plugin.name in parent.content["strategy"]:
            raise RunFolderError(
                f"run '{parent.path}' cannot be forked into another order or other data: plugin "
                f"'{plugin.name}' had learned for those that were to come"
            )
