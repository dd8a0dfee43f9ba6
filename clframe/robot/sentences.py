"""Instructions as vectors of a frozen sentence encoder, whose weights come with a package.

WordLlama (MIT): token embeddings of a large language model, made smaller and trained so that the
mean over a sentence is near that of sentences that mean the same. The weights (16 MB) are in its
wheel, so nothing is fetched.
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
"""Numbers of a vector; it was trained such that the first of them alone will do as well."""


@cache
def _encoder() -> Any:
    try:
        import wordllama
    except ImportError as error:
        raise SettingError(
            "stream.task_input=sentence needs the sentence encoder: pip install "
            "'clframe[language]' (task_input=language does without)"
        ) from error
    # The package looks for its tokenizer in a folder that it does not have; this one it has.
    here = Path(wordllama.__file__).parent
    try:
        return wordllama.WordLlama.load(cache_dir=here, disable_download=True)
    except (OSError, ValueError) as error:
        raise SettingError(
            f"the sentence encoder of wordllama in '{here}' cannot be loaded: {error}"
        ) from error


def embed(texts: Sequence[str], size: int = SIZE) -> NDArray[np.float32]:
    """One vector for each text, with numbers of about unit size.

    The encoder is a mean over tokens, to which their order is all the same; half of a vector is
    made of it by :func:`clframe.robot.language.sentence_vector`.

    Raises:
        SettingError: The package is not installed, or the size is more than it has.
    """
    if size > SIZE:
        raise SettingError(
            f"stream.language_size must be at most {SIZE} with stream.task_input=sentence, got "
            f"{size}"
        )
    encoder = _encoder()
    return np.stack([sentence_vector(_tokens(encoder, text)[:, :size]) for text in texts])


def _tokens(encoder: Any, text: str) -> NDArray[np.float64]:
    """The vectors of a text's tokens; one of zeros where it has none."""
    (found,) = encoder.tokenize([text])
    vectors = np.asarray(encoder.embedding, np.float64)[np.array(found.ids, int)]
    return vectors if len(vectors) else np.zeros((1, SIZE))
