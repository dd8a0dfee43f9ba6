"""Read the ``config.yaml`` of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clframe.config.groups import NAMED, SETTINGS, SEVERAL
from clframe.errors import RunFolderError, SettingError
from clframe.runs.folder import RunFolder

_GROUPS = (*NAMED, *SEVERAL, *SETTINGS)
"""The entries of ``config.yaml`` that are settings by name."""
_MOVED = ("eval_batch_size", "evaluate_every", "log_every_n_steps", "sample_images")
_SINGLE: dict[str, tuple[type, ...]] = {
    "scenario": (str,),
    "seed": (int,),
    "data_dir": (str, type(None)),
    "download": (bool,),
    "active_outputs": (str,),
    "pretrain": (str, type(None)),
    "plugin_path": (list, type(None)),
    "strategy_name": (str,),
}
"""The other entries, with their types."""


def refuse_objects(content: Mapping[str, Any], path: str | Path) -> None:
    """Refuse a run that was made with Python objects, which a file cannot describe.

    Raises:
        SettingError: Names the object.
    """
    for group in ("stream", "model"):
        if "object" in (content.get(group) or {}):
            raise SettingError(
                f"run '{path}' was made in Python with a {group} of its own "
                f"({content[group]['object']}); continue it there with "
                "clframe.fit(..., resume=...)"
            )


def read_content(path: str | Path) -> dict[str, Any]:
    """Read the ``config.yaml`` of a run, in the form that every run writes.

    Raises:
        RunFolderError: The folder holds no run, or clframe has not written its config.
    """
    folder = RunFolder(Path(path))
    content = folder.read_config()
    trainer = content.get("trainer")
    moved = [name for name in _MOVED if isinstance(trainer, Mapping) and name in trainer]
    if moved:
        raise RunFolderError(
            f"'{folder.config}' was written by an older version of clframe, which had "
            f"{', '.join(moved)} in 'trainer'; start the run again with this version"
        )
    for problem in _problems(content):
        raise RunFolderError(f"'{folder.config}' {problem}; put back a copy of the file")
    return content


def _problems(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield each reason why clframe has not written the content of this ``config.yaml``."""
    for name, kinds in {**dict.fromkeys(_GROUPS, (dict,)), **_SINGLE}.items():
        if name not in content:
            yield f"lacks '{name}', which every run writes"
        elif type(content[name]) not in kinds:
            expected = "a mapping of settings" if kinds == (dict,) else f"a {kinds[0].__name__}"
            yield f"has {str(content[name])[:40]!r} as '{name}', which must be {expected}"
    for name in NAMED:
        if not isinstance(content[name].get("name", content[name].get("object")), str):
            yield f"lacks the name of '{name}'"
    if "fork" in content and not is_origin(content["fork"]):
        yield "has a 'fork' without the run and the state that it began with"
    for name in SEVERAL:
        for entry, settings in content[name].items():
            if not isinstance(entry, str) or not isinstance(settings, dict | None):
                yield f"has no mapping of settings as '{name}.{entry}'"


def is_origin(value: Any) -> bool:
    """Return whether a value is the origin of a forked run, as ``clframe.fork`` writes it."""
    kinds = {"run": str, "at": int, "experience": str, "sha256": str, "changed": list}
    return isinstance(value, Mapping) and all(
        type(value.get(name)) is kind for name, kind in kinds.items()
    )
