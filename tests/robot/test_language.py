"""How a policy is given its task: by number, by words, by a sentence encoder, from a file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clframe
from clframe.errors import DataError, SettingError
from clframe.robot import language, language_file, sentences

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
    assert task_size(task_input="task_id") == 32
    assert task_size(task_input="task_id", language_size=8) == 8
    assert task_size() == 3
    assert task_size(task_input="none") == 0
    with pytest.raises(SettingError, match=r"language_size needs"):
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


needs_encoder = pytest.mark.skipif(
    importlib.util.find_spec("wordllama") is None,
    reason="the sentence encoder, clframe[language], is not installed",
)


@needs_encoder
def test_a_sentence_encoder_knows_words_that_mean_the_same() -> None:
    texts = ["put the bowl on the stove", "place the dish on the cooker", "open the drawer"]
    vectors = sentences.embed(texts)
    assert vectors.shape == (3, 256)
    np.testing.assert_allclose((vectors**2).mean(1), 1.0, rtol=1e-4)
    alike = vectors @ vectors.T / 256
    assert alike[0, 1] > alike[0, 2] + 0.2
    assert sentences.embed(texts, 64).shape == (3, 64)
    assert task_size(task_input="sentence") == 256


def words(texts: list[str]) -> Any:
    return np.stack([language.embed(text) for text in texts])


@pytest.mark.parametrize("encode", [words, pytest.param(sentences.embed, marks=needs_encoder)])
def test_all_instructions_of_libero_have_vectors_of_their_own(
    encode: Callable[[list[str]], Any],
) -> None:
    suites = pytest.importorskip("clframe.worlds.tabletop.suites")
    by_suite = {name: [task.instruction for task in suites.tasks(name)] for name in suites.SHIPPED}
    texts = sorted({text for suite in by_suite.values() for text in suite})
    assert len(texts) == 112
    vectors = encode(texts)
    alike = vectors @ vectors.T / vectors.shape[1]
    assert np.triu(alike, 1).max() < 0.99
    forward, reverse = (by_suite["tabletop_90"][number] for number in (63, 64))
    assert sorted(reverse.split()) == sorted(forward.split())
    assert 0.9 < alike[texts.index(forward), texts.index(reverse)] < 0.975
    # What shares more words is more alike.
    found = [set(text.split()) for text in texts]
    shared = np.array([[len(a & b) / len(a | b) for a in found] for b in found])
    pairs = np.triu_indices(len(texts), 1)
    assert np.corrcoef(shared[pairs], alike[pairs])[0, 1] > 0.5


def test_the_order_is_that_of_the_formula() -> None:
    """Sentences of one word at other places, against the bell of fractional power encoding."""
    rows = np.zeros((6, 4096))
    rows[0] = np.random.default_rng(0).standard_normal(4096)
    for place in range(1, 6):
        moved = np.roll(rows, place, 0)
        one, two = (language._turned(words).sum(0) for words in (rows, moved))
        alike = one @ two / (one @ one)
        assert alike == pytest.approx(np.exp(-(place**2) / 8), abs=0.05)


def test_vectors_come_from_a_file(tmp_path: Path) -> None:
    stream = clframe.stream("point_robot", n_tasks=3, num_demos=2)
    texts = [task.info["language"] for task in stream.tasks]
    vectors = np.random.default_rng(0).standard_normal((4, 7)).astype(np.float32)
    file = tmp_path / "bert.npz"
    language_file.write(file, [*texts[::-1], "something else"], vectors)
    stream = clframe.stream(
        "point_robot", n_tasks=3, num_demos=2, task_input="file", language_file=str(file)
    )
    tables = stream.sequence_inputs.inputs.tasks  # type: ignore[attr-defined]
    np.testing.assert_array_equal(tables, vectors[[2, 1, 0]])
    language_file.write(file, ["Task 1", "Task 2", "Task 3"], vectors[:3])
    assert task_size(task_input="task_id", language_file=str(file)) == 7
    with pytest.raises(DataError, match=rf"bert.npz' has no vector of '{texts[0]}' and 2 more"):
        task_size(task_input="file", language_file=str(file))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"task_input": "file"}, "task_input=file needs stream.language_file"),
        ({"task_input": "language", "language_file": "a.npz"}, "language_file needs"),
        ({"task_input": "file", "language_file": "nowhere.npz"}, "language vectors 'nowhere.npz'"),
        (
            {"task_input": "task_id", "language_file": "a.npz", "language_size": 3},
            "language_size needs",
        ),
    ],
)
def test_settings_that_do_not_fit_are_said(settings: dict[str, Any], said: str) -> None:
    with pytest.raises((SettingError, DataError), match=said):
        task_size(**settings)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello", "is not a file of language vectors"),
        ({"texts": np.array(["a"])}, "has no array 'vectors'"),
        ({"texts": np.array(["a"]), "vectors": np.zeros((2, 3))}, "a row for each of the 1 texts"),
        ({"texts": np.array([1]), "vectors": np.zeros((1, 3))}, "texts must be a list of strings"),
        ({"texts": np.array(["a"]), "vectors": np.full((1, 3), np.nan)}, "NaN or infinite"),
        ({"texts": np.array(["a"], object), "vectors": np.zeros((1, 3))}, "is not a file of lang"),
    ],
)
def test_a_broken_file_is_one_sentence(content: Any, said: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.npz"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        np.savez(file, **content)
    with pytest.raises(DataError, match=f"broken.npz.*{said}"):
        language_file.read(file)
