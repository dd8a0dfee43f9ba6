"""Map the features of a LeRobot dataset to our observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.robot.formats.recording import DEPTH, RGB
from clframe.robot.task import STATE

VERSION = "v3.0"
INFO, STATS, TASKS = "meta/info.json", "meta/stats.json", "meta/tasks.parquet"
EPISODES, OURS = "meta/episodes", "meta/clframe.json"
FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
DATA_PATH, EPISODES_PATH = f"data/{FILE}.parquet", f"{EPISODES}/{FILE}.parquet"
VIDEO_PATH = f"videos/{{video_key}}/{FILE}.mp4"
ACTION = "action"
SIMULATOR = "simulator_state"
"""The state of the simulator, padded with zeros to the longest of all tasks."""
ROWS = {
    "executed": "executed_action",
    "rewards": "next.reward",
    "successes": "next.success",
    "retries": "retry",
}
"""The features of a demonstration's optional rows."""
COUNTERS = ("frame_index", "episode_index", "index", "task_index")
_SEEN, _IMAGES = "observation.", "observation.images."


def feature_of(name: str) -> str:
    """Return the feature of an observation.

    >>> feature_of("agentview_rgb"), feature_of("wrist_depth"), feature_of("state")
    ('observation.images.agentview', 'observation.images.wrist_depth', 'observation.state')
    """
    if name.endswith(RGB):
        return _IMAGES + name.removesuffix(RGB)
    return (_IMAGES if name.endswith(DEPTH) else _SEEN) + name


def observation_of(feature: str, spec: dict[str, Any]) -> str | None:
    """Return the observation of a feature, or None if the feature is not an observation.

    >>> observation_of("observation.images.top", {"dtype": "video"})
    'top_rgb'
    >>> observation_of("next.reward", {"dtype": "float32"})
    """
    if not feature.startswith(_SEEN):
        return None
    name = feature.removeprefix(_IMAGES).removeprefix(_SEEN).replace("/", "_")
    if spec["dtype"] not in ("image", "video"):
        return STATE if feature == "observation.state" else name
    ending = DEPTH if is_depth_feature(spec) else RGB
    return name if name.endswith(ending) else name + ending


def is_depth_feature(spec: dict[str, Any]) -> bool:
    """Return whether a feature holds images of distances."""
    info = {**(spec.get("video_info") or {}), **(spec.get("info") or {})}
    return bool(info.get("is_depth_map") or info.get("video.is_depth_map"))


def vector_spec(values: NDArray[Any], names: list[str] | None = None) -> dict[str, Any]:
    """Return the entry of a numeric feature."""
    return {"dtype": values.dtype.name, "shape": [values.shape[1]], "names": names}


def image_spec(values: NDArray[Any], video: dict[str, Any] | None) -> dict[str, Any]:
    """Return the entry of an image feature, stored as files in Parquet or as a video."""
    depth = values.dtype != np.uint8
    spec: dict[str, Any] = {
        "dtype": "image" if video is None else "video",
        "shape": [*values.shape[1:3], 1 if depth else 3],
        "names": ["height", "width", "channels"],
    }
    if video is not None:
        spec["info"] = video
    elif depth:
        spec["info"] = {"is_depth_map": True, "depth_unit": "m"}
    return spec


def counter_specs() -> dict[str, dict[str, Any]]:
    """Return the features that every dataset has."""
    scalar: dict[str, Any] = {"shape": [1], "names": None}
    return {
        "timestamp": {"dtype": "float32", **scalar},
        **{name: {"dtype": "int64", **scalar} for name in COUNTERS},
    }


def hugging_face_type(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a feature's type as the package ``datasets`` writes it into Parquet files."""
    if spec["dtype"] == "image":
        return {"_type": "Image"}
    value = {"dtype": spec["dtype"], "_type": "Value"}
    if spec["shape"] == [1]:
        return value
    return {"feature": value, "length": spec["shape"][0], "_type": "Sequence"}
