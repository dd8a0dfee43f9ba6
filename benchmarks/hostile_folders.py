"""Hand clframe run folders, bundles, image folders and LeRobot datasets of somebody hostile.

    python benchmarks/hostile_folders.py [--count 1000] [--seed 0] [--jobs 2] [--markdown PAGE]

A case takes something that is whole, changes one thing in it as an attacker could (with right sums
if the file has a sum), and passes it to every command that reads it. Good is exit code 0 or 1, or 2
with one message. Bad is a traceback, a hang, an escape sequence on the terminal, planted code that
runs (a plugin file, a module, a compiled file, a pickle, a program named ``gs``), a file of a
guarded folder that is changed or shown, and a harmful case that is accepted.

The process imports everything once and forks for each case. Needs Linux, gymnasium and pyarrow.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from marked_page import put_table

import clframe.api
import clframe.cli.compare
import clframe.cli.fit
import clframe.config.compose
import clframe.report.html
import clframe.reproduce.fork
import clframe.reproduce.verify  # noqa: F401
from clframe.checkpoint.store import note_sum
from clframe.cli.main import main as command
from clframe.core.registry import discover
from clframe.robot.demonstrations import Demonstration
from clframe.robot.formats.lerobot.write import write as write_lerobot
from clframe.robot.formats.recording import Recording
from clframe.utils.checksums import SUMS, write_sums

SECRET = "the content of a guarded file"
LOOKS_LIKE_OURS = "a\nclframe: all is well"
NAMES = (
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[H",
    LOOKS_LIKE_OURS,
    "\x9b31m",
    "a\u202eb",
    "\x1b[8mhidden",
    "a\rclframe: all is well",
    "../../up",
    "/etc/passwd",
    "x" * 100_000,
    "",
    " ",
    "\0",
    "é" * 40,
    "<script>alert(1)</script>",
)
VALUES: tuple[Any, ...] = (
    *NAMES,
    *(None, True, [], {}, [[]], -1, 0, 1, 10**30, -(10**30), 2**63, 1e308, -0.5, 0.5),
    *([None], [1, "a"], {"a": 1}, {"": None}, ["\x1b[2J"], [[0.5] * 3] * 3, "1", "nan"),
)
TEXTS = (
    b"",
    b"null",
    b"[]",
    b"3",
    b'"text"',
    b"{}",
    b'{"a": 1}\n',
    b"\xff\xfe\x00garbage",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"seed": ' + b"9" * 5_000 + b"}",
    b"seed: " + b"9" * 5_000,
    b"x: 0x" + b"f" * 20_000,
    b"strategy_name: 2001-13-45\n",
    b"x: " + b"1:" * 200_000 + b"1\n",
    b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(
        b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(12)
    ),
    b"!!python/object/apply:os.system ['touch MARK']\n",
    b"a: \x1b[2J\n",
    b"\0" * 100,
    b"NaN",
    b'{"schema": 1, "stream": "\\u001b[2J"}',
    b"a\tb\n" * 1000,
)
RUN_FILES = ("results.json", "config.yaml", "events.jsonl", SUMS, "matrix.csv", "status.json")
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
MARK = "CLFRAME_HOSTILE_MARK"
PLANTED = f"""
import os
if "{MARK}" in os.environ:
    os.makedirs(os.environ["{MARK}"], exist_ok=True)
import clframe

class Planted(clframe.Plugin):
    name = "planted"
"""
SMALL = [
    *("stream.n_experiences=2", "max_steps=1", "trainer.batch_size=16", "model.hidden=[8]"),
    *("checkpoint.every_experience=true", "logger=none", "progress=false"),
]
FAULTS = ("hang", "traceback", "code ran", "escape", "outside", "accepted", "no message", "code")


class Hang(BaseException):
    """A command took too long."""


@dataclass
class Case:
    """Something hostile.

    Args:
        kind: run, bundle, images, list or lerobot.
        what: What was changed, in words.
        path: What is handed over.
        refused: Whether every command that does more than to show it must refuse it, or which.
    """

    kind: str
    what: str
    path: Path
    refused: bool | tuple[str, ...] = False


@dataclass
class Bases:
    """What is whole."""

    place: Path
    run: Path
    planted: Path
    images: Path
    lerobot: Path
    listing: Path
    guard: Path = field(default=Path())


# ---------------------------------------------------------------- what is whole


def prepare(place: Path) -> Bases:
    """Make one of everything, as somebody else on another machine would have."""
    os.environ["XDG_CONFIG_HOME"] = str(place / "stranger")
    os.chdir(place)
    (place / "planted.py").write_text(PLANTED)
    quiet(["fit", "strategy=er", f"run_dir={place / 'run'}", *SMALL])
    words = ["strategy=planted", f"plugin_path={place / 'planted.py'}"]
    quiet(["fit", *words, f"run_dir={place / 'planted'}", *SMALL])
    (place / "planted.py").unlink()
    images = place / "images"
    draw = np.random.default_rng(0)
    from PIL import Image

    for name in ("apple", "bolt", "cup", "drill"):
        (images / name).mkdir(parents=True)
        for number in range(4):
            pixels = draw.integers(0, 255, (8, 8, 3), np.uint8)
            Image.fromarray(pixels).save(images / name / f"{number}.png")
    rows = [
        f"{path.relative_to(images)},{path.parent.name}" for path in sorted(images.rglob("*.png"))
    ]
    (images / "list.csv").write_text("file,label\n" + "\n".join(rows) + "\n")
    recordings = []
    for name in ("reach", "push"):
        demos = []
        for _ in range(3):
            state = draw.uniform(-0.7, 0.7, (12, 2)).astype(np.float32)
            image = draw.integers(0, 255, (12, 8, 8, 3), np.uint8)
            demos.append(Demonstration(state.copy(), {"state": state, "top_rgb": image}))
        recordings.append(Recording(name, f"{name} it", {}, demos))
    write_lerobot(place / "lerobot", recordings)
    guard = place / "guard"
    guard.mkdir()
    (guard / "secret.txt").write_text(SECRET)
    shutil.copytree(place / "lerobot", guard / "lerobot")
    shutil.copy(images / "apple" / "0.png", guard / "secret.png")
    tools = place / "tools"
    tools.mkdir()
    (tools / "gs").write_text(f'#!/bin/sh\nmkdir -p "${MARK}"\nexit 1\n')
    (tools / "gs").chmod(0o755)
    (tools / "evilmod.py").write_text(PLANTED)
    # What a command imports when it is first called is imported before the first fork.
    whole = {"run": place / "run", "images": images, "lerobot": place / "lerobot"}
    for kind, path in whole.items():
        (place / "warm" / kind).mkdir(parents=True)
        for name, words in commands(Case(kind, "", path), place / "warm" / kind).items():
            if name != "resume":
                quiet(words)
    os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    os.environ["XDG_CONFIG_HOME"] = str(place / "user")
    return Bases(place, place / "run", place / "planted", images, place / "lerobot", images, guard)


def quiet(words: list[str]) -> None:
    """Run a command that must succeed."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        code = command(words)
    if code:
        raise SystemExit(f"clframe {' '.join(words)}: exit code {code}")


# ---------------------------------------------------------------- what is changed in it


def changed_leaf(content: Any, draw: random.Random) -> str:
    """Put another value somewhere into nested lists and objects; returns where."""
    places = list(_places(content))
    if not places:
        return "nothing"
    holder, key, name = draw.choice(places)
    if draw.random() < 0.15:
        del holder[key]
        return f"{name} removed"
    value = copy.deepcopy(draw.choice(VALUES))
    if isinstance(holder, dict) and draw.random() < 0.1 and isinstance(value, str):
        holder[value] = holder.pop(key)
        return f"{name} renamed {value[:20]!r}"
    holder[key] = value
    return f"{name} = {str(value)[:30]!r}"


def _places(content: Any, name: str = "") -> Iterator[tuple[Any, Any, str]]:
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in list(items):
        yield content, key, f"{name}.{key}"
        if isinstance(value, dict | list):
            yield from _places(value, f"{name}.{key}")


def not_a_file(path: Path, draw: random.Random, bases: Bases) -> str:
    """A FIFO, a socket, a link, a folder, or a sparse file of 200 GB in place of a file."""
    kind = draw.choice(("fifo", "socket", "link", "device", "folder", "sparse", "loop"))
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as one:
            here = os.open(path.parent, os.O_RDONLY)
            one.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)
    elif kind == "link":
        path.symlink_to(bases.guard / "secret.txt")
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        path.touch()
        os.truncate(path, 200 << 30)
    return f"{path.name} is a {kind}"


def hostile_run(place: Path, draw: random.Random, bases: Bases) -> Case:
    """A run folder in which one thing is hostile."""
    run = place / "run"
    shutil.copytree(bases.run, run)
    kind = draw.choice(
        (
            *("text", "special", "results", "config", "note", "state", "log"),
            *("code",) * 2,
            "events",
        )
    )
    refused = False
    if kind == "text":
        name = draw.choice((*RUN_FILES, *_more_files(run)))
        text = draw.choice(TEXTS)
        (run / name).write_bytes(text)
        what = f"{name}: {text[:20]!r}"
    elif kind == "special":
        what = not_a_file(run / draw.choice((*RUN_FILES, ".lock", *_more_files(run))), draw, bases)
    elif kind in ("results", "events", "log"):
        what = _changed_json(run, kind, draw)
    elif kind == "config":
        content = yaml.safe_load((run / "config.yaml").read_text())
        what = f"config{changed_leaf(content, draw)}"
        (run / "config.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    elif kind == "note":
        path = draw.choice(sorted((run / "checkpoints").glob("*.json")))
        content = json.loads(path.read_text())
        what = f"note{changed_leaf(content, draw)}"
        _write_note(path, content)
    elif kind == "state":
        what = _changed_state(run, draw)
    else:
        what, refused, run = _planted(place, run, draw, bases)
    _new_sums(run, draw)
    return Case("run", what, run, refused)


def _more_files(run: Path) -> list[str]:
    found = [path for folder in ("checkpoints", "log") for path in (run / folder).rglob("*")]
    return sorted(path.relative_to(run).as_posix() for path in found if path.is_file())


def _changed_json(run: Path, kind: str, draw: random.Random) -> str:
    if kind == "results":
        content = json.loads((run / "results.json").read_text())
        what = changed_leaf(content, draw)
        (run / "results.json").write_text(json.dumps(content))
        return f"results{what}"
    if kind == "events":
        lines = (run / "events.jsonl").read_text().splitlines()
        place = draw.randrange(len(lines))
        content = json.loads(lines[place])
        what = changed_leaf(content, draw)
        lines[place] = json.dumps(content)
        (run / "events.jsonl").write_text("\n".join(lines) + "\n")
        return f"events{what}"
    files = sorted(path for path in (run / "log").rglob("*") if path.is_file())
    path = draw.choice(files)
    if path.suffix == ".json":
        content = json.loads(path.read_text())
        what = changed_leaf(content, draw)
        path.write_text(json.dumps(content))
        return f"{path.name}{what}"
    cells = path.read_text().split("\t")
    cells[draw.randrange(len(cells))] = str(draw.choice(VALUES))
    path.write_text("\t".join(cells))
    return f"a cell of {path.name}"


def _write_note(path: Path, note: Any) -> None:
    """A note with the right sum, as far as it can have one."""
    if isinstance(note, dict):
        note.pop("note_sha256", None)
        with contextlib.suppress(TypeError, ValueError):
            note["note_sha256"] = note_sum(note)
    path.write_text(json.dumps(note))


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.makedirs, (os.environ.get(MARK, "/nonexistent/x"), 0o777, True)


def _changed_state(run: Path, draw: random.Random) -> str:
    """Checkpoints of other content, with right sums."""
    what = "nothing"
    chosen = draw.choice(("leaf", "leaf", "leaf", "other", "bomb", "garbage"))
    for path in sorted((run / "checkpoints").glob("*.pt")):
        if chosen == "leaf":
            state = torch.load(path, weights_only=True)
            what = f"state{changed_leaf(state, random.Random(draw.randrange(2**32)))}"
            torch.save(state, path)
        elif chosen == "other":
            state = draw.choice(({}, [], {"a": torch.zeros(3)}, torch.zeros(2), "text", None))
            what = f"state {str(state)[:20]}"
            torch.save(state, path)
        elif chosen == "bomb":
            what = "pickle bomb"
            torch.save({"learner": Bomb()}, path)
        else:
            what = "garbage"
            path.write_bytes(draw.randbytes(500))
        content = path.read_bytes()
        note = json.loads(path.with_suffix(".json").read_text())
        note |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        _write_note(path.with_suffix(".json"), note)
    return what


def _planted(place: Path, run: Path, draw: random.Random, bases: Bases) -> tuple[str, bool, Path]:
    """A run that names code."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    kind = draw.choice(
        (
            *("copy", "edited", "beside", "inside", "compiled", "environment", "nested", "logger"),
            *("save_dir", "pretrain", "traversal"),
        )
    )
    refused = kind not in ("pretrain",)
    if kind in ("copy", "edited", "compiled", "traversal"):
        shutil.rmtree(run)
        shutil.copytree(bases.planted, run)
        config = yaml.safe_load((run / "config.yaml").read_text())
        code = run / "plugins" / "planted.py"
        if kind == "edited":
            code.write_text(code.read_text() + f"# {draw.random()}\n")
            config["plugin_files"][0]["sha256"] = hashlib.sha256(code.read_bytes()).hexdigest()
        elif kind == "compiled":
            (code.parent / "__pycache__").mkdir()
            (code.parent / "__pycache__" / f"planted.{sys.implementation.cache_tag}.pyc").touch()
        elif kind == "traversal":
            config["plugin_files"][0]["file"] = draw.choice(
                ("plugins/../../x.py", "/tmp/x.py", "../planted.py", "plugins\\x.py")
            )
    elif kind in ("beside", "inside"):
        path = (place if kind == "beside" else run) / "evil.py"
        path.write_text(PLANTED)
        config["plugin_path"] = [str(path)]
        config["strategy"] = {"planted": {}}
    elif kind in ("environment", "nested"):
        (run / "evilmod.py").write_text(PLANTED)
        envs: Any = (
            ["evilmod:Env"] if kind == "environment" else [{"id": "evilmod:Env", "name": "a"}]
        )
        config["stream"] = {"name": "gym", "envs": envs}
    elif kind == "logger":
        config["logger"] = {"lightning": {"class_path": "evilmod.Logger", "init_args": {}}}
    elif kind == "save_dir":
        config["logger"] = {
            "lightning": {
                "class_path": "lightning.pytorch.loggers.CSVLogger",
                "init_args": {"save_dir": str(bases.guard)},
            }
        }
        refused = False  # eval writes nothing
    else:
        config["pretrain"] = str(bases.guard)
    (run / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return f"code: {kind}", refused, run


def _new_sums(run: Path, draw: random.Random) -> None:
    """As an attacker would: sums of what is there, or none."""
    path = run / SUMS
    if not path.is_file() or path.is_symlink() or draw.random() < 0.5:
        if path.is_file() and not path.is_symlink() and draw.random() < 0.7:
            path.unlink()
        return
    with contextlib.suppress(OSError, ValueError):
        lines = [line.split("  ", 1) for line in path.read_text(errors="replace").splitlines()]
        names = [parts[1] for parts in lines if len(parts) == 2]
        regular = [
            name for name in names if (run / name).is_file() and not (run / name).is_symlink()
        ]
        if all((run / name).stat().st_size < 1 << 30 for name in regular):
            write_sums(run, regular)


def hostile_bundle(place: Path, draw: random.Random, bases: Bases) -> Case:
    """A bundle: packed from a hostile run, damaged, or a bomb."""
    path = place / "bundle.zip"
    kind = draw.choice(
        ("run", "run", "flipped", "flipped", "cut", "many", "bomb", "names", "twice")
    )
    whole = place / "whole.zip"
    case = hostile_run(place, draw, bases) if kind == "run" else None
    run = case.path if case is not None else bases.run
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(run.rglob("*")):
            name = file.relative_to(run).as_posix()
            packed = re.fullmatch(
                r"(config.yaml|results.json|matrix.csv|checkpoints/.*|plugins/.*py)", name
            )
            if (
                packed
                and file.is_file()
                and not file.is_symlink()
                and file.stat().st_size < 1 << 30
            ):
                archive.write(file, name)
        names = archive.namelist()
        sums = [f"{hashlib.sha256((run / n).read_bytes()).hexdigest()}  {n}\n" for n in names]
        archive.writestr(SUMS, "".join(sums))
        if kind == "many":
            for number in range(12_000):
                archive.writestr(f"checkpoints/{number:08d}.json", b"")
        elif kind == "bomb":
            with archive.open("checkpoints/99999999.pt", "w") as inside:
                for _ in range(400):
                    inside.write(bytes(1 << 20))
        elif kind == "names":
            bad = ("../up.txt", "/tmp/up", "plugins/../../up.py", "a/b", "checkpoints/000001.pt/x")
            archive.writestr(draw.choice(bad), "x")
        elif kind == "twice":
            archive.writestr("checkpoints/00000077.json", "{}")
            with contextlib.suppress(UserWarning):
                archive.writestr("checkpoints/00000077.json", "{}")
    content = bytearray(whole.read_bytes())
    if kind == "flipped":
        for _ in range(draw.choice((1, 3, 30))):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    elif kind == "cut":
        del content[draw.randrange(len(content)) :]
    path.write_bytes(content)
    whole.unlink()
    what = kind if case is None else f"of {case.what}"
    return Case("bundle", what, path, kind in ("many", "bomb", "names", "twice"))


def png(width: int, height: int) -> bytes:
    """Return a PNG that claims a size and holds no pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def hostile_images(place: Path, draw: random.Random, bases: Bases) -> Case:
    """An image folder with a hostile file or name."""
    root = place / "images"
    shutil.copytree(bases.images, root)
    (root / "list.csv").unlink()
    victim = draw.choice(sorted(root.rglob("*.png")))
    kind = draw.choice(("content", "content", "flipped", "special", "class", "file", "deep"))
    if kind == "content":
        contents = {
            "postscript": POSTSCRIPT,
            "huge": png(100_000, 100_000),
            "large": png(13_000, 13_000),
            "empty": b"",
            "text": b"not an image",
            "cut": victim.read_bytes()[: draw.randrange(60)],
            "gif": b"GIF89a" + draw.randbytes(200),
            "tiff": b"II*\0" + draw.randbytes(200),
            "bmp": b"BM" + draw.randbytes(200),
            "ppm": b"P6 999999999 999999999 255\n",
            "webp": b"RIFF\xff\xff\xff\xffWEBPVP8 " + draw.randbytes(100),
            "jpeg": b"\xff\xd8\xff\xe0" + draw.randbytes(300),
            "fli": b"\0\0\0\0\x11\xaf" + draw.randbytes(200),
        }
        name = draw.choice(sorted(contents))
        victim.write_bytes(contents[name])
        what = name
    elif kind == "flipped":
        content = bytearray(victim.read_bytes())
        for _ in range(3):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        victim.write_bytes(content)
        what = "bits of an image"
    elif kind == "special":
        what = not_a_file(victim, draw, bases)
    elif kind in ("class", "file"):
        name = draw.choice(
            [n for n in NAMES if n and "/" not in n and "\0" not in n and len(n) < 200]
        )
        raw = draw.choice((os.fsencode(name), b"\xff\xfe", b"a\x80b"))
        target = victim.parent if kind == "class" else victim
        end = b"" if kind == "class" else b".png"
        os.rename(os.fsencode(target), os.fsencode(target.parent) + b"/" + raw + end)
        what = f"{kind} named {raw!r}"
    else:
        deep = victim.parent.joinpath(*["d"] * draw.choice((1, 3, 100)))
        deep.mkdir(parents=True)
        shutil.copy(victim, deep / "x.png") if victim.is_file() else None
        what = "a deep folder"
    return Case("images", what, root)


def hostile_list(place: Path, draw: random.Random, bases: Bases) -> Case:
    """A list of images."""
    root = place / "listed"
    shutil.copytree(bases.images, root)
    path = root / "list.csv"
    kind = draw.choice(("field", "names", "text", "deep", "special", "rows", "label"))
    if kind == "field":
        path.write_text("file,label\n" + "x" * 200_000 + ",a\n")
    elif kind == "names":
        path.write_text(
            f'file,label\n"{draw.choice(NAMES)}",a\n"{draw.choice(NAMES)}",b\n'.replace("\0", "")
        )
    elif kind == "label":
        text = path.read_text().replace("apple\n", '"' + draw.choice(NAMES[:6]) + '"\n')
        path.write_text(text)
    elif kind == "text":
        path.write_bytes(draw.choice(TEXTS))
    elif kind == "deep":
        path = root / draw.choice(("list.json", "list.jsonl"))
        path.write_bytes(draw.choice(TEXTS))
    elif kind == "special":
        not_a_file(path, draw, bases)
    else:
        path.write_text("file,label\n" * 5 + ",,,,\n\n\n" + '"\n')
    return Case("list", kind, path)


def hostile_lerobot(place: Path, draw: random.Random, bases: Bases) -> Case:
    """A LeRobot dataset."""
    root = place / "lerobot"
    shutil.copytree(bases.lerobot, root)
    info, ours = root / "meta" / "info.json", root / "meta" / "clframe.json"
    kind = draw.choice(
        (
            *("info", "info", "info", "ours", "ours", "stats", "text", "special", "pattern"),
            *("name", "table", "null", "path"),
        )
    )
    refused = False
    if kind in ("info", "ours", "stats"):
        path = {"info": info, "ours": ours, "stats": root / "meta" / "stats.json"}[kind]
        content = json.loads(path.read_text())
        what = f"{kind}{changed_leaf(content, draw)}"
        path.write_text(json.dumps(content))
    elif kind == "text":
        path = draw.choice(sorted(p for p in root.rglob("*") if p.is_file()))
        path.write_bytes(draw.choice(TEXTS))
        what = f"text in {path.name}"
    elif kind == "special":
        what = not_a_file(
            draw.choice(sorted(p for p in root.rglob("*") if p.is_file())), draw, bases
        )
    elif kind == "pattern":
        content = json.loads(info.read_text())
        outside = (
            bases.guard
            / "lerobot"
            / "data"
            / "chunk-{chunk_index:03d}"
            / "file-{file_index:03d}.parquet"
        )
        content["data_path"] = draw.choice(
            (
                str(outside),
                f"../../guard/{outside.relative_to(bases.guard)}",
                "{chunk_index:>3000000000}",
                "{chunk_index.__class__}",
                "{}",
                "{nothing}",
                "data/{chunk_index",
                "\0",
                "x" * 5000,
            )
        )
        what, refused = f"data_path {content['data_path'][:40]!r}", True
        info.write_text(json.dumps(content))
    elif kind == "name":
        content = json.loads(ours.read_text())
        name = draw.choice((*NAMES, "../pwned", str(bases.guard / "pwned"), "..", "a/../../b"))
        content["tasks"][0]["name"] = name
        ours.write_text(json.dumps(content))
        what = f"task {name[:30]!r}"
    else:
        what = _changed_table(root, kind, draw, bases)
    # Without cameras, fit reads no image.
    return Case("lerobot", what, root, ("import",) if kind == "path" else refused)


def _changed_table(root: Path, kind: str, draw: random.Random, bases: Bases) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = draw.choice(sorted(root.rglob("*.parquet")))
    if kind == "path":
        path = next((root / "data").rglob("*.parquet"))
    table = pq.read_table(path)
    column = draw.randrange(table.num_columns)
    if kind == "path":
        column = table.column_names.index("observation.images.top")
        where = draw.choice((str(bases.guard / "secret.png"), "../../guard/secret.png"))
        kind_of = table.schema.field(column).type
        values: Any = pa.array([{"bytes": None, "path": where}] * len(table), kind_of)
    elif kind == "null":
        values = pa.nulls(len(table), table.schema.field(column).type)
    else:
        other: Any = draw.choice(
            (1.5, "text", b"bytes", None, [1.0], {"a": 1}, float("nan"), -5, 10**12)
        )
        values = pa.array([other] * len(table))
    name = table.column_names[column]
    pq.write_table(table.set_column(column, name, values), path)
    return f"{path.parent.parent.name}: column {name} is {kind} {str(values[0])[:20]}"


MAKERS: dict[str, tuple[Callable[[Path, random.Random, Bases], Case], int]] = {
    "run": (hostile_run, 50),
    "bundle": (hostile_bundle, 14),
    "images": (hostile_images, 12),
    "list": (hostile_list, 6),
    "lerobot": (hostile_lerobot, 18),
}


# ---------------------------------------------------------------- what the commands make of it


def commands(case: Case, out: Path) -> dict[str, list[str]]:
    """All commands that read such a thing; the last one may write to it."""
    path = str(case.path)
    if case.kind == "run":
        return {
            "report": ["report", path, "--out", str(out / "report.html")],
            "compare": ["compare", path],
            "watch": ["watch", path, "--once"],
            "l2": ["l2", f"{path}/log", "--no-plots", "--out", str(out / "l2")],
            "trust": ["trust", path],
            "eval": ["eval", path],
            "verify": ["verify", path],
            "fork": ["fork", path, "--at", "1", f"run_dir={out / 'child'}"],
            "bundle": ["bundle", path, "--out", str(out / "again.zip")],
            "resume": ["fit", f"resume={path}"],
        }
    if case.kind == "bundle":
        return {
            "compare": ["compare", path],
            "trust": ["trust", path],
            "verify": ["verify", path],
        }
    fit = ["fit", f"stream.path={path}", "max_steps=1", "logger=none", "progress=false"]
    fit += [f"run_dir={out / 'run'}", "trainer.batch_size=4"]
    if case.kind == "lerobot":
        return {
            "import": ["demos", "import", path, "--out", str(out / "demos")],
            "fit": [*fit, "stream=lerobot"],
        }
    stream = "folder" if case.kind == "images" else "file_list"
    return {
        "check": ["data", "check", stream, path],
        "fit": [
            *fit,
            f"stream={stream}",
            "n_experiences=2",
            "stream.size=8",
            "model=mlp",
            "model.hidden=[8]",
        ],
    }


SHOWN = ("report", "compare", "watch", "l2", "trust", "check", "bundle")
"""Commands that may show what must not be executed."""
_LOUD = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
    r"|^clframe: all is well",
    re.MULTILINE,
)


def judge(case: Case, name: str, code: int | str, said: str) -> str | None:
    """What is wrong with what a command did, if anything."""
    if isinstance(code, str):
        return code
    if "Traceback" in said:
        return "traceback"
    if code not in (0, 1, 2):
        return f"code {code}"
    if _LOUD.search(said):
        return "escape"
    if SECRET in said:
        return "outside"
    refused = case.refused if isinstance(case.refused, tuple) else ()
    if code == 0 and (name in refused or (case.refused is True and name not in SHOWN)):
        return "accepted"
    if code == 2 and "clframe: " not in said:
        return "no message"
    return None


def guarded(bases: Bases) -> list[tuple[str, str]]:
    """What is in the guarded folder."""
    return [
        (str(path), hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in sorted(bases.guard.rglob("*"))
    ]


def in_child(seed: int, place: Path, bases: Bases, seconds: int) -> None:
    """Make a case and pass it to the commands; the findings go to a file."""
    os.chdir(place)
    mark = place / "mark"
    os.environ[MARK] = str(mark)
    for name in ("tmp", "out"):
        (place / name).mkdir()
    tempfile.tempdir = os.environ["TMPDIR"] = str(place / "tmp")
    sys.path.append(str(bases.place / "tools"))
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def too_long(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, too_long)
    draw = random.Random(seed)
    kinds = list(MAKERS)
    (kind,) = draw.choices(kinds, [MAKERS[kind][1] for kind in kinds])
    case = MAKERS[kind][0](place, draw, bases)
    shutil.rmtree(mark, ignore_errors=True)  # a bomb is not to go off where it is made
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    findings: dict[str, Any] = {"kind": kind, "what": case.what, "seed": seed, "calls": []}
    for name, words in commands(case, place / "out").items():
        code: int | str
        file = os.open(place / "said", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.close(file)
        before = guarded(bases)
        # A process that hangs where no signal is looked at is killed, and this says in what.
        started = {**findings, "doing": name}
        (place / "findings.json").write_text(json.dumps(started))
        signal.alarm(seconds)
        try:
            code = command(words)
        except Hang:
            code = "hang"
        except BaseException:
            traceback.print_exc()
            code = "traceback"
        finally:
            signal.alarm(0)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        said = (place / "said").read_bytes().decode(errors="replace")
        problem = judge(case, name, code, said)
        if mark.exists():
            shutil.rmtree(mark)
            problem = "code ran"
        if guarded(bases) != before:
            problem = "outside"
        findings["calls"].append([name, code, problem, said[-1500:] if problem else ""])
    (place / "findings.json").write_text(json.dumps(findings))


def start(seed: int, bases: Bases, seconds: int) -> tuple[int, Path]:
    """Fork a case."""
    place = bases.place / "cases" / str(seed)
    place.mkdir(parents=True)
    child = os.fork()
    if child == 0:
        code = 70
        try:
            in_child(seed, place, bases, seconds)
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
            (place / "error").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return child, place


def finish(place: Path, status: int, seed: int) -> dict[str, Any]:
    """What was found in a case, which is removed."""
    try:
        findings: dict[str, Any] = json.loads((place / "findings.json").read_text())
    except (OSError, ValueError):
        findings = {"kind": "?", "what": "?", "seed": seed, "calls": []}
    if os.waitstatus_to_exitcode(status) != 0:
        error = place / "error"
        words = error.read_text() if error.exists() else f"status {status}"
        name = findings.get("doing", "making the case")
        killed = os.waitstatus_to_exitcode(status) < 0
        findings["calls"].append([name, "killed", "hang" if killed else "traceback", words[-1500:]])
    shutil.rmtree(place, ignore_errors=True)
    return findings


def measure(
    bases: Bases, seeds: range, jobs: int, seconds: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Try all cases, a few at once."""
    found: list[dict[str, Any]] = []
    waiting = list(seeds)
    running: dict[int, tuple[Path, int, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            seed = waiting.pop(0)
            child, place = start(seed, bases, seconds)
            running[child] = (place, seed, time.monotonic())
        ended, status = os.waitpid(-1, os.WNOHANG)
        if not ended:
            for child, (_, _, began) in running.items():
                if time.monotonic() - began > 12 * seconds:
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
            continue
        if ended not in running:
            continue
        place, seed, _ = running.pop(ended)
        findings = finish(place, status, seed)
        found.append(findings)
        for name, code, problem, said in findings["calls"]:
            if problem:
                line = said.strip().splitlines()[-1:] or [""]
                which = f"seed {seed}, {findings['kind']} ({findings['what']}), {name}"
                say(f"{problem}: {which}: {code} {line[0][:300]}")
    return found


def table(found: list[dict[str, Any]]) -> str:
    """What became of the calls, by what was handed over."""
    heads = ("handed over", "cases", "calls", "went through", "refused", *FAULTS[:-2], "other")
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for kind in (*MAKERS, "all"):
        chosen = [one for one in found if kind in (one["kind"], "all")]
        calls = [call for one in chosen for call in one["calls"]]
        problems = Counter(str(call[2]).split(" ")[0] if call[2] else "" for call in calls)
        known = [problems.pop(name.split(" ")[0], 0) for name in FAULTS[:-2]]
        good = [call for call in calls if not call[2]]
        went, said = (sum(1 for c in good if (c[1] == 2) is b) for b in (False, True))
        problems.pop("", None)
        cells = (kind, len(chosen), len(calls), went, said, *known, sum(problems.values()))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print a table; exit code 1 if anything was bad."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="cases")
    parser.add_argument("--seed", type=int, default=0, help="cases from 1000 times this number on")
    parser.add_argument("--case", type=int, help="this one alone, by its number in a message")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=120, help="that a command may take")
    parser.add_argument("--json", type=Path, help="write all findings to this file")
    parser.add_argument("--markdown", type=Path, help="put the table into this page")
    arguments = parser.parse_args(argv)
    os.environ.update(OMP_NUM_THREADS="1", COLUMNS="80")
    os.environ.pop("CLFRAME_DEBUG", None)
    torch.set_num_threads(1)
    discover([])
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
    first = 1000 * arguments.seed
    with tempfile.TemporaryDirectory(prefix="hostile_folders_") as place:
        bases = prepare(Path(place).resolve())
        seeds = range(first, first + arguments.count)
        if arguments.case is not None:
            seeds = range(arguments.case, arguments.case + 1)
        found = measure(bases, seeds, arguments.jobs, arguments.seconds, say)
        os.chdir("/")
    if arguments.json:
        arguments.json.write_text(json.dumps(found))
    print(table(found))
    if arguments.markdown:
        put_table(arguments.markdown, "hostile folders", table(found))
    return int(any(call[2] for one in found for call in one["calls"]))


if __name__ == "__main__":
    sys.exit(main())
