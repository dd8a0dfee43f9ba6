"""The folder of one run: its path and its files."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clframe.checkpoint.settings import CheckpointSettings
from clframe.checkpoint.store import CheckpointStore
from clframe.core.registry import LoadedFile
from clframe.core.results import Result
from clframe.errors import ClframeError, RunFolderError
from clframe.recording.results_file import RESULTS, read_text, refuse_links
from clframe.runs import csv_prefix
from clframe.runs.data_record import DATA
from clframe.runs.fork_source import Origin
from clframe.runs.reader import CONFIG, EVENTS, LOG, LONGEST_CONFIG, parse_config
from clframe.runs.received import confirm_run
from clframe.runs.status import STATUS
from clframe.utils import checksums
from clframe.utils.checksums import SUMS, write_sums
from clframe.utils.console import truncate, warn_user
from clframe.utils.files import make_folder, remove_temporary, write_bytes, write_json, write_text
from clframe.utils.lock import Lock
from clframe.utils.plain_yaml import as_yaml

LOG_FILES = ("data-log.tsv", "logger_info.json", "scenario_info.json")
"""Files of a run."""


class RunFolder:
    """Paths and writers of a run's files.

    Args:
        path: The folder; made when the run begins.
        resumed: Whether it holds a run that is continued.
    """

    def __init__(self, path: Path, resumed: bool = False) -> None:
        self.path = path
        self.resumed = resumed
        self.begun = False
        """Whether training has begun. An earlier failure leaves no new folder behind."""
        self.config = path / CONFIG
        self.results = path / RESULTS
        self.matrix = path / "matrix.csv"
        self.events = path / EVENTS
        self.data = path / DATA
        self.log = path / LOG
        self.lock = Lock(
            path / ".lock",
            lambda holder: RunFolderError(
                f"run folder '{path}' is in use by {holder}; wait for it to end, or give another "
                "run_dir"
            ),
        )
        self.saving = CheckpointSettings()
        """Settings of how often the run is saved."""
        self.identity: dict[str, Any] = {}
        """Identity of the run; see :mod:`clframe.checkpoint.identity`."""
        self.allowed: Sequence[str] = ()
        """Differences to the saved identity that are allowed."""
        self.origin: Origin | None = None
        """The state of another run that this one starts from, if it is forked."""
        self._content: dict[str, Any] = {}
        self._config_text = ""
        self._files: Sequence[LoadedFile] = ()
        self._created: list[Path] = []

    def configure(
        self, saving: CheckpointSettings, allowed: Sequence[str] = (), origin: Origin | None = None
    ) -> None:
        """Set how often the run is saved, what may differ on resume, and what it is forked from."""
        self.saving, self.allowed, self.origin = saving, allowed, origin

    def begin(self) -> None:
        """Record that training begins: from now on, a failure keeps the folder."""
        self.begun = True

    def identify(self, **facts: Any) -> None:
        """Add facts to the identity that a resumed run is compared with."""
        self.identity.update(facts)

    @property
    def checkpoints(self) -> CheckpointStore:
        """The run's checkpoints."""
        saving = self.saving
        return CheckpointStore(self.path / "checkpoints", saving.keep, saving.room())

    @classmethod
    def default(cls, stream: str, strategy: str, seed: int) -> RunFolder:
        """Return a new folder under ``runs/``, named by the time and the seed."""
        now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        base = Path("runs") / stream / strategy
        path, number = base / f"{now}-s{seed}", 1
        while path.exists():  # two runs of one seed in one second
            number += 1
            path = base / f"{now}-s{seed}-{number}"
        return cls(path)

    def check(self) -> None:
        """Refuse a folder that cannot be written or holds another run, before anything is made.

        Raises:
            RunFolderError: With the path and the reason.
        """
        try:
            is_file = self.path.exists() and not self.path.is_dir()
        except OSError as error:  # a name that no file system accepts
            shown = truncate(str(self.path), 40)
            raise RunFolderError(
                f"run_dir '{shown}' cannot be made: {error.strerror}; give a shorter name"
            ) from error
        if is_file:
            raise RunFolderError(f"run_dir '{self.path}' is a file; give a folder")
        if self.config.exists():
            raise RunFolderError(
                f"run_dir '{self.path}' holds a run already; give another folder, or "
                f"resume={self.path} to continue it"
            )
        parent = self.path
        while not parent.exists():
            parent = parent.parent
        if not parent.is_dir():
            raise RunFolderError(f"run_dir '{self.path}' cannot be made: '{parent}' is a file")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise RunFolderError(
                f"run_dir '{self.path}' cannot be written: no permission on '{parent}'"
            )

    def describe(
        self,
        content: dict[str, Any],
        identity: dict[str, Any],
        files: Sequence[LoadedFile] = (),
    ) -> None:
        """Set the content of config.yaml and the identity of the run.

        Args:
            content: Content of config.yaml.
            identity: See :mod:`clframe.checkpoint.identity`.
            files: The plugin files, of which the run keeps copies.
        """
        self._content, self.identity, self._files = content, identity, files

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Make or enter the folder, and lock other processes out.

        A failure before training has begun removes a new folder again. The lock stays until its
        holder releases it, when nothing writes to the folder any more.
        """
        self._enter()
        try:
            yield
        except Exception:
            if not self.resumed and not self.begun:
                self._discard()
            raise
        finally:
            if self.begun:
                self._report_changes()
            self._write_sums()

    def _enter(self) -> None:
        self._created = [path for path in (self.path, *self.path.parents) if not path.exists()]
        try:
            make_folder(self.path)
            self.lock.take()
            if not self.resumed:
                self.check()  # Another process may have made a run here in the meantime.
            remove_temporary(self.path)
            self.checkpoints.tidy()
            if not self.resumed or not self.checkpoints.numbers():
                self._write_plugins()
                self.write_config()
                write_text(self.events, "")
                self.data.unlink(missing_ok=True)
            self._config_text = read_text(self.config) or ""
        except OSError as error:
            self.lock.release()
            file = "" if error.filename in (None, str(self.path)) else f" ('{error.filename}')"
            raise RunFolderError(
                f"run_dir '{self.path}' cannot be written: {error.strerror}{file}"
            ) from error

    def unseal(self) -> None:
        """Remove the list of checksums while files change; :meth:`entered` writes it again."""
        (self.path / SUMS).unlink(missing_ok=True)

    def _report_changes(self) -> None:
        """Warn about files that somebody changed or removed during the run; restore config.yaml."""
        with contextlib.suppress(OSError):  # A full disk or a removed folder is reported elsewhere.
            if not self.path.is_dir():
                return
            if not self.events.is_file():
                warn_user(f"'{self.events}' was removed during the run; its lines are lost")
            if not self._config_text:
                return  # The run was made without one.
            if not self.config.is_file():
                warn_user(f"'{self.config}' was removed during the run and has been written again")
            elif read_text(self.config) != self._config_text:
                kept = self.config.with_name(f"{CONFIG}.changed")
                os.replace(self.config, kept)
                warn_user(
                    f"'{self.config}' was changed during the run: the change is now in "
                    f"'{kept.name}', and the run's own config has been restored"
                )
            else:
                return
            write_text(self.config, self._config_text)

    def _write_sums(self) -> None:
        """Write checksums of the files that readers rely on, when a run ends or is stopped."""
        if not self.begun or not self.checkpoints.numbers():
            return
        log = [path for path in self.log.rglob("*") if path.name in LOG_FILES]
        plugins = [path for path, _ in self._copies()]
        own = (self.config, self.results, self.matrix, self.events, self.data)
        files = (*own, *plugins, *sorted(log))
        with contextlib.suppress(OSError):  # A full disk has been reported.
            write_sums(self.path, (path.relative_to(self.path).as_posix() for path in files))

    def check_files(self, marks: Mapping[str, dict[str, Any]]) -> None:
        """Refuse to continue if a file that the run appends to has changed.

        Args:
            marks: The mark of each file at the checkpoint.

        Raises:
            RunFolderError: For the first changed file, unless ``resume.allow`` has ``files``.
        """
        for name, mark in marks.items():
            check = csv_prefix.problem_with if "columns" in mark else checksums.problem_with
            problem = check(self.path / name, mark)
            if problem is None:
                continue
            if "files" not in self.allowed:
                raise RunFolderError(
                    f"run '{self.path}' cannot be continued as the same run: '{self.path / name}' "
                    f"{problem}. Put back a copy of it, or add resume.allow=[files] to continue "
                    "with the rest of it"
                )
            warn_user(f"'{self.path / name}' {problem}, as resume.allow says")

    def _discard(self) -> None:
        """Remove a run that never began, and the folders that were made for it."""
        if self.origin is not None:
            self.origin.take_back(self.checkpoints, self.path)
        for path in (self.config, self.events, self.path / STATUS, self.lock.path):
            path.unlink(missing_ok=True)
        copies = [path for path, _ in self._copies()]
        for path in copies:
            path.unlink(missing_ok=True)
        made = {parent for path in copies for parent in path.parents if parent != self.path}
        made = {path for path in made if path.is_relative_to(self.path)}
        for path in (*sorted(made, reverse=True), *self._created):
            with contextlib.suppress(OSError):  # Somebody else's files are in it.
                path.rmdir()

    def _copies(self) -> list[tuple[Path, LoadedFile]]:
        """Return the plugin files with the paths of their copies."""
        copies = [self.path / entry["file"] for entry in self._content.get("plugin_files") or ()]
        return list(zip(copies, self._files, strict=False))

    def _write_plugins(self) -> None:
        """Copy the plugin files and record that the user has confirmed this code."""
        for path, file in self._copies():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, file.content)
        try:
            confirm_run(self._content, {file.sha256: file.path.name for file in self._files})
        except ClframeError as error:
            warn_user(f"{error}; to continue this run later, name its plugin_path again")

    def write_config(self) -> None:
        """Write config.yaml."""
        if self._content:
            self._config_text = as_yaml(self._content)
            write_text(self.config, self._config_text)

    def read_config(self) -> dict[str, Any]:
        """Return the config of an existing run."""
        refuse_links(self.path)
        text = read_text(self.config, LONGEST_CONFIG) if self.config.is_file() else None
        if text is None:
            raise RunFolderError(f"'{self.path}' is not a run folder: it has no {CONFIG}")
        config = parse_config(text, self.config)
        if not config:
            raise RunFolderError(f"'{self.config}' is not a config: it holds no settings")
        return config

    def write(self, result: Result) -> None:
        """Write the matrix and the results."""
        write_text(self.matrix, result.matrix.to_csv())
        write_json(self.results, result.to_json())
