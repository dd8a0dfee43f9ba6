"""Weights & Biases: online where it can be, offline where it cannot, never a prompt or a hang.

``WANDB_MODE`` decides where it is set, as W&B's own conventions say. Otherwise the run is online if
a key is configured and the server answers within two seconds, and offline if not.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch.loggers import WandbLogger

from clframe.hookspecs import hookimpl
from clframe.runs.append_file import AppendOnlyFile
from clframe.utils.console import notice
from clframe.utils.files import write_json

if TYPE_CHECKING:
    from clframe.core.registry import Registry

_SECONDS = 2.0
_FILM = "films"
_TIMEOUTS = ("init_timeout", "finish_timeout", "login_timeout")


class WandbRun(WandbLogger):
    """Lightning's W&B logger, with a run of its own and a memory of what it was sent.

    Several loggers in one process (one per seed) have one W&B run each. All numbers are also kept
    in ``wandb/points.jsonl``. A run that is resumed is the same W&B run: online, what it logs again
    on the way to where it was killed is passed over; offline, W&B may have lost the last points and
    would begin to count anew, so the resumed run first logs all points again and takes the place
    of the file before it.

    Args:
        run_dir: The run folder; W&B's own files go below it.
        **settings: Of Lightning's logger.
    """

    remote = True
    """A server is involved, whose failures must not end the run."""

    def __init__(self, run_dir: Path, **settings: Any) -> None:
        self._folder = run_dir / "wandb"
        self._memory = self._folder / "clframe.json"
        known = _recall(self._memory)
        self._sent = int(known.get("sent", 0))
        self._calls = 0
        self._points = AppendOnlyFile(self._folder / "points.jsonl")
        super().__init__(save_dir=str(run_dir), id=known.get("id") or _new_id(), **settings)

    @property
    def experiment(self) -> Any:
        """The W&B run; offline if the server takes the connection and then does not answer."""
        if self._experiment is None:
            self._remember()
            try:
                self._begin()
            except Exception as error:
                if self._is_offline:
                    raise
                line = (str(error).strip().splitlines() or [type(error).__name__])[0]
                notice(f"W&B: {line}; this run is logged offline (wandb sync sends it)")
                self._wandb_init["mode"] = "offline"
                self._begin()
        return self._experiment

    @property
    def _is_offline(self) -> bool:
        return self._wandb_init.get("mode") in ("offline", "dryrun")

    def _begin(self) -> None:
        """Start a W&B run of this logger's own; offline with all points that there are."""
        import wandb as package

        before = sorted(self._folder.glob(f"offline-run-*-{self._id}")) if self._is_offline else []
        # Lightning would take over whatever run is open, such as another seed's.
        run = package.init(**self._wandb_init, reinit="create_new")
        if hasattr(run, "define_metric"):
            run.define_metric("trainer/global_step")
            run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
        self._experiment = run
        if self._is_offline:
            for point in self._known_points():
                run.log(self._with_film(point))
            self._sent = self._calls
            for folder in before:
                shutil.rmtree(folder, ignore_errors=True)

    def _known_points(self) -> list[dict[str, Any]]:
        """What was logged before, up to where this run is."""
        try:
            text = (self._folder / "points.jsonl").read_bytes()[: self._points.mark()["bytes"]]
            return [json.loads(line) for line in text.decode().splitlines()]
        except (OSError, ValueError):
            return []

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Send numbers, unless they were sent before the run was resumed."""
        point = {**metrics, **({} if step is None else {"trainer/global_step": step})}
        self._log(point, all(isinstance(value, int | float) for value in point.values()))

    def log_film(self, path: Path, step: int) -> None:
        """Send a film of the run folder, unless it was sent before the run was resumed."""
        place = path.relative_to(self._folder.parent).as_posix()
        self._log({_FILM: place, "trainer/global_step": step}, kept=True)

    def _log(self, point: dict[str, Any], kept: bool) -> None:
        run = self.experiment
        self._calls += 1
        if kept:
            self._points.append(json.dumps(point) + "\n")
        if self._calls > self._sent:
            run.log(self._with_film(point))
            self._sent = self._calls
            self._remember()

    def _with_film(self, point: dict[str, Any]) -> dict[str, Any]:
        """A point with the film itself in place of its name, if it is still there."""
        import wandb as package

        if not isinstance(point.get(_FILM), str):
            return point
        path = self._folder.parent / point[_FILM]
        rest = {name: value for name, value in point.items() if name != _FILM}
        return {**rest, _FILM: package.Video(str(path))} if path.is_file() else rest

    def finalize(self, status: str) -> None:
        """End the W&B run, marked as failed where the run did not come to its end."""
        super().finalize(status)
        if self._experiment is not None:
            self._experiment.finish(exit_code=0 if status == "success" else 1)

    def _remember(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(self._memory, {"id": self._id, "sent": self._sent})

    def state_dict(self) -> dict[str, Any]:
        """How often something has been logged, and where that ends in the file."""
        return {"calls": self._calls, "points": self._points.mark()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after so many."""
        self._calls = state["calls"]
        self._points.rollback(state["points"])


def _recall(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def _new_id() -> str:
    return secrets.token_hex(4)


def wandb(
    run_dir: Path,
    run_config: dict[str, Any],
    project: str = "clframe",
    name: str | None = None,
    entity: str | None = None,
    group: str | None = None,
    timeout: float = 30.0,
) -> WandbRun:
    """Weights & Biases: config, losses, the matrix as table and image, metrics.

    Args:
        run_dir: The run folder; W&B's own files go below it.
        run_config: The resolved config of the run.
        project: W&B project.
        name: Of the run; its folder if left out.
        entity: W&B user or team.
        group: W&B group; the seeds of ``seeds=[...]`` share one if left out.
        timeout: Seconds to wait for the server at the start and at the end of the run.
    """
    import wandb as package

    # Versions of W&B differ in which of these they know.
    known = package.Settings.model_fields
    patience: dict[str, Any] = {name: timeout for name in _TIMEOUTS if name in known}
    mode = os.environ.get("WANDB_MODE") or choose_mode()
    return WandbRun(
        run_dir,
        name=name or "-".join(run_dir.absolute().parts[-3:]),
        project=project,
        entity=entity,
        group=group,
        config=run_config,
        mode=mode,
        settings=package.Settings(**patience),
    )


def choose_mode() -> str:
    """Online or offline, with one sentence when it has to be offline."""
    address = server()
    if not has_key(address):
        notice("W&B: no API key is configured, so this run is logged offline (wandb sync sends it)")
        return "offline"
    if not answers(address):
        notice(
            f"W&B: {address} does not answer, so this run is logged offline (wandb sync sends it)"
        )
        return "offline"
    return "online"


def server() -> str:
    """The address of the W&B server."""
    return os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai"


def has_key(server: str) -> bool:
    """Whether W&B would find a key without asking for one."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    import netrc

    try:
        stored = netrc.netrc(os.environ.get("NETRC") or str(Path.home() / ".netrc"))
    except (OSError, netrc.NetrcParseError):
        return False
    return stored.authenticators(urllib.parse.urlparse(server).hostname or "") is not None


def answers(server: str) -> bool:
    """Whether a connection to the server can be opened in time."""
    address = urllib.parse.urlparse(server)
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        with socket.create_connection((address.hostname or "", port), timeout=_SECONDS):
            return True
    except OSError:
        return False


@hookimpl
def register(registry: Registry) -> None:
    """Add the logger."""
    registry.add("logger", "wandb", wandb)
