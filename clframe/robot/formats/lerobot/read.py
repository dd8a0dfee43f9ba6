"""Read a LeRobot dataset that clframe, LeRobot or others wrote."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot.demonstrations import Demonstration
from clframe.robot.formats.lerobot import features as names
from clframe.robot.formats.lerobot.checks import check_features, check_ours, check_rate, reading
from clframe.robot.formats.lerobot.parquet import pyarrow
from clframe.robot.formats.lerobot.video import read_video
from clframe.robot.formats.recording import Recording, Recordings
from clframe.robot.task import Observation
from clframe.utils.image_files import opened_image
from clframe.utils.inside import filled, inside
from clframe.utils.regular import read_json

Resize = Callable[[NDArray[Any]], NDArray[Any]]
"""Shrinks an image as it is read."""
_EPISODE_COLUMNS = ("episode_index", "tasks", "length", "data/chunk_index", "data/file_index")


@dataclass(frozen=True)
class Episode:
    """An episode of a dataset: its number, instruction, length and row of ``meta/episodes``."""

    index: int
    language: str
    length: int
    row: Mapping[str, Any]


class LerobotFolder:
    """A dataset in a folder; only ``meta/`` is read until demonstrations are requested.

    Args:
        root: The folder.

    Raises:
        DataError: It is not a LeRobot dataset, or not of version 3.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.info = self._json(names.INFO)
        version = str(self.info.get("codebase_version", ""))
        if not version.startswith("v3."):
            raise DataError(
                f"'{root}' is a LeRobot dataset {version or 'without codebase_version'}, not "
                "v3.0; convert it with LeRobot's script convert_dataset_v21_to_v30"
            )
        info = root / names.INFO
        self.features = check_features(self.info.get("features") or {}, info)
        self.fps = check_rate(self.info.get("fps"), info)
        if names.ACTION not in self.features or self.fps <= 0:
            absent = "fps" if names.ACTION in self.features else f"feature '{names.ACTION}'"
            raise DataError(f"'{root / names.INFO}' has no {absent}, which training needs")

    def _json(self, name: str) -> dict[str, Any]:
        path = self.root / name
        try:
            content = read_json(path)
        except FileNotFoundError as error:
            raise DataError(f"'{self.root}' is not a LeRobot dataset: it has no {name}") from error
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read '{path}': {error}") from error
        if not isinstance(content, dict):
            raise DataError(f"'{path}' must be a JSON object")
        return content

    # ------------------------------------------------------------ metadata

    @cached_property
    def ours(self) -> dict[str, Any]:
        """What clframe stored about a dataset that it wrote; empty for other datasets."""
        if not (self.root / names.OURS).is_file():
            return {}
        metadata = self._json(names.OURS)
        check_ours(metadata, self.root / names.OURS)
        # Others may have added or removed episodes since.
        indices = [episode.index for episode in self.episodes]
        return metadata if indices == list(range(len(metadata["episodes"]))) else {}

    @cached_property
    def observations(self) -> dict[str, str]:
        """The feature of each observation, by the observation's name."""
        name_of = {feature: name for name, feature in self.ours.get("observations", {}).items()}
        features = {}
        for feature, spec in self.features.items():
            name = name_of.get(feature) or names.observation_of(feature, spec)
            flat = len(spec["shape"]) == 1 and spec["dtype"] != "string"
            if name is not None and (spec["dtype"] in ("image", "video") or flat):
                features[name] = feature
        return features

    @cached_property
    def stats(self) -> dict[str, Any]:
        """The statistics; empty if the dataset has none."""
        return self._json(names.STATS) if (self.root / names.STATS).is_file() else {}

    @cached_property
    def episodes(self) -> list[Episode]:
        """All episodes in order."""
        with reading(self.root):
            return self._read_episodes()

    def _read_episodes(self) -> list[Episode]:
        rows: list[dict[str, Any]] = []
        for path in sorted((self.root / names.EPISODES).glob("*/*.parquet")):
            table = self._table(path)
            self._require(path, table.column_names, _EPISODE_COLUMNS)
            kept = [name for name in table.column_names if not name.startswith("stats/")]
            rows += table.select(kept).to_pylist()
        if not rows:
            raise DataError(f"'{self.root / names.EPISODES}' holds no episodes")
        return [
            Episode(
                int(row["episode_index"]),
                str(row["tasks"][0]).replace("\0", " ") if row["tasks"] else "",
                int(row["length"]),
                row,
            )
            for row in sorted(rows, key=lambda row: int(row["episode_index"]))
        ]

    def by_task(self) -> dict[str, list[Episode]]:
        """Return the episodes of each instruction, in order of appearance."""
        by_instruction: dict[str, list[Episode]] = {}
        for episode in self.episodes:
            by_instruction.setdefault(episode.language, []).append(episode)
        return by_instruction

    # ------------------------------------------------------------ demonstrations

    def read(
        self,
        episodes: Sequence[Episode],
        observations: Sequence[str] | None = None,
        resize: Resize | None = None,
    ) -> list[Demonstration]:
        """Return the demonstrations of some episodes.

        Args:
            episodes: The episodes to read.
            observations: Names of the observations to read; None reads all.
            resize: Applied to every image.

        Raises:
            DataError: A file or column is missing, or its shape differs from the metadata.
        """
        with reading(self.root):
            return self._read(episodes, observations, resize)

    def _read(
        self,
        episodes: Sequence[Episode],
        observations: Sequence[str] | None,
        resize: Resize | None,
    ) -> list[Demonstration]:
        feature_of = {
            name: self._feature(name)
            for name in (self.observations if observations is None else observations)
        }
        columns = [names.ACTION, *feature_of.values()]
        if observations is None:
            more = (names.SIMULATOR, *names.ROWS.values())
            columns += [
                name for name in more if len(self.features.get(name, {}).get("shape", ())) == 1
            ]
        stored = [name for name in columns if self.features[name]["dtype"] != "video"]
        demos: dict[int, Demonstration] = {}
        for path, in_file in self._by_file(episodes):
            demos |= self._read_file(path, in_file, stored, feature_of, resize)
        return [demos[episode.index] for episode in episodes]

    def _feature(self, name: str) -> str:
        if name not in self.observations:
            raise DataError(
                f"'{self.root}' has no observation '{name}', only {', '.join(self.observations)}"
            )
        return self.observations[name]

    def _by_file(self, episodes: Sequence[Episode]) -> Iterable[tuple[Path, list[Episode]]]:
        files: dict[Path, list[Episode]] = {}
        pattern = self.info.get("data_path") or names.DATA_PATH
        for episode in episodes:
            chunk, file = (int(episode.row[f"data/{n}_index"]) for n in ("chunk", "file"))
            path = self._place(pattern, chunk_index=chunk, file_index=file)
            files.setdefault(path, []).append(episode)
        return files.items()

    def _read_file(
        self,
        path: Path,
        episodes: Sequence[Episode],
        columns: Sequence[str],
        feature_of: Mapping[str, str],
        resize: Resize | None,
    ) -> dict[int, Demonstration]:
        numbers = [episode.index for episode in episodes]
        table = self._table(
            path, [*columns, "episode_index"], [("episode_index", "in", set(numbers))]
        )
        episode_of = table["episode_index"].to_numpy()
        demos = {}
        for episode in episodes:
            positions = np.flatnonzero(episode_of == episode.index)
            where = f"'{path}', episode {episode.index}"
            if len(positions) != episode.length or not episode.length:
                raise DataError(
                    f"{where} has {len(positions)} rows, but meta/episodes says {episode.length}"
                )
            episode_table = table.slice(positions[0], len(positions))
            observations: Observation = {}
            for name, feature in feature_of.items():
                observations[name] = self._observed(episode_table, feature, episode, where, resize)
            actions = self._numbers(episode_table, names.ACTION, where).astype(np.float32)
            states = np.zeros((0, 0))
            if names.SIMULATOR in columns:
                states = self._numbers(episode_table, names.SIMULATOR, where)
            rows = {
                name: self._numbers(episode_table, feature, where)
                for name, feature in names.ROWS.items()
                if feature in columns
            }
            demos[episode.index] = self._demonstration(actions, observations, states, rows, episode)
        return demos

    def _demonstration(
        self,
        actions: NDArray[np.float32],
        observations: Observation,
        states: NDArray[Any],
        rows: Mapping[str, NDArray[Any]],
        episode: Episode,
    ) -> Demonstration:
        """Build a demonstration; of our own datasets, restore its seed and drop padding."""
        stored = self.ours.get("episodes")
        ours: dict[str, Any] = {"seed": None, "rows": list(rows), "states": states.shape[-1]}
        if stored:
            ours = stored[episode.index]
        kinds = {"executed": np.float32, "rewards": np.float32}
        kept: dict[str, Any] = {}
        for name in ours["rows"]:
            if name in rows:
                values = rows[name].astype(kinds.get(name, np.bool_))
                kept[name] = values if name == "executed" else values[:, 0]
        width = ours["states"]
        states = states[:, :width] if width and len(states) else np.zeros((0, 0))
        return Demonstration(actions, observations, states, ours["seed"], **kept)

    def _observed(
        self, table: Any, feature: str, episode: Episode, where: str, resize: Resize | None
    ) -> NDArray[Any]:
        spec = self.features[feature]
        if spec["dtype"] not in ("image", "video"):
            values = self._numbers(table, feature, where)
            return values if values.dtype == np.uint8 else values.astype(np.float32)
        depth = names.is_depth_feature(spec)
        if spec["dtype"] == "video":
            images = self._video(feature, episode, depth)
        else:
            images = [
                _decoded(entry, self.root, depth, spec, f"{where}, {feature}")
                for entry in table[feature].to_pylist()
            ]
        if resize is not None:
            images = [resize(image) for image in images]
        return np.stack(images)

    def _video(self, feature: str, episode: Episode, depth: bool) -> list[NDArray[Any]]:
        row, where = episode.row, f"videos/{feature}"
        if f"{where}/from_timestamp" not in row:
            raise DataError(f"'{self.root / names.EPISODES}' has no column {where}/from_timestamp")
        pattern = self.info.get("video_path") or names.VIDEO_PATH
        path = self._place(
            pattern,
            video_key=feature,
            chunk_index=int(row[f"{where}/chunk_index"]),
            file_index=int(row[f"{where}/file_index"]),
        )
        spec = self.features[feature]
        quantisation = (
            {**(spec.get("video_info") or {}), **(spec.get("info") or {})} if depth else None
        )
        start = float(row[f"{where}/from_timestamp"])
        return read_video(path, start, episode.length, self.fps, quantisation)

    def _place(self, pattern: Any, **values: object) -> Path:
        """Return a file of the dataset from a path pattern in ``info.json``."""
        where = f"'{self.root / names.INFO}'"
        return inside(self.root, filled(pattern, where, **values), where)

    def _numbers(self, table: Any, feature: str, where: str) -> NDArray[Any]:
        """Return a column of numbers as ``[rows, size]``."""
        (size,) = self.features[feature]["shape"]
        column = table[feature].combine_chunks()
        while hasattr(column, "flatten") and _nested(column.type):
            column = column.flatten()
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        if len(values) != len(table) * size or values.dtype.kind not in "fiub":
            raise DataError(
                f"{where}: column '{feature}' has {len(values) / max(len(table), 1):g} numbers per "
                f"row, but meta/info.json says {size}"
            )
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise DataError(f"{where}: column '{feature}' holds NaN or infinity")
        return values.reshape(len(table), size)

    def _table(self, path: Path, columns: Sequence[str] | None = None, filters: Any = None) -> Any:
        pa = pyarrow()
        if not path.is_file():
            raise DataError(f"'{path}' is missing from the dataset '{self.root}'")
        try:
            if columns is not None:
                present = pa.parquet.read_schema(path).names
                self._require(path, present, columns)
            # One file: read_table would otherwise take folders named key=value for partitions.
            return pa.parquet.read_table(path, columns=columns, filters=filters, partitioning=None)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"cannot read '{path}' as Parquet: {error}") from error

    @staticmethod
    def _require(path: Path, present: Sequence[str], columns: Sequence[str]) -> None:
        absent = [name for name in columns if name not in present]
        if absent:
            raise DataError(f"'{path}' has no column '{absent[0]}', only {', '.join(present)}")


def _nested(kind: Any) -> bool:
    return "list" in str(kind)


def _decoded(
    entry: Mapping[str, Any] | None, root: Path, depth: bool, spec: dict[str, Any], where: str
) -> NDArray[Any]:
    """Decode an image from the bytes in the table or from the file it names."""
    entry = entry or {}
    try:
        content = entry.get("bytes")
        source = io.BytesIO(content) if content else inside(root, str(entry.get("path")), where)
        with opened_image(source) as image:
            if not depth:
                return np.asarray(image.convert("RGB"))
            distance = np.asarray(image)
    except OSError as error:
        raise DataError(f"{where} does not hold an image: {error}") from error
    unit = (spec.get("info") or {}).get("depth_unit")
    in_millimeters = distance.dtype.kind in "iu" if unit is None else unit == "mm"
    scaled: NDArray[Any] = distance.astype(np.float32)
    return scaled / np.float32(1000.0) if in_millimeters else scaled


def recordings(root: Path) -> Recordings:
    """Return a recording for each task; other people's tasks are known only by instruction."""
    data = LerobotFolder(root)
    facts = {"source": "lerobot", "robot": str(data.info.get("robot_type") or "unknown")}
    facts["fps"] = f"{data.fps:g}"
    tasks = [
        (task_name(language, number), language, facts, episodes)
        for number, (language, episodes) in enumerate(data.by_task().items())
    ]
    if data.ours:
        groups: list[list[Episode]] = [[] for _ in data.ours["tasks"]]
        for episode in data.episodes:
            groups[data.ours["episodes"][episode.index]["task"]].append(episode)
        tasks = [
            (task_facts["name"], task_facts["language"], task_facts["facts"], group)
            for task_facts, group in zip(data.ours["tasks"], groups, strict=True)
        ]

    def load(number: int) -> Recording:
        name, language, task_facts, episodes = tasks[number]
        return Recording(name, language, task_facts, data.read(episodes))

    return Recordings([task[0] for task in tasks], load)


def task_name(language: str, number: int) -> str:
    """Return a name for a task that has only an instruction.

    >>> task_name("Turn on the stove!", 0), task_name("", 3)
    ('turn_on_the_stove', 'task_3')
    """
    letters = "".join(letter if letter.isalnum() else " " for letter in language.lower()).split()
    return "_".join(letters)[:80] or f"task_{number}"
