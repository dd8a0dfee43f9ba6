"""The tables of a LeRobot dataset, as its own packages would write them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError
from clframe.robot.formats.lerobot.features import hugging_face_type


def pyarrow() -> Any:
    """Return the package pyarrow.

    Raises:
        SettingError: It is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise SettingError(
            "LeRobot datasets need pyarrow; install it with: pip install 'clframe[lerobot]'"
        ) from error
    return pyarrow


def schema(specs: Mapping[str, dict[str, Any]]) -> Any:
    """Return the columns of a dataset's files; videos have none."""
    pa = pyarrow()
    fields = []
    for feature, spec in specs.items():
        if spec["dtype"] == "video":
            continue
        kind = pa.bool_() if spec["dtype"] == "bool" else None
        if spec["dtype"] == "image":
            kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        elif kind is None:
            kind = pa.from_numpy_dtype(np.dtype(spec["dtype"]))
        if spec["dtype"] != "image" and spec["shape"] != [1]:
            kind = pa.list_(kind, spec["shape"][0])
        fields.append(pa.field(feature, kind))
    described = {field.name: hugging_face_type(specs[field.name]) for field in fields}
    metadata = json.dumps({"info": {"features": described}})
    return pa.schema(fields, metadata={"huggingface": metadata})


def table(schema: Any, numbers: Mapping[str, Any], images: Mapping[str, Any]) -> Any:
    """Return an episode's rows as a table: numbers ``[rows, size]`` and images by feature."""
    pa, arrays = pyarrow(), []
    for field in schema:
        if field.name in images:
            files = [{"bytes": data, "path": None} for data in _files(images[field.name])]
            arrays.append(pa.array(files, field.type))
            continue
        values = numbers[field.name]
        flat = pa.array(np.ascontiguousarray(values).ravel())
        if values.shape[1] != 1:
            flat = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        arrays.append(flat.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def tasks(instructions: Sequence[str]) -> Any:
    """Return the instructions in pandas' format, as the index of the table."""
    pa = pyarrow()
    column = {"field_name": "task_index", "name": "task_index", "metadata": None}
    index = {"field_name": "task", "name": "task", "metadata": None}
    metadata = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            {**column, "pandas_type": "int64", "numpy_type": "int64"},
            {**index, "pandas_type": "unicode", "numpy_type": "object"},
        ],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.2.0",
    }
    table = pa.table(
        {"task_index": np.arange(len(instructions)), "task": pa.array(instructions, pa.string())}
    )
    return table.replace_schema_metadata({"pandas": json.dumps(metadata)})


def _files(images: NDArray[Any]) -> Iterable[bytes]:
    """Encode each image as a file: PNG for color, TIFF for distances."""
    from PIL import Image

    depth = images.dtype != np.uint8
    for image in images:
        content = io.BytesIO()
        opened = Image.fromarray(image.astype(np.float32) if depth else image)
        if depth:
            opened.save(content, "TIFF", compression="tiff_adobe_deflate")
        else:
            opened.save(content, "PNG", compress_level=1)
        yield content.getvalue()
