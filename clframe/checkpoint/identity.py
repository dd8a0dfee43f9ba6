"""The identity of a run, compared when the run is continued.

Settings, code, data and plugins are stored next to every checkpoint as plain JSON. If any of them
changed, the continued run would end with results that nobody can reproduce, so each difference is
named and refused unless the user allows it (``resume.allow=[trainer.batch_size]``).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.core.results import software
from clframe.data.identify import fingerprint, short_sum
from clframe.errors import RunFolderError, SettingError, nearest

if TYPE_CHECKING:
    from clframe.core.plugin import Plugin
    from clframe.core.stream import Stream

_FREE = (
    *("data_dir", "download", "logger", "checkpoint", "plugin_path", "plugin_files", "overrides"),
)
"""Settings that do not change a run's numbers, or are compared in another way."""
_FREE_OF_GROUPS = {"trainer": ("device_memory",), "logging": ("videos", "sample_images")}
_OF_FORK = ("at", "sha256")
"""Entries of a fork's origin that belong to its identity; its parent's folder may be moved."""
_NOT_SETTINGS = ("version", "data", "plugins", "device")
_OF_PROCESSES = ("trainer.devices", "trainer.num_nodes", "trainer.strategy")


def describe(config: Mapping[str, Any], plugins: Sequence[Plugin]) -> dict[str, Any]:
    """Return the identity of a run, as far as it is known before its data is loaded."""
    made_by = software()
    groups = {
        group: {name: value for name, value in config.get(group, {}).items() if name not in free}
        for group, free in _FREE_OF_GROUPS.items()
    }
    return {
        **{key: value for key, value in config.items() if key not in _FREE},
        **groups,
        **({"fork": {k: config["fork"][k] for k in _OF_FORK}} if "fork" in config else {}),
        "version": {
            "clframe": made_by["clframe"],
            "revision": made_by["revision"],
            "torch": made_by["versions"]["torch"],
        },
        "plugins": {plugin.name: _code(plugin) for plugin in plugins},
    }


def describe_data(stream: Stream) -> dict[str, Any]:
    """Return the identity of a stream's data: its shape, and the first experience's samples."""
    first = stream.experiences[0]
    return {
        "stream": short_sum(
            [stream.name, stream.scenario, list(stream.input_shape), stream.n_outputs],
            [experience.name for experience in stream],
            [[task.name, list(task.outputs)] for task in stream.tasks],
        ),
        "source": stream.source,
        first.name: fingerprint(first.data),
    }


def _code(plugin: Plugin) -> str:
    """Return a plugin's class and, unless it comes with clframe, the checksum of its file."""
    kind = type(plugin)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__module__.split(".")[0] in ("clframe", "clframe_contrib"):
        return name  # The version of clframe is compared as a whole.
    try:
        return f"{name} {short_sum(Path(inspect.getfile(kind)).read_bytes())}"
    except (OSError, TypeError):
        return name


def compare(
    saved: Mapping[str, Any], now: Mapping[str, Any], allow: Sequence[str], folder: Path
) -> list[str]:
    """Refuse to continue another run; return the differences that are allowed.

    Args:
        saved: The identity stored with the checkpoint.
        now: The identity of the run that continues it.
        allow: Names of allowed differences; a group allows all of its settings.
        folder: The run folder, for the message.

    Raises:
        RunFolderError: Lists every difference that is not allowed.
    """
    if not saved or not now:
        return []
    before, after = _flat(saved), _flat(now)
    made_of = [key for key in {*before, *after} if key.startswith(("strategy.", "plugins."))]
    if any(before.get(key) != after.get(key) for key in made_of):
        # A change of a choice also changes its settings; it is reported once.
        before.pop("strategy_name", None)
        after.pop("strategy_name", None)
    allowable = {".".join(key.split(".")[:n]) for key in {*before, *after} for n in (1, 2, 3)}
    allowable.add("files")  # The run folder compares them.
    for name in allow:
        if name not in allowable:
            raise SettingError(
                f"resume.allow: '{name}' is not a difference; {nearest(name, allowable)}"
            )
    allowed: list[tuple[str, str]] = []
    refused: list[tuple[str, str]] = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old != new:
            text = f"{key} was {_short(old)} and is {_short(new)}"
            is_allowed = any(key == name or key.startswith(f"{name}.") for name in allow)
            (allowed if is_allowed else refused).append((key, text))
    if refused:
        names = ",".join(dict.fromkeys(_group(key) for key, _ in refused))
        raise RunFolderError(
            f"run '{folder}' cannot be continued as the same run: "
            f"{'; '.join(text for _, text in refused)}. If that is intended, add "
            f"resume.allow=[{names}]"
        )
    return [text for _, text in allowed]


def check_settings(saved: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Refuse to read a run with other settings than it was made with.

    Versions, data, device and processes may differ, because this is for examining their effect. A
    run keeps all its settings, so a setting that it lacks was added in a later version.

    Args:
        saved: The identity stored with the checkpoint.
        now: The identity according to ``config.yaml``.
        folder: The run folder, for the message.

    Raises:
        RunFolderError: For the first setting that differs.
    """
    flat, flat_now = (
        {k: v for k, v in _flat(identity).items() if k.split(".")[0] not in _NOT_SETTINGS}
        for identity in (saved, now)
    )
    same_version = saved.get("version") == now.get("version")
    for key in dict.fromkeys((*flat, *(flat_now if same_version else ()))):
        if flat.get(key) != flat_now.get(key) and key not in _OF_PROCESSES:
            raise RunFolderError(
                f"'{folder / 'config.yaml'}' is not what the run was made with: {key} was "
                f"{_short(flat.get(key))} and is {_short(flat_now.get(key))}; put it back"
            )


def _group(key: str) -> str:
    """Return the name that allows a difference: a setting's own, else its group's."""
    return key.split(".")[0] if key.startswith(("version.", "data.", "plugins.")) else key


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            flat |= _flat(item, f"{name}.")
        else:
            flat[name] = list(item) if isinstance(item, tuple) else item
    return flat


def _short(value: Any) -> str:
    text = "missing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
