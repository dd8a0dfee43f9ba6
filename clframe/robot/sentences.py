"""Instruction vectors of a frozen sentence encoder, whose weights come with a package.

WordLlama (MIT): token embeddings of a large language model, reduced and trained so that the
mean over a sentence is close to sentences of the same meaning. Its wheel includes the weights
(16 MB), so nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError
from clframe.robot.language import sentence_vector

SIZE = 256
"""Numbers in a vector; it was trained so that its first numbers alone are useful too."""


@cache
def _encoder() -> Any:
    try:
        import wordllama
    except ImportError as error:
        raise SettingError(
            "stream.task_input=sentence needs the sentence encoder: pip install "
            "'clframe[language]'; task_input=language works without it"
        ) from error
    # By default, the package looks for its tokenizer in a folder that does not exist.
    folder = Path(wordllama.__file__).parent
    try:
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    except (OSError, ValueError) as error:
        raise SettingError(
            f"cannot load the sentence encoder of wordllama in '{folder}': {error}"
        ) from error


def embed(texts: Sequence[str], size: int = SIZE) -> NDArray[np.float32]:
    """Return one vector for each text, with numbers of about unit size.

    The encoder is a mean over tokens and ignores their order; this mean is half of a vector, see
    :func:`clframe.robot.language.sentence_vector`.

    Raises:
        SettingError: The package is not installed, or the size is too large.
    """
    if size > SIZE:
        raise SettingError(
            f"stream.language_size must be at most {SIZE} with stream.task_input=sentence, got "
            f"{size}"
        )
    encoder = _encoder()
    return np.stack([sentence_vector(_tokens(encoder, text)[:, :size]) for text in texts])


def _tokens(encoder: Any, text: str) -> NDArray[np.float64]:
    """Return the vectors of a text's tokens, or one of zeros if it has none."""
    (encoding,) = encoder.tokenize([text])
    vectors = np.asarray(encoder.embedding, np.float64)[np.array(encoding.ids, int)]
    return vectors if len(vectors) else np.zeros((1, SIZE))
