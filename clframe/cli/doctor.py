"""``clframe doctor``: the state of this machine, and what is missing."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from clframe.cli import commands
from clframe.cli.parser import Parser
from clframe.errors import DataError
from clframe.utils.console import print_out, wrap

_MARKS = {True: "ok ", None: "-  ", False: "BAD"}
"""The mark of a line: present; absent, but nothing is broken; broken."""
PACKAGES = (
    "clframe",
    "torch",
    "torchvision",
    "lightning",
    "pluggy",
    "hydra-core",
    "mujoco",
    "timm",
    "wandb",
    "tensorboardX",
    "matplotlib",
)


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "doctor",
        "Show versions, devices, data, robots, folders, W&B and plugins of this machine. Exit code "
        "2 if something is broken.",
        [
            ("clframe doctor", "marks every line: ok, - for what is not there, or BAD"),
            ("clframe doctor --gpu --out gpu.md", "learn small streams on the GPU and the CPU"),
        ],
    )
    parser.add_argument(
        "--gpu", action="store_true", help="check every method on this machine's GPU instead"
    )
    parser.add_argument(
        "--out", default="gpu-report.md", metavar="FILE", help="the report of --gpu"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Print the state of everything a run may need; exit 0 unless something is broken."""
    arguments = parser().parse(argv)
    if arguments.gpu:
        from clframe.cli import _doctor_gpu

        return _doctor_gpu.main(Path(arguments.out))
    broken = False
    for title, lines in (
        ("versions", _versions()),
        ("devices", _devices()),
        ("data", _data()),
        ("robots", _robots()),
        ("folders", _folders()),
        ("W&B", _wandb()),
        ("plugins", _plugins()),
    ):
        print_out(title)
        for good, line in lines:
            broken = broken or good is False
            for text in wrap(line, 6, f"  {_MARKS[good]} "):
                print_out(text)
    return 2 if broken else 0


def _versions() -> Iterator[tuple[bool | None, str]]:
    yield True, f"Python {platform.python_version()} on {platform.platform()}"
    for package in PACKAGES:
        try:
            yield True, f"{package} {version(package)}"
        except PackageNotFoundError:
            yield False, f"{package} is not installed: pip install {package}"
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError) as error:
        yield False, f"torch and torchvision do not match: {str(error).splitlines()[0]}"


def _devices() -> Iterator[tuple[bool | None, str]]:
    import torch
    from lightning.fabric.accelerators import ACCELERATOR_REGISTRY

    yield True, f"cpu: {os.cpu_count()} cores, torch uses {torch.get_num_threads()} threads"
    for name in sorted(ACCELERATOR_REGISTRY.available_accelerators() - {"cpu"}):
        accelerator = ACCELERATOR_REGISTRY[name]["accelerator"]
        if accelerator.is_available():
            yield True, f"{name}: {accelerator.auto_device_count()} found"
    yield True, "precision: 32-true and bf16-mixed on cpu; 16-mixed needs an accelerator"


def _data() -> Iterator[tuple[bool | None, str]]:
    from clframe.data.folder import default_data_dir

    folder = default_data_dir()
    yield not folder.exists() or folder.is_dir(), f"data folder {folder}"
    for title, name in (
        ("MNIST", "MNIST/raw"),
        ("Fashion-MNIST", "FashionMNIST/raw"),
        ("CIFAR-10", "cifar-10-batches-py"),
        ("CIFAR-100", "cifar-100-python"),
    ):
        exists = (folder / name).is_dir()
        spare = "; split_mnist runs on the embedded subset" if title == "MNIST" else ""
        yield exists or None, f"{title}: {'found' if exists else f'not in {folder / name}{spare}'}"


def _robots() -> Iterator[tuple[bool | None, str]]:
    """Yield which robot streams can run here; a missing extra is not bad."""
    from clframe.data.folder import default_data_dir
    from clframe.worlds import metaworld as environments

    for title, package, needed in (
        ("Meta-World", "clframe[metaworld]", ("metaworld", "gymnasium", "mujoco", "h5py", "scipy")),
        ("tabletop", "clframe", ("gymnasium", "mujoco", "h5py")),
    ):
        missing = [name for name in needed if not _installed(name)]
        state = (
            f"not installed: {', '.join(missing)}; pip install '{package}'"
            if missing
            else "can run"
        )
        yield None if missing else True, f"{title}: {state}"
    yield from _libero(default_data_dir())
    if not _installed("metaworld"):
        return
    versions = environments.versions()
    if versions["metaworld"] != "?" and versions["mujoco"] != "3.3.0":
        yield (
            True,
            f"Meta-World {versions['metaworld']} on MuJoCo {versions['mujoco']} (it was made for "
            "3.3.0): results of different versions should not be mixed",
        )
    made = sorted((default_data_dir() / "demos").glob("*/*_demo.hdf5"))
    yield (
        True if made else None,
        f"demonstrations: {len(made)} tasks in {default_data_dir() / 'demos'}",
    )


def _libero(data_dir: Path) -> Iterator[tuple[bool | None, str]]:
    """Yield whether the real LIBERO can run here; the user has to fetch each of its parts."""
    from clframe.worlds.libero import paths as libero
    from clframe.worlds.libero.tasks import SUITES, LiberoTask, tasks_of

    problem = libero.not_usable()
    versions = ", ".join(f"{name} {at}" for name, at in libero.versions().items())
    usable = None if problem else True
    yield usable, f"LIBERO, package: {f'{versions}, can run' if problem is None else problem}"
    places = libero.Places(data_dir)
    try:
        yield True, f"LIBERO, assets: found in {places.asset_folder()}"
    except DataError as error:
        yield None, str(error)
    files: dict[str, Callable[[LiberoTask], Path]] = {
        "initial states": places.init_file,
        "demonstrations": places.demonstration_file,
    }
    for title, file_of in files.items():
        counts, complete = [], False
        for suite in SUITES:
            there = 0
            for task in tasks_of(suite):
                with contextlib.suppress(DataError):
                    there += file_of(task).is_file()
            complete = complete or there > 0
            counts.append(f"{suite} {there} of {len(tasks_of(suite))}")
        yield complete or None, f"LIBERO, {title}: {', '.join(counts)}"


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _folders() -> Iterator[tuple[bool | None, str]]:
    from clframe.data.folder import default_data_dir

    for title, path in (("runs", Path("runs")), ("data", default_data_dir())):
        parent = path
        while not parent.exists():
            parent = parent.absolute().parent
        writable = os.access(parent, os.W_OK)
        yield writable, f"{title}: '{path}' can{'' if writable else 'not'} be written"


def _wandb() -> Iterator[tuple[bool | None, str]]:
    from clframe.loggers.wandb import answers, has_key, server

    mode = os.environ.get("WANDB_MODE")
    if mode:
        yield True, f"WANDB_MODE={mode} decides"
        return
    key = has_key(server())
    yield key or None, f"API key: {'configured' if key else 'none, so runs are logged offline'}"
    if key:
        reached = answers(server())
        yield (
            reached or None,
            f"{server()}: {'answers' if reached else 'no answer, so runs are logged offline'}",
        )


def _plugins() -> Iterator[tuple[bool | None, str]]:
    import warnings

    from clframe.core.registry import KINDS, discover

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registry = discover()
    counts = ", ".join(f"{len(registry.names(kind))} {kind}s" for kind in KINDS)
    yield True, f"registered: {counts}"
    for problem in registry.problems:
        yield False, problem
    yield from commands.checked()
