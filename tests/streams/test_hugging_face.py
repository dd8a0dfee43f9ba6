"""Hugging Face data sets on disk, in the layout that ``save_to_disk`` writes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

import clframe
from clframe import ClframeError
from clframe.cli.main import main
from clframe.data.identify import ids_of
from clframe.testing import check_stream

NAMES = ["ant", "bee", "cat", "dog"]


def png(value: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((5, 5, 3), value, np.uint8)).save(file, "PNG")
    return file.getvalue()


def save(folder: Path, columns: dict[str, Any], features: dict[str, Any], shards: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    names = []
    for k in range(shards):
        name = f"data-{k:05d}-of-{shards:05d}.arrow"
        part = table.slice(len(table) * k // shards, len(table) // shards)
        with pa.ipc.new_stream(str(folder / name), table.schema) as writer:
            writer.write_table(part)
        names.append({"filename": name})
    state = {"_data_files": names, "_fingerprint": "1", "_format_type": None, "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))


FEATURES = {"image": {"_type": "Image"}, "label": {"names": NAMES, "_type": "ClassLabel"}}


def images(n: int) -> dict[str, Any]:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": png(40 * (i % 4) + i), "path": None} for i in range(n)]
    return {
        "image": pa.array(rows, kind),
        "label": pa.array([i % 4 for i in range(n)], pa.int64()),
        "year": pa.array([2000 + 4 * i // n for i in range(n)]),
    }


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A data set with two splits, the first in two files."""
    root = tmp_path / "animals"
    save(root / "train", images(40), FEATURES, shards=2)
    save(root / "test", images(8), FEATURES)
    (root / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    return root


def test_a_saved_data_set_becomes_a_matrix(saved: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["fit", "stream=hf", f"stream.path={saved}", "stream.n_experiences=2"]
    assert main([*words, "max_epochs=1", "logger=none", f"run_dir={run}"]) == 0
    results = json.loads((run / "results.json").read_text())
    assert results["matrix"]["columns"] == ["ant-bee", "cat-dog"]


def test_rows_are_read_as_they_are(saved: Path) -> None:
    stream = clframe.stream("hf", path=str(saved), n_experiences=2)
    check_stream(stream)
    first = stream.experiences[0].data
    assert len(first) == 20
    value = first.gather(torch.tensor([3]))[0, 0, 0, 0]
    assert int(value) == 45  # the fourth of ant and bee is row 5: 40 * 1 + 5
    for workers in (0, 1):
        again = clframe.stream("hf", path=str(saved), n_experiences=2, num_workers=workers)
        batches = [
            next(iter(s.experiences[0].data.batches(torch.arange(9), 9))) for s in (stream, again)
        ]
        assert torch.equal(batches[0].x, batches[1].x)
    years = clframe.stream("hf", path=str(saved), by="time", column="year", n_experiences=2)
    assert [e.name for e in years] == ["time0", "time1"]


def test_arrays_paths_and_plain_numbers(tmp_path: Path) -> None:
    Image.fromarray(np.full((5, 5), 7, np.uint8)).save(tmp_path / "a.png")
    pixels = [np.full((4, 6), 10 * (i % 2), np.uint8).tolist() for i in range(20)]
    save(tmp_path / "arrays", {"x": pixels, "label": [i % 2 for i in range(20)]}, {})
    stream = clframe.stream("hf", path=str(tmp_path / "arrays"), color="gray")
    assert stream.input_shape == (1, 4, 6)
    assert [e.name for e in stream] == ["0", "1"]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = pa.array([{"bytes": None, "path": "a.png"}] * 4, kind)
    save(tmp_path / "paths", {"img": rows, "labels": ["u", "v", "u", "v"]}, {})
    with pytest.raises(clframe.DataError, match="cannot read image"):
        clframe.stream("hf", path=str(tmp_path / "paths"))
    (tmp_path / "a.png").rename(tmp_path / "paths" / "a.png")
    stream = clframe.stream("hf", path=str(tmp_path / "paths"))
    assert float(
        next(iter(stream.tasks[0].data.batches(torch.arange(1), 1))).x.max()
    ) == pytest.approx(7 / 255)


@pytest.mark.parametrize("name", ["../a.png", "/a.png"])
def test_a_path_stays_in_the_dataset(name: str, tmp_path: Path) -> None:
    Image.fromarray(np.full((5, 5), 7, np.uint8)).save(tmp_path / "a.png")
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    given = str(tmp_path / "a.png") if name == "/a.png" else name
    rows = pa.array([{"bytes": None, "path": given}] * 4, kind)
    save(tmp_path / "paths", {"img": rows, "labels": ["u", "v", "u", "v"]}, {})
    with pytest.raises(clframe.DataError, match="not inside"):
        clframe.stream("hf", path=str(tmp_path / "paths"))


def _broken(saved: Path, what: str) -> dict[str, Any]:
    train = saved / "train"
    if what == "file":
        (train / "data-00001-of-00002.arrow").write_bytes(b"not arrow")
    elif what == "gone":
        (train / "data-00001-of-00002.arrow").unlink()
    elif what == "label":
        save(train, {**images(8), "label": pa.array([0, 1, 2, 9] * 2)}, FEATURES)
    elif what == "image":
        rows = images(8)["image"].to_pylist()
        rows[2]["bytes"] = b"no image"
        save(train, {**images(8), "image": pa.array(rows, images(8)["image"].type)}, FEATURES)
    elif what == "floats":
        save(train, {"image": [[[0.5] * 3] * 3] * 8, "label": [0, 1] * 4}, {})
    elif what == "index":
        state = json.loads((train / "state.json").read_text())
        state["_indices_data_files"] = [{"filename": "indices.arrow"}]
        (train / "state.json").write_text(json.dumps(state))
    elif what == "one split":
        kept = {**images(8), "label": pa.array([0, 1, 2, 0] * 2)}
        save(train, kept, FEATURES)
    return {
        "column": {"label": "klass"},
        "split": {"train": "tran"},
        "several": {"image": "bild"},
    }.get(what, {})


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("file", "data-00001-of-00002.arrow': "),
        ("gone", "data-00001-of-00002.arrow': "),
        ("label", "label 9 is out of range; 'label' has 4 names"),
        ("image", "row 2 of"),
        ("floats", "numbers that are not pixels"),
        ("index", "flatten_indices()"),
        ("one split", "have no training sample"),
        ("column", "no column 'klass'"),
        ("split", "no split 'tran'; did you mean 'train'"),
        ("several", "no column 'bild'"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    saved: Path, what: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"stream.{key}={value}" for key, value in _broken(saved, what).items()]
    arguments = ["fit", "stream=hf", f"stream.path={saved}", *given, "max_steps=1"]
    assert main([*arguments, "logger=none", f"run_dir={saved / 'run'}"]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert len(message.strip().splitlines()) == 1


def test_bad_rows_are_left_out_on_request(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _broken(saved, "image")
    assert main(["data", "check", "hf", str(saved)]) == 0
    assert "unreadable: 1: row 2 of" in capsys.readouterr().out
    stream = clframe.stream("hf", path=str(saved), on_bad="skip")
    assert sum(len(e.data) for e in stream) == 7
    assert "left out 1 of 16 images" in capsys.readouterr().err


def test_another_folder_is_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(ClframeError, match=r"is not a Hugging Face dataset on disk"):
        clframe.stream("hf", path=str(tmp_path))


def test_rows_that_are_added_move_no_others(tmp_path: Path) -> None:
    def sides(columns: dict[str, Any]) -> tuple[set[int], set[int]]:
        save(tmp_path / "set", columns, FEATURES)
        stream = clframe.stream("hf", path=str(tmp_path / "set"))
        found = [
            {int(number) for one in parts for number in ids_of(one.data)}  # type: ignore[union-attr]
            for parts in (stream.experiences, stream.tasks)
        ]
        return found[0], found[1]

    few = {name: column[:28] for name, column in images(40).items()}
    learned, tested = sides(few)
    order = pa.array([*range(28, 40), *range(28)])
    more_learned, more_tested = sides({n: c.take(order) for n, c in images(40).items()})
    assert tested
    assert not learned & tested
    assert learned < more_learned
    assert tested <= more_tested
