"""Pack a run into one small file, from which anyone can verify an experience.

A bundle is a ZIP archive with the run's ``config.yaml``, ``results.json``, ``matrix.csv`` and
``data.jsonl``, its copies of plugin files, the checkpoints before and after the chosen experiences,
the last one, and the checksums of all these files.
"""

from __future__ import annotations

import contextlib
import hashlib
import lzma
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from clframe.checkpoint.store import CheckpointInfo, CheckpointStore
from clframe.errors import ClframeError, RunFolderError
from clframe.recording.results_file import RESULTS
from clframe.reproduce.verify import kept_between, replayable
from clframe.runs.folder import RunFolder
from clframe.runs.reader import CONFIG
from clframe.runs.received import copies
from clframe.utils.checksums import SUMS, check_file, read_sums
from clframe.utils.files import replacing
from clframe.utils.regular import open_regular

_NAME = re.compile(
    r"config\.yaml|results\.json|matrix\.csv|data\.jsonl|SHA256SUMS"
    r"|checkpoints/\d{6,12}\.(pt|json)|plugins/(\d{1,4}/)?[^/\\\0]{1,200}\.py"
)
_LARGEST = 64 << 30
"""Maximum bytes that a bundle may unpack to."""
_RATIO, _SMALL = 100, 256 << 20
"""Maximum ratio of the unpacked size to the size of a bundle, except for small ones."""
_ENTRIES = 10_000
"""Maximum number of files in a bundle."""
_ENTRY = b"PK\x01\x02"
_CHUNK = 1 << 20


def pack(run_dir: str | Path, out: Path, experiences: Sequence[int] = ()) -> list[int]:
    """Pack a finished run into one file.

    Args:
        run_dir: The run folder.
        out: The file, ``.zip``; an existing file is not overwritten.
        experiences: Experiences that can be verified from the bundle, by number (1 is the first);
            the last if empty.

    Returns:
        The experiences in the bundle.

    Raises:
        ClframeError: There is no such run, or it is unfinished, damaged or has not kept the states.
    """
    folder = RunFolder(Path(run_dir).expanduser())
    folder.read_config()
    if not folder.results.exists():
        raise RunFolderError(
            f"run '{folder.path}' is not finished; finish it with resume={folder.path}"
        )
    if out.suffix != ".zip":
        raise RunFolderError(f"'{out}' must end in .zip to be a bundle")
    if out.exists():
        raise RunFolderError(f"'{out}' already exists; give another name or remove it")
    sums = read_sums(folder.path)
    for name in sums:
        check_file(folder.path, name, sums)
    store = folder.checkpoints
    for number, problem in store.problems().items():
        raise RunFolderError(f"'{store.state_file(number)}' cannot be used: {problem}")
    kept = kept_between(store)
    chosen = sorted({replayable(folder, kept, number) for number in experiences or (None,)})
    numbers = {max(kept), *chosen, *(number - 1 for number in chosen)}
    _write(folder, store, [kept[number] for number in sorted(numbers)], out)
    return chosen


def _write(
    folder: RunFolder, store: CheckpointStore, infos: Sequence[CheckpointInfo], out: Path
) -> None:
    own = (folder.config, folder.results, folder.matrix, folder.data)
    files = [path for path in own if path.exists()]
    files += copies(folder.read_config(), folder.path)
    for info in infos:
        files += [store.state_file(info.number), store.note_file(info.number)]
    for path in files:
        if not path.is_file():
            raise RunFolderError(f"run '{folder.path}' cannot be packed: '{path}' is not a file")
    lines = []
    with replacing(out) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            name = path.relative_to(folder.path).as_posix()
            with path.open("rb") as content:
                lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {name}\n")
            archive.write(path, name)
        archive.writestr(SUMS, "".join(lines))


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[Path]:
    """Yield the run folder in a bundle, temporarily unpacked; yield a run folder unchanged.

    Raises:
        RunFolderError: The file is not a bundle, or is damaged.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="clframe-bundle-") as temporary:
        folder = Path(temporary) / "run"
        _unpack(path, folder)
        try:
            yield folder
        except ClframeError as error:  # The user knows the bundle, not its unpacked folder.
            text = str(error).replace(str(folder), str(path))
            raise type(error)(text) from error


def _unpack(path: Path, folder: Path) -> None:
    try:
        _check_count(path)
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            left = _check_entries(path, entries)
            for entry in entries:
                target = folder / entry.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, target.open("xb") as file:
                    while chunk := source.read(_CHUNK):
                        left -= len(chunk)
                        if left < 0:
                            raise zipfile.BadZipFile("it holds more bytes than it declares")
                        file.write(chunk)
    except (
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
        *(NotImplementedError, RuntimeError, ValueError),
    ) as error:
        raise RunFolderError(f"'{path}' is not a bundle, or is damaged: {error}") from error
    except OSError as error:
        raise RunFolderError(f"'{path}' cannot be unpacked: {error.strerror or error}") from error


def _check_count(path: Path) -> None:
    """Refuse a bundle of many entries before reading its table of contents, which takes long."""
    count, before = 0, b""
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            count += (before + chunk).count(_ENTRY)
            before = chunk[-len(_ENTRY) + 1 :]
            if count > _ENTRIES:
                raise RunFolderError(f"'{path}' is not a bundle: it has more than {_ENTRIES} files")


def _check_entries(path: Path, entries: Sequence[zipfile.ZipInfo]) -> int:
    """Refuse files that are not a bundle; return the bytes that it unpacks to."""
    names: set[str] = set()
    for entry in entries:
        name = entry.filename
        if not _NAME.fullmatch(name) or ".." in name.split("/") or name in names:
            raise RunFolderError(f"'{path}' is not a bundle: it holds '{name[:80]}'")
        names.add(name)
    for name in (CONFIG, RESULTS, SUMS):
        if name not in names:
            raise RunFolderError(f"'{path}' is not a bundle: it has no {name}")
    size, packed = sum(entry.file_size for entry in entries), path.stat().st_size
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if size > max(_SMALL, _RATIO * packed):
        raise RunFolderError(
            f"'{path}' is not a bundle: its {packed / 1e6:.1f} MB would unpack to "
            f"{size / 1e9:.1f} GB"
        )
    if size > min(_LARGEST, free):
        raise RunFolderError(
            f"'{path}' would unpack to {size / 1e9:.1f} GB, but there is not enough disk space"
        )
    return size
