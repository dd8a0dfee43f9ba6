"""Files of somebody hostile: one message each, and nothing runs, hangs or is written elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import clframe
from clframe.checkpoint.store import note_sum
from clframe.cli.main import main
from clframe.errors import DataError
from clframe.utils import plain_yaml, regular
from clframe.utils.console import print_lines, print_out, printable
from clframe.utils.image_files import opened_image
from clframe.utils.inside import file_name, filled, inside

ROOT = Path(__file__).parents[2]
SETTINGS: dict[str, Any] = {"max_steps": 1, "progress": False, "logger": None}
LOOKING = ("report", "compare", "eval", "verify", "resume", "fork")
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e\rclframe: all is well\nclframe: all is well"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("made") / "run"
    clframe.fit(
        "split_mnist", "naive", run_dir=run, checkpoint={"every_experience": True}, **SETTINGS
    )
    return run


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    run = Path(shutil.copytree(made, tmp_path / "run"))
    (run / "SHA256SUMS").unlink()
    return run


def words(command: str, run: Path) -> list[str]:
    return {
        "resume": ["fit", f"resume={run}"],
        "fork": ["fork", str(run), "--at", "1", f"run_dir={run.parent / 'child'}"],
        "watch": ["watch", str(run), "--once"],
        "l2": ["l2", str(run / "log"), "--no-plots", "--out", str(run.parent / "l2")],
        "report": ["report", str(run), "--out", str(run.parent / "report.html")],
    }.get(command, [command, str(run)])


def refused(command: str, run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one message of a command that must not go through."""
    capsys.readouterr()
    assert main(words(command, run)) == 2, command
    said = capsys.readouterr().err
    assert said.startswith("clframe: ")
    assert said.count("\n") == 1, said
    return said


def put(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


# ---------------------------------------------------------------- run folders

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(12)
)


@pytest.mark.parametrize(
    "content",
    [
        BOMB,
        "x: &a 1\n",
        "seed: " + "9" * 5000,
        "seed: 0x" + "f" * 9999,
        "[" * 20_000,
        b"\xff\xfe\0",
    ],
)
def test_a_hostile_config_is_one_message(
    content: str | bytes, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(run / "config.yaml", content)
    for command in ("eval", "verify", "resume", "fork"):
        assert "config.yaml" in refused(command, run, capsys)


def test_dates_and_numbers_to_the_base_60_are_texts() -> None:
    text = "a: 2001-13-45\nb: " + "1:" * 200_000 + "1\nc: 1:30\nd: 12\ne: -0.5\nf: 1.0e-3\n"
    read = plain_yaml.read_yaml(text)
    assert read["a"] == "2001-13-45"
    assert read["c"] == "1:30"
    assert len(read["b"]) == 400_001
    assert (read["d"], read["e"], read["f"]) == (12, -0.5, 0.001)
    content = {"a": "2001-01-01", "b": "1:30", "c": [0.1, 1e-8, None, True, "1", "x: y", 1e300]}
    shared = [content, content]
    assert plain_yaml.read_yaml(plain_yaml.as_yaml(shared)) == shared
    assert "&" not in plain_yaml.as_yaml(shared)


@pytest.mark.parametrize(
    "name", ["results.json", "config.yaml", "events.jsonl", ".lock", "checkpoints/000001.json"]
)
def test_what_is_no_regular_file_is_not_opened(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    for command in LOOKING:
        said = refused(command, run, capsys)
        assert Path(name).name in said or "has no config" in said
    assert main(words("watch", run)) in (0, 2)


@pytest.mark.parametrize("name", ["results.json", "config.yaml", "SHA256SUMS"])
def test_a_file_of_200_gigabytes_is_not_read(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / name).touch()
    os.truncate(run / name, 200 << 30)
    assert name in refused("report", run, capsys)


def test_numbers_of_5000_digits_are_one_message(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (run / "results.json").read_text().replace('"seed": 0', '"seed": ' + "9" * 5000)
    assert "9999" in text
    put(run / "results.json", text)
    for command in ("report", "compare"):
        assert "is not valid JSON" in refused(command, run, capsys)


@pytest.mark.parametrize(
    "content", [b"garbage\n", b"null\n", b"[]\n", b"\xff\xfe\n", b'{"step": []}\n']
)
def test_eval_needs_no_events(
    content: bytes, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(run / "events.jsonl", content)
    assert main(["eval", str(run)]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("experiences"),
        lambda state: state.pop("matrix"),
        lambda state: state.update(learner={}),
        lambda state: state.update(random=[]),
        lambda state: state.clear(),
    ],
)
def test_a_foreign_checkpoint_is_one_message(
    change: Callable[[dict[str, Any]], object], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge(run, change)
    for command in ("eval", "resume"):
        assert "is not a state of this run" in refused(command, run, capsys)
    assert main(["verify", str(run)]) in (1, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["plugins"]["lifetime_log"]["position"].update(files={}),
        lambda state: state["plugins"]["lifetime_log"]["position"].update(exp_num=[None]),
        lambda state: state["plugins"]["lifetime_log"].update(position="-0.5"),
        lambda state: state["plugins"]["lifetime_log"].update(rows="many"),
        lambda state: state["plugins"]["recorder"].update(mark=0.5),
        lambda state: state["plugins"]["data_record"].update(mark={"bytes": -1, "sha256": ""}),
        lambda state: state["timing"].update(eval_seconds={"a": 1}),
        lambda state: state.update(global_steps="1"),
        lambda state: state["optimizer"]["param_groups"][0].update(betas=["x", 0.9]),
    ],
)
def test_a_forged_state_is_refused_before_anything_is_learned(
    change: Callable[[dict[str, Any]], object], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge(run, change)
    assert "is not a state of this run" in refused("fork", run, capsys)
    (run / "results.json").unlink()
    assert "is not a state of this run" in refused("resume", run, capsys)


def forge(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change all checkpoints of a run, and make their sums right."""
    for path in (run / "checkpoints").glob("*.pt"):
        state = torch.load(path, weights_only=True)
        change(state)
        torch.save(state, path)
        note = json.loads(path.with_suffix(".json").read_text())
        content = path.read_bytes()
        note |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        note.pop("note_sha256")
        path.with_suffix(".json").write_text(json.dumps(note | {"note_sha256": note_sum(note)}))


def test_names_do_not_reach_the_terminal_raw(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = json.loads((run / "results.json").read_text())
    results["strategy"] = results["stream"] = ESCAPES
    results["matrix"]["columns"][0] = results["matrix"]["rows"][1] = ESCAPES
    results["metrics"][ESCAPES] = {ESCAPES: 0.5}
    put(run / "results.json", json.dumps(results))
    config = (run / "config.yaml").read_text().splitlines()
    config = [
        f"strategy_name: {json.dumps(ESCAPES)}" if "strategy_name" in one else one for one in config
    ]
    put(run / "config.yaml", "\n".join(config))
    capsys.readouterr()
    for command in ("compare", "report", "eval", "verify", "watch", "resume", "fork"):
        main(words(command, run))
        told = capsys.readouterr()
        said = told.out + told.err
        assert not set(said) & set("\x1b\x07\x9b\u202e\r"), command
        assert "clframe: all is well" not in said.splitlines(), command


# ---------------------------------------------------------------- bundles


def bundle(path: Path, made: Path, more: Callable[[zipfile.ZipFile], None]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("config.yaml", "results.json", "matrix.csv", "SHA256SUMS"):
            archive.write(made / name, name)
        more(archive)
    return path


def test_bundles_are_bounded(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def many(archive: zipfile.ZipFile) -> None:
        for number in range(10_001):
            archive.writestr(f"checkpoints/{number:08d}.json", b"")

    def large(archive: zipfile.ZipFile) -> None:
        with archive.open("checkpoints/00000001.pt", "w") as file:
            for _ in range(300):
                file.write(bytes(1 << 20))

    for number, (more, reason) in enumerate(
        ((many, "more than 10000 files"), (large, "would unpack to"))
    ):
        path = bundle(tmp_path / f"{number}.zip", made, more)
        assert main(["verify", str(path)]) == 2
        assert reason in capsys.readouterr().err
    assert not list(tmp_path.glob("clframe-bundle-*"))


def test_a_broken_bundle_is_one_message(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundle(tmp_path / "whole.zip", made, lambda archive: None)
    content = path.read_bytes()
    draw = np.random.default_rng(0)
    for number in range(40):
        broken = bytearray(content)
        broken[draw.integers(len(broken))] ^= 1 << int(draw.integers(8))
        path.write_bytes(broken)
        assert main(["verify", str(path)]) == 2, number
        assert capsys.readouterr().err.count("\n") == 1


# ---------------------------------------------------------------- images


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    for name in ("apple", "bolt"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(3):
            pixels = draw.integers(0, 255, (8, 8, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    return tmp_path / "images"


def test_an_image_starts_no_program(
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "bin").mkdir()
    put(tmp_path / "bin" / "gs", f"#!/bin/sh\ntouch {tmp_path / 'mark'}\n")
    (tmp_path / "bin" / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    put(images / "apple" / "0.png", POSTSCRIPT)
    line = ["stream=folder", f"stream.path={images}", "max_steps=1", f"run_dir={tmp_path / 'run'}"]
    assert main(["fit", *line]) == 2
    assert "apple/0.png" in capsys.readouterr().err
    assert main(["data", "check", "folder", str(images)]) == 0
    assert "unreadable: 1" in capsys.readouterr().out
    assert not (tmp_path / "mark").exists()


def test_huge_images_are_not_decoded(images: Path) -> None:
    Image.new("1", (9000, 9000)).save(images / "huge.png")
    with pytest.raises(OSError, match="9000 x 9000 pixels"), opened_image(images / "huge.png"):
        pass


def test_images_are_opened_by_one_function() -> None:
    """Every other call names its formats, or opens what clframe itself has drawn."""
    own = {
        "utils/image_files.py",
        "loggers/local.py",
        "loggers/lightning.py",
        "streams/images/get.py",
    }
    for path in sorted((ROOT / "clframe").rglob("*.py")):
        name = path.relative_to(ROOT / "clframe").as_posix()
        assert name in own or "Image.open(" not in path.read_text(), name


def test_a_class_with_a_name_that_is_not_utf_8_is_one_message(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.rename(os.fsencode(images / "apple"), os.fsencode(images) + b"/\xff\xfe")
    line = ["stream=folder", f"stream.path={images}", "max_steps=1", f"run_dir={tmp_path / 'run'}"]
    for command in (["fit", *line], ["data", "check", "folder", str(images)]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "not UTF-8" in said
        assert "\\xff\\xfe" in said


def test_a_class_cannot_print_a_line_of_ours(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (images / "apple").rename(images / "a\nclframe: all is well\x1b[2J")
    line = ["stream=folder", f"stream.path={images}", "max_steps=1", f"run_dir={tmp_path / 'run'}"]
    line += ["n_experiences=2", "trainer.batch_size=2"]
    for command in (["fit", *line], ["data", "check", "folder", str(images)]):
        assert main(command) == 0
        told = capsys.readouterr()
        said = told.out + told.err
        assert "\x1b" not in said
        assert not any(one.startswith("clframe: all is well") for one in said.splitlines())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.csv", "file,label\n" + "x" * 200_000 + ",a\n"),
        ("list.csv", "file,label\n" + "x" * 100_000 + ",a\n"),
        ("list.json", "[" * 100_000),
        ("list.jsonl", '{"a":' * 50_000),
        ("list.json", '[{"file": ' + "9" * 5000 + "}]"),
    ],
)
def test_a_hostile_list_is_one_message(
    name: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / name, content)
    assert main(["data", "check", "file_list", str(tmp_path / name)]) == 2
    assert name in capsys.readouterr().err


# ---------------------------------------------------------------- LeRobot


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    pytest.importorskip("pyarrow")
    pytest.importorskip("h5py")
    from clframe.robot.demonstrations import Demonstration
    from clframe.robot.formats.lerobot.write import write
    from clframe.robot.formats.recording import Recording

    draw = np.random.default_rng(0)
    demos = []
    for _ in range(2):
        state = draw.uniform(-0.7, 0.7, (6, 2)).astype(np.float32)
        image = draw.integers(0, 255, (6, 8, 8, 3), np.uint8)
        demos.append(Demonstration(state.copy(), {"state": state, "top_rgb": image}))
    write(tmp_path / "set", [Recording("reach", "reach it", {}, demos)])
    return tmp_path / "set"


def change(path: Path, *keys: Any, value: Any) -> None:
    content = json.loads(path.read_text())
    holder = content
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = value
    path.write_text(json.dumps(content))


def import_code(dataset: Path) -> int:
    return main(["demos", "import", str(dataset), "--out", str(dataset.parent / "out")])


@pytest.mark.parametrize("name", ["../pwned", "/pwned", "a/../../../pwned", "..", "\x1b[2J"])
def test_an_imported_task_is_written_to_the_folder_that_was_named(
    name: str, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = str(dataset.parent / "elsewhere" / "pwned") if name == "/pwned" else name
    change(dataset / "meta" / "clframe.json", "tasks", 0, "name", value=given)
    before = {path for path in dataset.parent.rglob("*") if "out" not in path.parts}
    assert import_code(dataset) == 0
    after = {path for path in dataset.parent.rglob("*") if "out" not in path.parts}
    assert after == before | {dataset.parent / "out"} - {dataset.parent / "out"}
    assert len(list((dataset.parent / "out").glob("*.hdf5"))) == 1
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "pattern",
    [
        "../other/data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "{chunk_index:>3000000000}",
        "{chunk_index.__class__}",
        "{}",
        5,
    ],
)
def test_a_dataset_stays_in_its_folder(
    pattern: Any, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(dataset, dataset.parent / "other")
    change(dataset / "meta" / "info.json", "data_path", value=pattern)
    assert import_code(dataset) == 2
    assert "info.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "keys", "value"),
    [
        ("info.json", ("features",), []),
        ("info.json", ("features", "action"), None),
        ("info.json", ("features", "action", "shape"), "2"),
        ("info.json", ("features", "action", "dtype"), {}),
        ("info.json", ("fps",), "fast"),
        ("info.json", ("codebase_version",), None),
        ("clframe.json", ("tasks",), None),
        ("clframe.json", ("tasks", 0), {}),
        ("clframe.json", ("episodes", 0), {"task": 7}),
        ("clframe.json", ("episodes", 0, "rows"), 3),
        ("clframe.json", ("observations",), [1]),
    ],
)
def test_odd_metadata_is_one_message(
    file: str, keys: tuple[Any, ...], value: Any, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(dataset / "meta" / file, *keys, value=value)
    assert import_code(dataset) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(dataset) in said


@pytest.mark.parametrize("value", [None, [], {"min": [{"a": 1}, 0]}, {"min": "x", "max": [1, 1]}])
def test_odd_statistics_are_one_message(
    value: Any, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(dataset / "meta" / "stats.json", "action", value=value)
    line = ["stream=lerobot", f"stream.path={dataset}", f"run_dir={dataset.parent / 'run'}"]
    assert main(["fit", *line]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "stats.json" in said


def test_deep_metadata_and_empty_columns_are_one_message(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = next((dataset / "meta" / "episodes").rglob("*.parquet"))
    table = pq.read_table(path)
    place = table.column_names.index("length")
    nothing = pa.nulls(len(table), pa.int64())
    pq.write_table(table.set_column(place, "length", nothing), path)
    assert import_code(dataset) == 2
    assert "TypeError" in capsys.readouterr().err
    put(dataset / "meta" / "info.json", "[" * 100_000)
    assert import_code(dataset) == 2
    assert "nested too deeply" in capsys.readouterr().err


# ---------------------------------------------------------------- the parts


def test_paths_and_patterns(tmp_path: Path) -> None:
    assert inside(tmp_path, "a/b", "it") == tmp_path / "a/b"
    for name in ("../x", "/etc/passwd", "a/../../x", "\0"):
        with pytest.raises(DataError, match="not inside"):
            inside(tmp_path, name, "it")
    snapshot = tmp_path / "hub" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (tmp_path / "hub" / "blobs").mkdir()
    put(tmp_path / "hub" / "blobs" / "x", "x")
    (snapshot / "x").symlink_to("../../blobs/x")
    assert inside(snapshot, "x", "it").read_text() == "x"
    assert filled("a-{n:03d}/{key}", "it", n=7, key="k") == "a-007/k"
    assert file_name("KITCHEN_SCENE1_put-v3 (a)") == "KITCHEN_SCENE1_put-v3 (a)"
    assert "/" not in file_name("/a/../b")


def test_a_file_that_is_too_large_is_named(tmp_path: Path) -> None:
    put(tmp_path / "x", b"12345")
    assert regular.read_bytes(tmp_path / "x", 5) == b"12345"
    with pytest.raises(OSError, match="at most 4 are read"):
        regular.read_bytes(tmp_path / "x", 4)


def test_control_characters_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\tb é ✓") == "a\tb é ✓"
    assert printable("\x1b[2J\n\x9b\u202e\udcff") == "\\x1b[2J\\n\\x9b\\u202e\\xff"
    print_out("\x1b[32mok\x1b[0m\nnext \x1b[8m")
    print_lines("one\ntwo\x07")
    assert capsys.readouterr().out == "\x1b[32mok\x1b[0m\\nnext \\x1b[8m\none\ntwo\\x07\n"


@pytest.mark.slow
def test_hostile_folders(tmp_path: Path) -> None:
    for package in ("pyarrow", "gymnasium", "h5py"):
        pytest.importorskip(package)
    command = [sys.executable, str(ROOT / "benchmarks" / "hostile_folders.py"), "--count", "30"]
    done = subprocess.run(
        [*command, "--seed", "7", "--jobs", "1", "--json", str(tmp_path / "out.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    assert len(found) == 30
    assert sum(len(case["calls"]) for case in found) > 60
