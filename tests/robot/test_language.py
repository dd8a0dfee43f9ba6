"""How a policy is given its task: by number, by words, by a sentence encoder."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest

import clframe
from clframe.errors import SettingError
from clframe.robot import language, sentences

pytest.importorskip("h5py", reason="demonstrations are HDF5 files")


def task_size(**settings: Any) -> Any:
    stream = clframe.stream("point_robot", n_tasks=3, num_demos=2, **settings)
    return stream.layout.task  # type: ignore[attr-defined]


def test_words_make_vectors_of_any_size() -> None:
    for size in (32, 768):
        vectors = np.stack(
            [
                language.embed(text, size)
                for text in ("put the bowl on the stove", "put the mug on the stove", "open it")
            ]
        )
        assert vectors.shape == (3, size)
        np.testing.assert_allclose((vectors**2).mean(1), 1.0, rtol=1e-5)
        alike = vectors @ vectors.T / size
        assert alike[0, 1] > 0.5 > abs(alike[0, 2])


def test_the_size_is_a_setting() -> None:
    assert task_size(task_input="language") == 32
    assert task_size(task_input="language", language_size=768) == 768
    assert task_size() == 3
    assert task_size(task_input="none") == 0
    with pytest.raises(SettingError, match=r"language_size has a meaning only with"):
        task_size(language_size=768)
    with pytest.raises(SettingError, match=r"language_size must be at least 1"):
        task_size(task_input="language", language_size=0)


def test_an_absent_sentence_encoder_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences._encoder.cache_clear()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(SettingError, match=r"pip install 'clframe\[language\]'"):
        task_size(task_input="sentence")


def test_more_numbers_than_the_encoder_has_are_refused() -> None:
    with pytest.raises(SettingError, match=r"language_size must be at most 256 .* got 300"):
        task_size(task_input="sentence", language_size=300)


@pytest.mark.skipif(
    importlib.util.find_spec("wordllama") is None,
    reason="the sentence encoder, clframe[language], is not installed",
)
def test_a_sentence_encoder_knows_words_that_mean_the_same() -> None:
    texts = ["put the bowl on the stove", "place the dish on the cooker", "open the drawer"]
    vectors = sentences.embed(texts)
    assert vectors.shape == (3, 256)
    np.testing.assert_allclose((vectors**2).mean(1), 1.0, rtol=1e-4)
    alike = vectors @ vectors.T / 256
    assert alike[0, 1] > alike[0, 2] + 0.2
    assert sentences.embed(texts, 64).shape == (3, 64)
    assert task_size(task_input="sentence") == 256
