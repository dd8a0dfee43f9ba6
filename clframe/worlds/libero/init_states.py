"""Reading LIBERO's initial states without executing what their files say.

A ``.pruned_init`` file is a zip archive as torch writes it, with a pickled NumPy array inside. A
pickle may call any function it names, so the usual ways of loading it (``torch.load`` with
``weights_only=False``) trust whoever made the file. Here the few names that an array needs stand
for plain records of ours, every other name is refused, and the array is made from the records.
"""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError

_LARGEST = 64 * 2**20
_NUMBERS = re.compile(r"[fiu][248]")


class _Kind:
    """Stands for a NumPy dtype."""

    def __init__(self, code: str = "", *_: Any) -> None:
        self.code, self.order = code, "="

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]


class _Rows:
    """Stands for a NumPy array."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: Any) -> None:
        self.state = tuple(state)

    def array(self) -> NDArray[np.float64]:
        """The array that was described."""
        _, shape, kind, by_columns, content = self.state
        if not isinstance(kind, _Kind) or not _NUMBERS.fullmatch(kind.code):
            raise ValueError("it is not an array of numbers")
        order = kind.order if kind.order in "<>" else "="
        flat = np.frombuffer(content, np.dtype(order + kind.code))
        return flat.reshape(shape, order="F" if by_columns else "C").astype(np.float64)


def _reconstruct(*_: Any) -> _Rows:
    return _Rows()


def _encode(text: str, encoding: str = "") -> bytes:
    """What ``_codecs.encode`` is used for in a pickled array: bytes written as text."""
    if encoding != "latin1":
        raise ValueError(f"its bytes are written as '{encoding}'")
    return text.encode("latin1")


class _Refused(Exception):
    """A name that an array does not need."""


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Rows,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _encode,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _ALLOWED:
            raise _Refused(f"{module_name}.{global_name}")
        return _ALLOWED[module_name, global_name]


def read_init_states(path: Path, width: int) -> NDArray[np.float64]:
    """The initial states of a task, one per row.

    Args:
        path: A ``.pruned_init`` or ``.init`` file.
        width: Numbers that a state of this task has.

    Raises:
        DataError: The file is absent, asks for more than arrays, or is not of this task.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            (entry,) = [one for one in archive.infolist() if one.filename.endswith("/data.pkl")]
            if entry.file_size > _LARGEST:
                raise ValueError(f"its content of {entry.file_size:,} bytes is too large")
            rows = _Reader(io.BytesIO(archive.read(entry))).load()
        if not isinstance(rows, _Rows):
            raise ValueError("it does not hold one array")
        states = rows.array()
    except _Refused as refused:
        raise DataError(
            f"'{path}' was not read: it asks for '{refused}', which could run code, and initial "
            "states need only NumPy arrays"
        ) from None
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"there is no file of initial states '{path}'") from None
    except Exception as error:
        # A broken pickle can fail in any way; nothing of ours is called from it.
        raise DataError(f"'{path}' is not a file of LIBERO's initial states: {error}") from error
    if states.ndim != 2 or not len(states) or states.shape[1] != width:
        raise DataError(
            f"'{path}' holds an array of shape {states.shape}, but initial states of its task have "
            f"{width} numbers each"
        )
    if not np.isfinite(states).all():
        raise DataError(f"'{path}' holds NaN or infinity")
    return states
