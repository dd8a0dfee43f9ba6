"""What a run is made of, and what of it is different when it is to be continued.

Settings, code, data and plugins are put beside every checkpoint as plain JSON. A run continued
with anything else would end with numbers that nobody can make again, so each difference is named
and refused, unless the user says that it is meant (``resume.allow=[trainer.batch_size]``).
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
"""Settings that do not change a run's numbers, or whose effect is compared in another way."""
_FREE_OF_GROUPS = {"trainer": ("device_memory",), "logging": ("videos", "sample_images")}
_OF_FORK = ("at", "sha256")
"""What of a forked run's beginning is part of it; its parent's folder may be moved."""
_NOT_SETTINGS = ("version", "data", "plugins", "device")
_OF_PROCESSES = ("trainer.devices", "trainer.num_nodes", "trainer.strategy")


def describe(config: Mapping[str, Any], plugins: Sequence[Plugin]) -> dict[str, Any]:
    """The identity of a run as far as it is known before its data is there."""
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
    """What a stream's data is: its shape, and the first experience's samples."""
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
    """Which code a plugin is: its class, and for one that is not clframe's own, its file's sum."""
    kind = type(plugin)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__module__.split(".")[0] in ("clframe", "clframe_contrib"):
        return name  # their version is compared as a whole
    try:
        return f"{name} {short_sum(Path(inspect.getfile(kind)).read_bytes())}"
    except (OSError, TypeError):
        return name


def compare(
    saved: Mapping[str, Any], now: Mapping[str, Any], allow: Sequence[str], folder: Path
) -> list[str]:
    """Refuse to continue what is not the same run; returns the differences that were allowed.

    Args:
        saved: The identity beside the checkpoint.
        now: The identity of the run that would continue it.
        allow: Names of differences that are meant; a group allows all in it.
        folder: The run folder, for the message.

    Raises:
        RunFolderError: With every difference that is not allowed.
    """
    if not saved or not now:
        return []
    before, after = _flat(saved), _flat(now)
    made_of = [key for key in {*before, *after} if key.startswith(("strategy.", "plugins."))]
    if any(before.get(key) != after.get(key) for key in made_of):
        # What is called otherwise because it is something else is not named twice.
        before.pop("strategy_name", None)
        after.pop("strategy_name", None)
    allowable = {".".join(key.split(".")[:n]) for key in {*before, *after} for n in (1, 2, 3)}
    allowable.add("files")  # compared by the run folder
    for name in allow:
        if name not in allowable:
            raise SettingError(
                f"resume.allow: nothing is called '{name}'; {nearest(name, allowable)}"
            )
    allowed: list[tuple[str, str]] = []
    refused: list[tuple[str, str]] = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old != new:
            words = f"{key} was {_short(old)} and is {_short(new)}"
            is_allowed = any(key == name or key.startswith(f"{name}.") for name in allow)
            (allowed if is_allowed else refused).append((key, words))
    if refused:
        names = ",".join(dict.fromkeys(_group(key) for key, _ in refused))
        raise RunFolderError(
            f"run '{folder}' cannot be continued as the same run: "
            f"{'; '.join(words for _, words in refused)}. If that is intended, add "
            f"resume.allow=[{names}]"
        )
    return [words for _, words in allowed]


def check_settings(saved: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Refuse to look at a run with other settings than it was made with.

    Versions, data, device and processes may be others: what they do to the run is looked at. All
    settings are kept with a run, so one that a run by another version has not kept came later.

    Args:
        saved: The identity beside the checkpoint.
        now: The identity that ``config.yaml`` gives.
        folder: The run folder, for the message.

    Raises:
        RunFolderError: With the first setting that differs.
    """
    flat, flat_now = (
        {k: v for k, v in _flat(one).items() if k.split(".")[0] not in _NOT_SETTINGS}
        for one in (saved, now)
    )
    same_version = saved.get("version") == now.get("version")
    for key in dict.fromkeys((*flat, *(flat_now if same_version else ()))):
        if flat.get(key) != flat_now.get(key) and key not in _OF_PROCESSES:
            raise RunFolderError(
                f"'{folder / 'config.yaml'}' is not what the run was made with: {key} was "
                f"{_short(flat.get(key))} and is {_short(flat_now.get(key))}; put it back"
            )


def _group(key: str) -> str:
    """What to allow for a difference: a setting by its name, all else by its group."""
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
