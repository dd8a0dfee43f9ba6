"""Instruction vectors from a file that was made with a language model.

``scripts/make_language_vectors.py`` creates such files with BERT, CLIP and GPT-2. A file is a
NumPy archive with ``texts`` (strings) and ``vectors`` (a row of numbers for each text).
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.utils.files import replacing


def embed(path: Path, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the vector of each text from the file.

    Raises:
        DataError: The file cannot be read, or lacks a text.
    """
    stored, vectors = read(path)
    row_of = {text: row for row, text in enumerate(stored)}
    missing = [text for text in texts if text not in row_of]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(
            f"'{path}' has no vector of '{missing[0]}'{others}; make a file with all instructions "
            "with scripts/make_language_vectors.py"
        )
    return vectors[[row_of[text] for text in texts]]


def read(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Return the texts of a file and their vectors.

    Raises:
        DataError: The file cannot be used.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise DataError(f"'{path}' is one array, not an archive of texts and vectors")
            arrays: dict[str, Any] = {name: file[name] for name in ("texts", "vectors")}
    except FileNotFoundError as error:
        raise DataError(f"there is no file of language vectors '{path}'") from error
    except KeyError as error:
        raise DataError(f"'{path}' has no array {error.args[0].split()[0]!r}") from error
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"'{path}' is not a file of language vectors: {error}") from error
    texts, vectors = arrays["texts"], arrays["vectors"]
    if texts.ndim != 1 or texts.dtype.kind != "U":
        raise DataError(f"'{path}': texts must be a list of strings")
    if vectors.ndim != 2 or vectors.shape[0] != len(texts) or vectors.dtype.kind != "f":
        raise DataError(
            f"'{path}': vectors must be floating-point numbers, a row for each of the {len(texts)} "
            f"texts, but they are {vectors.dtype} {list(vectors.shape)}"
        )
    if vectors.shape[1] == 0 or not np.isfinite(vectors).all():
        raise DataError(f"'{path}' holds vectors that are empty, NaN or infinite")
    return texts.tolist(), vectors.astype(np.float32)


def write(path: Path, texts: Sequence[str], vectors: NDArray[Any]) -> None:
    """Write texts and their vectors, whole or not at all."""
    with replacing(path) as file:
        np.savez(file, texts=np.array(list(texts), "U"), vectors=vectors.astype(np.float32))
