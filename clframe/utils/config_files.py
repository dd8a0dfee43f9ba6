"""The YAML files of the config groups: clframe's own, and those in the user's config folders.

A file starts with a command that uses it and a line that describes it::

    # clframe fit strategy=er
    # Experience replay.

``# @package`` may come before them. Files whose name begins with an underscore are included by
others and cannot be chosen.
"""

from __future__ import annotations

import copy
import functools
import importlib.resources
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from clframe.errors import SettingError

CONFIG_VARIABLE = "CLFRAME_CONFIG"
_STREAM_DEFAULTS = ("model", "trainer", "plugins", "learners")


@dataclass(frozen=True)
class ConfigFile:
    """A file that can be chosen as ``group=name``.

    Args:
        name: The name as it is typed; ``folder/name`` for a file in a subfolder.
        path: The file.
        from_user: Whether it is in one of the user's config folders.
    """

    name: str
    path: Path
    from_user: bool

    @property
    def command(self) -> str:
        """The command on its first line; empty if there is none."""
        return self._head()[0]

    @property
    def summary(self) -> str:
        """The line after the command."""
        return self._head()[1]

    def _head(self) -> tuple[str, str]:
        return read_head(self.path.read_text(encoding="utf-8"))

    def read(self) -> dict[str, Any]:
        """Return its content.

        Raises:
            SettingError: It is not a mapping.
        """
        try:
            content = copy.deepcopy(_content(self.path, self.path.stat().st_mtime_ns))
        except yaml.YAMLError as error:
            raise SettingError(
                f"'{self.path}' is not YAML: {' '.join(str(error).split())}"
            ) from error
        if content is not None and not isinstance(content, Mapping):
            raise SettingError(f"'{self.path}' must hold settings as key: value")
        return dict(content or {})


@functools.lru_cache(maxsize=256)
def _content(path: Path, changed: int) -> Any:
    """Return the content of a file; cached until the file changes, as a run asks several times."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def built_in_configs() -> Path:
    """Return the folder of clframe's own files."""
    return Path(str(importlib.resources.files("clframe.configs")))


def find_config_dirs(given: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Return the user's config folders: ``given`` ones, then those of ``$CLFRAME_CONFIG``.

    Raises:
        SettingError: One of them is not a folder.
    """
    named = [(Path(path), "config_dir") for path in given]
    for path in os.environ.get(CONFIG_VARIABLE, "").split(os.pathsep):
        if path:
            named.append((Path(path), f"${CONFIG_VARIABLE}"))
    for folder, origin in named:
        if not folder.expanduser().is_dir():
            raise SettingError(f"{origin}: there is no folder '{folder}'")
    return tuple(dict.fromkeys(folder.expanduser().resolve() for folder, _ in named))


def config_files(group: str, config_dirs: Sequence[Path] = ()) -> dict[str, ConfigFile]:
    """Return the files of a group by name.

    Raises:
        SettingError: A user's file has the name of another file.
    """
    files: dict[str, ConfigFile] = {}
    for folder in (built_in_configs(), *config_dirs):
        for path in sorted((folder / group).rglob("[!_]*.yaml")):
            name = path.relative_to(folder / group).with_suffix("").as_posix()
            if name in files:
                raise SettingError(
                    f"'{path}' has the name of '{files[name].path}'; rename one of them"
                )
            files[name] = ConfigFile(name, path, folder in config_dirs)
    return files


def read_head(text: str) -> tuple[str, str]:
    r"""Return the command and the summary at the start of a file.

    >>> read_head("# @package _global_\n# clframe fit strategy=er\n# Replay.\nreplay:")
    ('clframe fit strategy=er', 'Replay.')
    >>> read_head("# Replay.\nreplay:")
    ('', 'Replay.')
    """
    comments = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comment = line.removeprefix("#").strip()
        if not comment.startswith("@"):
            comments.append(comment)
    command = comments.pop(0) if comments and comments[0].startswith("clframe ") else ""
    return command, comments[0] if comments else ""


@functools.cache
def stream_defaults(family: str) -> Mapping[str, Any]:
    """Return the learning settings of a family of streams: ``configs/stream/_FAMILY.yaml``."""
    path = built_in_configs() / "stream" / f"_{family}.yaml"
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(content) <= set(_STREAM_DEFAULTS), path
    return content
