"""The vector that tells a policy its task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError
from clframe.robot import language, language_file, sentences

TaskInput = Literal["one_hot", "task_id", "language", "sentence", "file", "none"]
TEXTS = ("language", "sentence", "file")
"""The inputs made from the instruction."""


def task_vectors(
    instructions: Sequence[str],
    kind: TaskInput,
    size: int | None = None,
    file: str | None = None,
) -> NDArray[np.float32]:
    """Return one vector for each instruction.

    Args:
        instructions: The tasks' instructions, in order.
        kind: ``stream.task_input``.
        size: ``stream.language_size``.
        file: ``stream.language_file``.
    """
    if file is not None and kind not in ("file", "task_id"):
        raise SettingError("stream.language_file needs stream.task_input=file or task_id")
    if kind == "file" and file is None:
        raise SettingError("stream.task_input=file needs stream.language_file=FILE.npz")
    if size is not None and (kind in ("one_hot", "none") or file is not None):
        raise SettingError(
            "stream.language_size needs stream.task_input=language, sentence or task_id, and no "
            "language_file"
        )
    if kind == "one_hot":
        return np.eye(len(instructions), dtype=np.float32)
    if kind == "none":
        return np.zeros((len(instructions), 0), np.float32)
    texts = list(instructions)
    if kind == "task_id":
        texts = [language.task_name(index) for index in range(len(texts))]
    if file is not None:
        return language_file.embed(Path(file).expanduser(), texts)
    if kind == "sentence":
        return sentences.embed(texts, size or sentences.SIZE)
    return np.stack([language.embed(text, size or language.SIZE) for text in texts])
