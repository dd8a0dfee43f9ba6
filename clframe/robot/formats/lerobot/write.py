"""Write a LeRobot dataset from recordings of one or several tasks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot.demonstrations import Demonstration
from clframe.robot.formats.lerobot import features as names
from clframe.robot.formats.lerobot import parquet, stats
from clframe.robot.formats.lerobot.video import VideoWriter, video_info
from clframe.robot.formats.recording import ROWS, Recording, Shapes, is_depth, is_image
from clframe.utils.files import write_json

FPS = 20
CHUNK, DATA_MB, VIDEO_MB = 1000, 100, 200
"""Files in a folder, and megabytes after which the next file begins; LeRobot's defaults."""


def write(
    folder: Path,
    recordings: Sequence[Recording],
    fps: int = FPS,
    video: bool = False,
    data_mb: float = DATA_MB,
) -> list[str]:
    """Write a dataset, whole or not at all; return a message for each skipped observation.

    Args:
        folder: The folder to create; it must not exist or must be empty.
        recordings: One for each task; read twice.
        fps: Steps per second.
        video: Write colour images as lossy MP4 instead of PNG in Parquet.
        data_mb: Megabytes after which the next Parquet file begins.

    Raises:
        DataError: The folder is in use, or shapes differ between tasks.
    """
    parquet.pyarrow()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"'{folder}' already exists; remove it, or choose another --out")
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        partial.mkdir(parents=True)
        writer = _Writer(partial, recordings, fps, video, data_mb)
        writer.write_all()
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    except OSError as error:
        raise DataError(f"cannot write the dataset '{folder}': {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return writer.left_out


class _Writer:
    """Writes a dataset episode by episode."""

    def __init__(
        self,
        root: Path,
        recordings: Sequence[Recording],
        fps: int,
        video: bool,
        data_mb: float,
    ) -> None:
        self.root, self.recordings, self.fps, self.data_mb = root, recordings, fps, data_mb
        self.pa = parquet.pyarrow()
        self.left_out: list[str] = []
        self.instructions: list[str] = []
        self.row_names: list[str] = []
        self.width = 0
        self.kept, self.specs = self._survey(video)
        self.schema = parquet.schema(self.specs)
        self.videos: dict[str, VideoWriter] = {}
        self.video_files: dict[str, int] = {}
        self.parquet: Any = None
        self.file, self.bytes, self.rows = 0, 0, 0
        self.episodes: list[dict[str, Any]] = []
        self.stats: dict[str, list[stats.Stats]] = {}

    # ------------------------------------------------------------ survey

    def _survey(self, video: bool) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Scan all recordings; return the observations to keep and all features."""
        shapes, rows = Shapes(), set()
        first: Demonstration | None = None
        for recording in self.recordings:
            shapes.add(recording)
            if recording.language not in self.instructions:
                self.instructions.append(recording.language)
            for demo in recording.demos:
                first = first or demo
                self.width = max(self.width, _state_size(demo))
                rows |= {row for row in ROWS if getattr(demo, row) is not None}
        assert first is not None
        self.row_names = [row for row in ROWS if row in rows]
        kept = {name: names.feature_of(name) for name in self._kept(first)}
        return kept, self._specs(first, kept, video)

    def _kept(self, demo: Demonstration) -> list[str]:
        kept = []
        for name, values in demo.observations.items():
            if is_image(name, values) or is_depth(name, values) or values.ndim == 2:
                kept.append(name)
            else:
                self.left_out.append(f"obs/{name} is left out: it is neither a vector nor an image")
        return kept

    def _specs(
        self, demo: Demonstration, kept: Mapping[str, str], video: bool
    ) -> dict[str, dict[str, Any]]:
        specs: dict[str, dict[str, Any]] = {}
        for name, feature in kept.items():
            values = demo.observations[name]
            if values.ndim == 2:
                specs[feature] = names.vector_spec(values)
            else:
                as_video = video and is_image(name, values)
                size = (values.shape[1], values.shape[2])
                specs[feature] = names.image_spec(
                    values, video_info(self.fps, size) if as_video else None
                )
        specs[names.ACTION] = names.vector_spec(demo.actions)
        if self.width:
            specs[names.SIMULATOR] = {"dtype": "float64", "shape": [self.width], "names": None}
        scalar: dict[str, Any] = {"shape": [1], "names": None}
        kinds = {
            "executed": specs[names.ACTION],
            "rewards": {"dtype": "float32", **scalar},
            "successes": {"dtype": "bool", **scalar},
            "retries": {"dtype": "bool", **scalar},
        }
        specs |= {names.ROWS[row]: kinds[row] for row in self.row_names}
        specs["next.done"] = {"dtype": "bool", **scalar}
        return {**specs, **names.counter_specs()}

    # ------------------------------------------------------------ episodes

    def write_all(self) -> None:
        """Write all files."""
        ours: dict[str, Any] = {"observations": self.kept, "tasks": [], "episodes": []}
        for number, recording in enumerate(self.recordings):
            ours["tasks"].append(
                {
                    "name": recording.name,
                    "language": recording.language,
                    "facts": dict(recording.facts),
                }
            )
            for demo in recording.demos:
                self._write_episode(demo, recording.language)
                rows = [row for row in ROWS if getattr(demo, row) is not None]
                ours["episodes"].append(
                    {
                        "task": number,
                        "seed": demo.seed,
                        "states": _state_size(demo),
                        "rows": rows,
                    }
                )
        self._close_data()
        for video in self.videos.values():
            video.close()
        self._write_meta(ours)

    def _write_episode(self, demo: Demonstration, language: str) -> None:
        number, length = len(self.episodes), len(demo)
        numbers, images = self._columns(demo, number, self.instructions.index(language))
        row: dict[str, Any] = {
            "episode_index": number,
            "tasks": [language],
            "length": length,
            "dataset_from_index": self.rows,
            "dataset_to_index": self.rows + length,
        }
        row |= self._place("data", self.file)
        self._write_rows(numbers, images)
        for feature, values in images.items():
            if self.specs[feature]["dtype"] == "video":
                row |= self._write_video(feature, values)
        episode_stats = {feature: stats.of_numbers(values) for feature, values in numbers.items()}
        for feature, values in images.items():
            compute = stats.of_images if values.dtype == np.uint8 else stats.of_depth
            episode_stats[feature] = compute(values)
        for feature, feature_stats in episode_stats.items():
            self.stats.setdefault(feature, []).append(feature_stats)
            row |= {
                f"stats/{feature}/{name}": value.tolist() for name, value in feature_stats.items()
            }
        row |= self._place("meta/episodes", 0)
        self.episodes.append(row)
        self.rows += length

    def _columns(
        self, demo: Demonstration, number: int, task: int
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Return the features of an episode: numbers ``[rows, size]``, and images."""
        length = len(demo)
        numbers: dict[str, NDArray[Any]] = {}
        images: dict[str, NDArray[Any]] = {}
        for name, feature in self.kept.items():
            values = demo.observations[name]
            (numbers if values.ndim == 2 else images)[feature] = values
        numbers[names.ACTION] = demo.actions
        if self.width:
            padded = np.zeros((length, self.width))
            if _state_size(demo):
                padded[:, : _state_size(demo)] = demo.states
            numbers[names.SIMULATOR] = padded
        for row in self.row_names:
            numbers[names.ROWS[row]] = _row(demo, row)
        steps = np.arange(length)
        counters = {
            "next.done": steps == length - 1,
            "timestamp": (steps / self.fps).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(length, number),
            "index": self.rows + steps,
            "task_index": np.full(length, task),
        }
        return numbers | {name: values[:, None] for name, values in counters.items()}, images

    def _write_rows(
        self, numbers: Mapping[str, NDArray[Any]], images: Mapping[str, NDArray[Any]]
    ) -> None:
        table = parquet.table(self.schema, numbers, images)
        if self.parquet is None:
            path = self.root / names.DATA_PATH.format(**_position(self.file))
            path.parent.mkdir(parents=True, exist_ok=True)
            self.parquet = self.pa.parquet.ParquetWriter(path, self.schema)
        self.parquet.write_table(table)  # an episode is a row group
        self.bytes += table.nbytes
        if self.bytes >= self.data_mb * 2**20:
            self._close_data()

    def _close_data(self) -> None:
        if self.parquet is not None:
            self.parquet.close()
            self.parquet, self.bytes, self.file = None, 0, self.file + 1

    def _write_video(self, feature: str, values: NDArray[np.uint8]) -> dict[str, Any]:
        file = self.video_files.setdefault(feature, 0)
        if feature not in self.videos:
            path = self.root / names.VIDEO_PATH.format(video_key=feature, **_position(file))
            self.videos[feature] = VideoWriter(path, self.fps, values.shape[1:3])
        video = self.videos[feature]
        start, end = video.add(values)
        row = self._place(f"videos/{feature}", file)
        if video.path.stat().st_size >= VIDEO_MB * 2**20:
            video.close()
            del self.videos[feature]
            self.video_files[feature] += 1
        where = f"videos/{feature}"
        return row | {f"{where}/from_timestamp": start, f"{where}/to_timestamp": end}

    @staticmethod
    def _place(prefix: str, file: int) -> dict[str, int]:
        return {f"{prefix}/{name}": value for name, value in _position(file).items()}

    # ------------------------------------------------------------ metadata

    def _write_meta(self, ours: dict[str, Any]) -> None:
        pa, n = self.pa, len(self.episodes)
        path = self.root / names.EPISODES_PATH.format(**_position(0))
        path.parent.mkdir(parents=True, exist_ok=True)
        pa.parquet.write_table(pa.Table.from_pylist(self.episodes), path)
        pa.parquet.write_table(parquet.tasks(self.instructions), self.root / names.TASKS)
        total = {feature: stats.together(parts) for feature, parts in self.stats.items()}
        write_json(self.root / names.STATS, stats.as_lists(total))
        write_json(self.root / names.OURS, ours)
        videos = any(spec["dtype"] == "video" for spec in self.specs.values())
        info = {
            "codebase_version": names.VERSION,
            "robot_type": str(ours["tasks"][0]["facts"].get("robot", "clframe")),
            "total_episodes": n,
            "total_frames": self.rows,
            "total_tasks": len(self.instructions),
            "chunks_size": CHUNK,
            "data_files_size_in_mb": DATA_MB,
            "video_files_size_in_mb": VIDEO_MB,
            "fps": self.fps,
            "splits": {"train": f"0:{n}"},
            "data_path": names.DATA_PATH,
            "video_path": names.VIDEO_PATH if videos else None,
            "features": self.specs,
        }
        write_json(self.root / names.INFO, info)


def _state_size(demo: Demonstration) -> int:
    return int(demo.states.shape[1]) if len(demo.states) else 0


def _row(demo: Demonstration, name: str) -> NDArray[Any]:
    """Return an optional row ``[rows, size]``, or its most likely values if it is absent."""
    values: NDArray[Any] | None = getattr(demo, name)
    if values is None:
        last = np.arange(len(demo)) == len(demo) - 1
        values = {
            "executed": demo.actions,
            "rewards": last.astype(np.float32),
            "successes": last,
            "retries": np.zeros(len(demo), bool),
        }[name]
    return values.reshape(len(demo), -1)


def _position(file: int) -> dict[str, int]:
    return {"chunk_index": file // CHUNK, "file_index": file % CHUNK}
