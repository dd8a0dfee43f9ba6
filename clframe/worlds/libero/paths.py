"""Where the real LIBERO's parts are on this machine, and what to do about those that are absent.

Nothing of it comes with clframe: the package ``hf-libero`` brings environments, task descriptions
and initial states; meshes and demonstrations are the user's to fetch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from clframe.errors import DataError
from clframe.worlds.libero.tasks import LiberoTask

PACKAGES = ("hf-libero", "robosuite", "bddl", "mujoco")
_SMALL = ("easydict", "termcolor", "future", "cloudpickle", "numba", "scipy", "gymnasium", "h5py")
INSTALL = (
    "pip install 'clframe[libero]', then pip install --no-deps hf-libero==0.1.4 robosuite==1.4.0 "
    "bddl==1.0.1"
)
_TOO_NEW = (3, 10)
"""MuJoCo 3.10 changed a function that robosuite 1.4 calls."""


def versions() -> dict[str, str]:
    """The versions that decide what an episode looks like; '?' where one is not installed."""
    return {package: _version(package) or "?" for package in ("hf-libero", "robosuite", "mujoco")}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def not_usable() -> str | None:
    """Why LIBERO's environments cannot be used here, or None."""
    missing = [package for package in (*PACKAGES, *_SMALL) if _version(package) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        return f"{', '.join(missing)} {are} not installed: {INSTALL}"
    robosuite, mujoco = versions()["robosuite"], versions()["mujoco"]
    if not robosuite.startswith("1.4."):
        return f"robosuite {robosuite} is installed, but hf-libero needs 1.4.0: {INSTALL}"
    if _numbers(mujoco) >= _TOO_NEW:
        return (
            f"MuJoCo {mujoco} is installed, with which robosuite {robosuite} does not work: "
            "pip install 'mujoco<3.10', in an environment of its own"
        )
    return None


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version.

    >>> _numbers("3.8.1") < (3, 10)
    True
    """
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def package_folder() -> Path | None:
    """Where the package keeps its files; found without importing it, since that asks questions."""
    spec = find_spec("libero")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(place) / "libero" / "bddl_files").is_dir():
            return Path(place) / "libero"
    return None


@dataclass(frozen=True)
class Places:
    """Where to look.

    Args:
        data_dir: The data folder.
        assets: Meshes and scenes; None is ``libero/assets`` of the data folder, or the package's.
        init_states: Folder of the suites' folders of initial states; None is ``libero/init_files``
            of the data folder, or the package's.
        demonstrations: Folder of the suites' folders of demonstrations; None is
            ``libero/datasets`` of the data folder.
    """

    data_dir: Path
    assets: Path | None = None
    init_states: Path | None = None
    demonstrations: Path | None = None

    @classmethod
    def of(cls, data_dir: Path, given: Mapping[str, str | None]) -> Places:
        """From settings, in which a path may begin with ``~``."""
        paths = {name: Path(path).expanduser() for name, path in given.items() if path is not None}
        return cls(data_dir, **{name: path.absolute() for name, path in paths.items()})

    def _first(self, given: Path | None, name: str) -> list[Path]:
        """The folders where something may be, in the order of looking."""
        if given is not None:
            return [given]
        package = package_folder()
        return [
            self.data_dir / "libero" / name,
            *([] if package is None else [package / name]),
        ]

    def asset_folder(self) -> Path:
        """The folder of meshes and scenes."""
        tried = self._first(self.assets, "assets")
        for folder in tried:
            if (folder / "scenes").is_dir():
                return folder
        raise DataError(
            f"LIBERO's assets are not in {_or(tried)}: put the folder libero/libero/assets of "
            "LIBERO's repository (with scenes/, articulated_objects/, ...) there, or say "
            "stream.assets=DIR"
        )

    def init_file(self, task: LiberoTask) -> Path:
        """The file of a task's initial states."""
        tried = self._first(self.init_states, "init_files")
        for folder in tried:
            path = folder / task.suite / f"{task.name}.pruned_init"
            if path.is_file():
                return path
        raise DataError(
            f"the initial states of '{task.name}' are not in {_or(tried)}: put LIBERO's "
            f"{task.suite}/{task.name}.pruned_init there, or say stream.init_states=DIR"
        )

    def demonstration_file(self, task: LiberoTask) -> Path:
        """Where a task's demonstrations are, or should be."""
        folder = self.demonstrations or self.data_dir / "libero" / "datasets"
        return folder / task.suite / f"{task.name}_demo.hdf5"

    def bddl_file(self, task: LiberoTask) -> Path:
        """The package's own task description."""
        package = package_folder()
        if package is None:
            raise DataError(f"the package hf-libero is not installed: {INSTALL}")
        return package / "bddl_files" / task.suite / f"{task.name}.bddl"

    @property
    def record(self) -> Path:
        """The file that records how start states settle."""
        return self.data_dir / "libero" / "start_states.jsonl"


def _or(folders: list[Path]) -> str:
    return " or ".join(f"'{folder}'" for folder in folders)
