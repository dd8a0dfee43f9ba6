"""Which feature of a LeRobot data set is which observation of ours."""

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
"""The features of what a demonstration may know of each step."""
COUNTERS = ("frame_index", "episode_index", "index", "task_index")
_SEEN, _IMAGES = "observation.", "observation.images."


def feature_of(name: str) -> str:
    """The feature that an observation becomes.

    >>> feature_of("agentview_rgb"), feature_of("wrist_depth"), feature_of("state")
    ('observation.images.agentview', 'observation.images.wrist_depth', 'observation.state')
    """
    if name.endswith(RGB):
        return _IMAGES + name.removesuffix(RGB)
    return (_IMAGES if name.endswith(DEPTH) else _SEEN) + name


def observation_of(feature: str, spec: dict[str, Any]) -> str | None:
    """The observation that a feature becomes; None for what is none.

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
    """Whether a feature holds images of distances."""
    info = {**(spec.get("video_info") or {}), **(spec.get("info") or {})}
    return bool(info.get("is_depth_map") or info.get("video.is_depth_map"))


def vector_spec(values: NDArray[Any], names: list[str] | None = None) -> dict[str, Any]:
    """The entry of a feature of numbers."""
    return {"dtype": values.dtype.name, "shape": [values.shape[1]], "names": names}


def image_spec(values: NDArray[Any], video: dict[str, Any] | None) -> dict[str, Any]:
    """The entry of a feature of images, as files in Parquet or as a video."""
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
    """The features that every data set has."""
    one: dict[str, Any] = {"shape": [1], "names": None}
    return {
        "timestamp": {"dtype": "float32", **one},
        **{name: {"dtype": "int64", **one} for name in COUNTERS},
    }


def hugging_face_type(spec: dict[str, Any]) -> dict[str, Any]:
    """How the package ``datasets`` writes a feature's type into a Parquet file."""
    if spec["dtype"] == "image":
        return {"_type": "Image"}
    value = {"dtype": spec["dtype"], "_type": "Value"}
    if spec["shape"] == [1]:
        return value
    return {"feature": value, "length": spec["shape"][0], "_type": "Sequence"}
