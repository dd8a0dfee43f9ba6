"""The cache is right whatever happens to it: processes, kills, damage."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clframe
from clframe.core.registry import discover
from clframe.errors import DataError
from clframe.utils import processes
from clframe.worlds.objects.frames.build import ensure
from clframe.worlds.objects.frames.cache_plan import Plan
from clframe.worlds.objects.frames.rendered_source import plan_rendered
from clframe.worlds.objects.rendered import RenderSettings
from tests.helpers.processes import Process, ProcessServer, until

INSTANCES = ("bottle_01", "cup_01", "wallet_02")
BUILD = """
import sys
from pathlib import Path
from clframe.worlds.objects.frames.build import ensure
from clframe.worlds.objects.rendered import RenderSettings
from clframe.worlds.objects.frames.rendered_source import plan_rendered
frames, workers = int(sys.argv[2]), int(sys.argv[3])
plan = plan_rendered(RenderSettings(size=16, frames=frames), ["bottle_01", "cup_01", "wallet_02"])
ensure(plan, [plan.sections["pixel", n] for n in range(1, 10)], Path(sys.argv[1]), workers)
"""


def small_plan(frames: int = 2) -> Plan:
    return plan_rendered(RenderSettings(size=16, frames=frames), INSTANCES)


def make(folder: Path, numbers: Any = (1, 2), workers: int = 1, frames: int = 2) -> Any:
    plan = small_plan(frames)
    return ensure(plan, [plan.sections["pixel", n] for n in numbers], folder, workers)


def content(cache: Any, numbers: Any = (1, 2)) -> dict[str, bytes]:
    sections = [cache.plan.sections["pixel", n] for n in numbers]
    first, last = sections[0].start, sections[-1].stop
    return {name: cache.rows(name, first, last).tobytes() for name in cache.plan.arrays}


def start(server: ProcessServer, folder: Path, name: str, frames: int, workers: int) -> Process:
    words = ["-c", BUILD, str(folder), str(frames), str(workers)]
    return server.start(words, folder.parent, errors=folder.parent / f"{name}.txt")


def records(folder: Path) -> dict[str, float]:
    return {p.name: p.stat().st_mtime_ns for p in folder.glob("*/sections/*.json")}


def test_nothing_is_made_before_data_is_asked_for(tmp_path: Path) -> None:
    discover()
    stream = clframe.stream("openloris_pixel", data_dir=tmp_path, n_instances=2)
    assert len(stream) == 9
    assert list(tmp_path.iterdir()) == []


def test_one_and_two_processes_make_the_same(tmp_path: Path) -> None:
    one = make(tmp_path / "one")
    two = make(tmp_path / "two", workers=2)
    assert content(one) == content(two)
    assert len(set(content(one)["rgb"])) > 10  # images, not zeros
    read = [json.loads((c.folder / "sections/pixel-2.json").read_text()) for c in (one, two)]
    assert read[0] == read[1]


def test_a_second_use_makes_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make(tmp_path)
    before = records(tmp_path)
    capfd.readouterr()
    make(tmp_path)
    assert records(tmp_path) == before
    assert capfd.readouterr().err == ""
    make(tmp_path, (2, 3))
    assert {name: records(tmp_path)[name] for name in before} == before


@pytest.mark.parametrize("array", ["rgb", "depth", "box"])
def test_a_changed_byte_is_noticed_and_mended(
    tmp_path: Path, array: str, capfd: pytest.CaptureFixture[str]
) -> None:
    cache = make(tmp_path)
    good = content(cache)
    path = cache.folder / f"{array}.npy"
    place = np.load(path, "r").offset + cache.plan.sections["pixel", 2].start * (
        np.load(path, "r")[0].nbytes
    )
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 255]))
    untouched = records(tmp_path)["pixel-1.json"]
    mended = make(tmp_path)
    assert capfd.readouterr().err.count(f"cached pixel-2 ({array})") == 1
    assert content(mended) == good
    assert records(tmp_path)["pixel-1.json"] == untouched


@pytest.mark.parametrize("harm", ["cut", "gone", "foreign", "record"])
def test_a_damaged_file_is_made_again(tmp_path: Path, harm: str) -> None:
    cache = make(tmp_path)
    good = content(cache)
    path = cache.folder / "rgb.npy"
    if harm == "cut":
        os.truncate(path, 500)
    elif harm == "gone":
        path.unlink()
    elif harm == "foreign":
        path.write_bytes(b"nothing of ours")
    else:
        (cache.folder / "sections/pixel-1.json").write_text('{"crc32": {"rgb')
    assert content(make(tmp_path)) == good


@pytest.mark.slow  # enough images for a kill in their middle
@pytest.mark.usefixtures("quick_python")
def test_a_kill_loses_only_what_was_unfinished(
    tmp_path: Path, clframe_process: ProcessServer
) -> None:
    killed = tmp_path / "killed"
    process = start(clframe_process, killed, "errors", frames=30, workers=2)
    until(lambda: len(records(killed)) >= 2, 60)
    process.kill()
    kept = records(killed)
    assert 2 <= len(kept) < 9, "the build must be killed in its middle for this test to mean much"
    cache = make(killed, range(1, 10), workers=2, frames=30)
    now = records(killed)
    assert len(now) == 9
    assert {name: now[name] for name in kept} == kept
    fresh = make(tmp_path / "fresh", range(1, 10), workers=2, frames=30)
    assert content(cache, range(1, 10)) == content(fresh, range(1, 10))


def test_two_builders_at_once_wait_for_each_other(
    tmp_path: Path, clframe_process: ProcessServer
) -> None:
    both = [start(clframe_process, tmp_path / "shared", name, 4, 1) for name in ("one", "two")]
    codes = [process.wait(120) for process in both]
    messages = [process.errors.read_text() for process in both]
    assert codes == [0, 0], messages
    # Only one of them made the images; the other found them when it came to its turn.
    assert sum("rendering 108 images" in text for text in messages) == 1
    alone = make(tmp_path / "alone", range(1, 10), frames=4)
    shared = make(tmp_path / "shared", range(1, 10), frames=4)
    assert content(alone, range(1, 10)) == content(shared, range(1, 10))


def test_a_worker_that_dies_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_START", "import os; os._exit(7)")
    with pytest.raises(DataError, match="ended with code 7"):
        make(tmp_path, workers=2)
    monkeypatch.undo()
    make(tmp_path, workers=2)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be made .*; choose another with data_dir="):
        make(tmp_path / "file")


def test_a_script_without_a_guard_may_build(tmp_path: Path, clframe_process: ProcessServer) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import clframe\n"
        f"s = clframe.stream('openloris_pixel', data_dir={str(tmp_path)!r}, n_instances=2,\n"
        "    frames=2, size=16, num_workers=2)\n"
        "print('images', len(s.experiences[0].data))\n"
    )
    done = clframe_process.run(str(script), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "images 2\n"
