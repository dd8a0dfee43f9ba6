"""Weights & Biases: online if possible, else offline, never a prompt or a hang.

``logger.wandb.mode`` decides, then ``WANDB_MODE``, as usual with W&B. Otherwise the run is online
if a key is configured and the server answers within two seconds, and offline if not.
"""

from __future__ import annotations

import html
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lightning.pytorch.loggers import WandbLogger

from clframe.hookspecs import hookimpl
from clframe.loggers._wandb_server import answers, choose_mode, has_key, server
from clframe.recording.logger import RunLogger
from clframe.recording.media import Media
from clframe.runs.append_file import AppendOnlyFile
from clframe.runs.fork_source import notes
from clframe.utils.checksums import mark_of
from clframe.utils.console import warn_user
from clframe.utils.files import sync_file, write_json

if TYPE_CHECKING:
    from clframe.core.registry import Registry

__all__ = ["WandbRun", "answers", "choose_mode", "has_key", "server", "wandb"]

MEMORY = "clframe.json"
"""The id of the W&B run, in ``wandb/`` of the run folder."""
POINTS = "points.jsonl"
"""Everything that was logged, in the same folder."""
_STEP = "trainer/global_step"
_AXIS = "experience"
_BY_EXPERIENCE = ("eval/", "matrix", "videos", "samples")
_MEDIA = "_media"
_ARTIFACT = "_artifact"
_TIMEOUTS = ("init_timeout", "finish_timeout", "login_timeout")
_EXIT_CODES = {"success": 0, "stopped": 255}
"""W&B's exit code for a run that Ctrl-C has ended is 255; other codes except 0 are failures."""
_taken: set[str] = set()
"""Ids from the environment that already belong to a run of this process."""


class WandbRun(WandbLogger, RunLogger):
    """Lightning's W&B logger, with its own W&B run and a record of everything sent.

    Several loggers in one process (one per seed) have one W&B run each. All logged data is also
    kept in ``wandb/points.jsonl``, media as the names of their files. A resumed run continues the
    same W&B run. Online, W&B reports how many points it has, and gets the others. Offline, W&B may
    have lost the last points and cannot continue a file, so the resumed run logs all points again
    and replaces the previous file: one folder holds the whole run.

    Args:
        run_dir: The run folder; W&B's own files go below it.
        log_model: Whether to log checkpoints as artifacts: the last one, or ``all``.
        pretrain: The run folder that the model's weights come from.
        **settings: Settings of Lightning's logger.
    """

    remote = True
    title = "W&B"
    takes_media = True

    def __init__(
        self,
        run_dir: Path,
        log_model: bool | Literal["all"] = False,
        pretrain: str | None = None,
        **settings: Any,
    ) -> None:
        self._run_dir, self._folder = run_dir, run_dir / "wandb"
        self._memory = self._folder / MEMORY
        known_id = run_id(run_dir)
        self._resumed = known_id is not None
        self._pretrain = pretrain
        self._rows = 0
        """Rows of this run so far; W&B has ``_sent`` of them, or more after a kill."""
        self._sent = 0
        self._points = AppendOnlyFile(self._folder / POINTS)
        # Until a state is loaded: a run that was killed before its first save starts again.
        self._points.rollback({**mark_of(b""), "bytes": 0})
        self._defined: set[str] = set()
        super().__init__(save_dir=str(run_dir), id=known_id or _new_id(), **settings)
        self._wandb_init.pop("anonymous", None)  # W&B warns about it.
        self.log_model = log_model

    @property
    def experiment(self) -> Any:
        """The W&B run; offline if the server accepts the connection but does not answer."""
        if self._experiment is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_json(self._memory, {"id": self._id})
            try:
                self._begin()
            except Exception as error:
                if self._is_offline:
                    raise
                line = _first_line(error)
                warn_user(f"W&B: {line}; this run is logged offline (wandb sync sends it)")
                self._wandb_init["mode"] = "offline"
                self._begin()
        return self._experiment

    @property
    def _is_offline(self) -> bool:
        return self._wandb_init.get("mode") in ("offline", "dryrun")

    def _begin(self) -> None:
        """Start this logger's own W&B run, with the points that it does not have yet."""
        import wandb as package

        before = sorted(self._folder.glob(f"offline-run-*-{self._id}")) if self._is_offline else []
        # Lightning would take over any open run, such as another seed's.
        run = package.init(**self._wandb_init, reinit="create_new")
        self._defined = set()
        run.define_metric(_STEP)
        run.define_metric(_AXIS)
        run.define_metric("*", step_metric=_STEP, step_sync=True)
        self._experiment = run
        there = 0
        if not self._is_offline and getattr(run, "resumed", False) is True:
            there = int(run.step)
        rows = 0
        for point in self._known_points():
            rows += _ARTIFACT not in point
            if rows > there or _ARTIFACT in point:  # W&B identifies an artifact by its content.
                self._send(point)
        self._sent = max(there, rows)
        self._use_sources()
        for folder in before:
            shutil.rmtree(folder, ignore_errors=True)

    def _known_points(self) -> Iterator[dict[str, Any]]:
        """Yield the points logged before, up to the position of this run."""
        try:
            text = (self._folder / POINTS).read_bytes()[: self._points.mark()["bytes"]]
            yield from [json.loads(line) for line in text.decode().splitlines()]
        except (OSError, ValueError):
            return

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Send numbers, unless W&B got them before the run was resumed."""
        self._log({**metrics, **({} if step is None else {_STEP: step})})

    def log_media(
        self, media: Sequence[Media], step: int, numbers: Mapping[str, float] | None = None
    ) -> None:
        """Send images, videos, tables and texts in one row."""
        files = {medium.name: [medium.kind, medium.path, medium.caption] for medium in media}
        self._log({**(numbers or {}), _STEP: step, _MEDIA: files})

    def log_files(
        self, name: str, kind: str, paths: Sequence[Path], aliases: Sequence[str]
    ) -> None:
        """Send files of the run folder as an artifact of this run."""
        names = [path.relative_to(self._run_dir).as_posix() for path in paths]
        point = {_ARTIFACT: [f"{name}-{self._id}", kind, names, list(aliases)]}
        self.experiment  # noqa: B018  # begins the run
        self._points.append(json.dumps(point) + "\n")
        self._send(point)

    def _log(self, point: dict[str, Any]) -> None:
        self.experiment  # noqa: B018  # begins the run, with all points before this one
        self._points.append(json.dumps(point) + "\n")
        self._rows += 1
        if self._rows > self._sent:
            self._send(point)
            self._sent = self._rows

    def _send(self, point: dict[str, Any]) -> None:
        run = self._experiment
        assert run is not None
        if _ARTIFACT in point:
            self._send_files(*point[_ARTIFACT])
            return
        row = {name: value for name, value in point.items() if name != _MEDIA}
        for name, media in point.get(_MEDIA, {}).items():
            row |= self._as_wandb(name, *media)
        for name in row:
            # By its whole name: if two patterns fit, W&B may use either.
            if name.startswith(_BY_EXPERIENCE) and name not in self._defined:
                self._defined.add(name)
                run.define_metric(name, step_metric=_AXIS, step_sync=False)
        run.log(row)

    def _as_wandb(self, name: str, kind: str, file: str, caption: str) -> dict[str, Any]:
        """Return media as W&B objects, if the file still exists."""
        import wandb as package

        path = self._run_dir / file
        if not path.is_file():
            return {}
        if kind == "image":
            return {name: package.Image(str(path), caption=caption or None)}
        if kind == "video":
            return {name: package.Video(str(path), caption=caption or None)}
        if kind == "text":
            return {name: package.Html(f"<pre>{html.escape(path.read_text())}</pre>")}
        table = json.loads(path.read_text())
        return {name: package.Table(columns=table["columns"], data=table["rows"])}

    def _send_files(self, name: str, kind: str, names: Sequence[str], aliases: list[str]) -> None:
        import wandb as package

        artifact = package.Artifact(name, type=kind)
        existing = [file for file in names if (self._run_dir / file).is_file()]
        if kind == "model" and len(existing) < len(names):
            return  # an earlier checkpoint; a run keeps only the last few
        for file in existing:
            artifact.add_file(str(self._run_dir / file), name=file)
        if existing:
            self._experiment.log_artifact(artifact, aliases=["latest", *aliases])  # type: ignore[union-attr]

    def _use_sources(self) -> None:
        """Record the checkpoints this run comes from: its own, and the one of ``pretrain``."""
        if self._is_offline or not self.log_model:
            return  # W&B knows artifacts only through its server.
        earlier = run_id(Path(self._pretrain)) if self._pretrain else None
        for source in ([self._id] if self._resumed else []) + ([earlier] if earlier else []):
            try:
                self._experiment.use_artifact(f"checkpoint-{source}:latest")  # type: ignore[union-attr]
            except Exception as error:
                warn_user(f"W&B: no lineage to checkpoint-{source}: {_first_line(error)}")

    def finalize(self, status: str) -> None:
        """End the W&B run, marked as failed or stopped if the run is not finished."""
        if self._experiment is None:
            return
        if self.log_model:
            try:
                self.log_checkpoint("final" if status == "success" else status)
            except Exception as error:  # W&B must learn that the run has ended in any case.
                warn_user(f"W&B: the last checkpoint was not sent: {_first_line(error)}")
        self._experiment.summary["status"] = "finished" if status == "success" else status
        self._experiment.finish(exit_code=_EXIT_CODES.get(status, 1))

    def log_checkpoint(self, alias: str) -> None:
        """Send the newest checkpoint, with the files that are needed to continue from it."""
        note = next(notes(self._run_dir), None)
        numbers = [] if note is None else [int(Path(note["file"]).stem), *note["parents"]]
        folder = self._run_dir / "checkpoints"
        files = [p for n in sorted(numbers) for p in sorted(folder.glob(f"{n:06d}.*"))]
        others = [self._run_dir / name for name in ("config.yaml", "events.jsonl")]
        if files:
            self.log_files("checkpoint", "model", [*files, *others], [alias])

    def state_dict(self) -> dict[str, Any]:
        """Return the number of logged rows, and where they end in the file."""
        sync_file(self._points.path)
        return {"calls": self._rows, "points": self._points.mark()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after this number of rows."""
        self._rows = state["calls"]
        self._points.rollback(state["points"])


def run_id(run_dir: Path) -> str | None:
    """Return the id of the W&B run of a run folder, or None."""
    try:
        return str(json.loads((run_dir / "wandb" / MEMORY).read_text())["id"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _new_id() -> str:
    """Return the id that W&B's agent gives to the run it starts, once; else a new one."""
    run_id = os.environ.get("WANDB_RUN_ID")
    if run_id and run_id not in _taken:
        _taken.add(run_id)
        return run_id
    return secrets.token_hex(4)


def wandb(
    run_dir: Path,
    run_config: dict[str, Any],
    stream_name: str = "",
    progress: bool = True,
    project: str | None = None,
    name: str | None = None,
    entity: str | None = None,
    group: str | None = None,
    tags: tuple[str, ...] = (),
    job_type: str | None = None,
    notes: str | None = None,
    mode: Literal["online", "offline", "disabled"] | None = None,
    log_model: bool | Literal["all"] = False,
    timeout: float = 30.0,
) -> WandbRun:
    """Return a Weights & Biases logger: numbers, matrices, videos, images, results, checkpoints.

    Settings that are left out come from W&B's own variables (``WANDB_PROJECT``, ``WANDB_NAME``,
    ...).

    Args:
        run_dir: The run folder; W&B's own files go below it.
        run_config: The resolved config of the run.
        stream_name: Name of the stream.
        progress: Whether the run shows its progress; if not, W&B is silent, too.
        project: W&B project; clframe if left out.
        name: Name of the run; stream, strategy and folder if left out.
        entity: W&B user or team.
        group: W&B group; ``STREAM/STRATEGY`` if left out. The seeds of ``seeds=[...]`` and the runs
            of a sweep have the name of their common folder.
        tags: Tags in addition to stream, strategy and scenario.
        job_type: Kind of run; fit if left out.
        notes: A longer description.
        mode: online, offline or disabled; if left out, online if there are a key and a server.
        log_model: Whether to log the final checkpoint as an artifact, or ``all``: one after each
            experience.
        timeout: Seconds to wait for the server at the start and at the end of the run.
    """
    import wandb as package

    # Versions of W&B differ in which of these settings they have.
    fields = package.Settings.model_fields
    how: dict[str, Any] = {name: timeout for name in _TIMEOUTS if name in fields}
    if not progress:
        how["silent"] = True
    of = stream_name
    strategy = str(run_config.get("strategy_name", ""))
    environ = os.environ.get
    in_sweep = (run_dir.parent / "sweep.json").is_file()
    joint = run_dir.absolute().parent.name if in_sweep else f"{of}/{strategy}"
    ours = [word[:64] for word in (of, strategy, str(run_config.get("scenario", ""))) if word]
    others = [tag for tag in (environ("WANDB_TAGS") or "").split(",") if tag]
    return WandbRun(
        run_dir,
        log_model=log_model,
        pretrain=run_config.get("pretrain"),
        name=name or environ("WANDB_NAME") or f"{of}-{strategy}-{run_dir.absolute().name}",
        project=project or environ("WANDB_PROJECT") or "clframe",
        entity=entity,
        group=group or environ("WANDB_RUN_GROUP") or joint,
        tags=list(dict.fromkeys([*ours, *others, *tags])),
        job_type=job_type or environ("WANDB_JOB_TYPE") or "fit",
        notes=notes,
        config=run_config,
        mode=mode or environ("WANDB_MODE") or choose_mode(),
        settings=package.Settings(**how),
    )


@hookimpl
def register(registry: Registry) -> None:
    """Add the logger."""
    registry.add("logger", "wandb", wandb)
