"""``clframe demos export|import``: demonstrations in the layouts of other programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser, whole
from clframe.errors import DataError, SettingError
from clframe.utils.console import print_out
from clframe.utils.inside import file_name

if TYPE_CHECKING:
    import argparse

    from clframe.robot.evaluation import Evaluation
    from clframe.robot.formats.recording import Recording, Recordings

LAYOUTS = ("lerobot", "robomimic", "libero")
_HDF5 = (".hdf5", ".h5")


def add_subcommands(parser: Parser) -> None:
    """Add the parsers of both commands."""
    export = parser.add_subcommand(
        "export",
        "Write demonstrations as a data set of LeRobot, or as files of robomimic or LIBERO.",
        [
            (
                "clframe demos export stream=point_robot --to lerobot --out point_lerobot",
                "all tasks as one LeRobotDataset v3.0",
            ),
        ],
        key_value=True,
    )
    export.add_settings("files of demonstrations, or stream=NAME and its settings, data_dir=DIR")
    add = export.add_argument
    add("--to", required=True, choices=LAYOUTS, help="the layout")
    add("--out", type=Path, required=True, metavar="PATH", help="folder, or FILE.hdf5")
    add("--task", metavar="NAME", help="only this task of the stream")
    add("--n", type=whole(1), metavar="N", help="number per task; default: the stream's, or all")
    add("--video", action="store_true", help="lerobot: colour images as mp4; needs av")
    add("--fps", type=whole(1), default=20, metavar="N", help="lerobot: steps a second; default 20")
    read = parser.add_subcommand(
        "import",
        "Write a data set of LeRobot, or a file of robomimic or LIBERO, in our own layout.",
        [("clframe demos import point_lerobot --out point_demos", "a file for each of its tasks")],
    )
    read.add_argument("path", type=Path, metavar="PATH", help="a LeRobot folder or an HDF5 file")
    read.add_argument(
        "--out", type=Path, required=True, metavar="PATH", help="folder, or FILE.hdf5 for one task"
    )


def export(
    arguments: argparse.Namespace, resolve: Callable[[], tuple[Path, list[Evaluation], int]]
) -> None:
    """Write demonstrations in another layout.

    Args:
        arguments: Arguments of the command.
        resolve: Returns the data folder, the tasks of the stream, and the number of demonstrations
            of each.
    """
    from clframe.robot.formats import libero, robomimic
    from clframe.robot.formats.lerobot.write import write

    if arguments.video and arguments.to != "lerobot":
        raise SettingError("clframe demos export: --video is for --to lerobot")
    recordings = _recordings(arguments, resolve)
    out = arguments.out.expanduser()
    if arguments.to == "lerobot":
        for sentence in write(out, recordings, arguments.fps, arguments.video):
            print_out(sentence)
        print_out(f"{len(recordings)} task{'s' * (len(recordings) > 1)} in {out}")
        return
    for recording, path in zip(recordings, _targets(out, recordings.names), strict=True):
        if arguments.to == "robomimic":
            robomimic.write(path, recording)
        else:
            absent = libero.write(path, recording)
            if absent:
                print_out(f"{recording.name}: the demonstrations have no {', '.join(absent)}")
        print_out(f"{recording.name}: {len(recording.demos)} demonstrations in {path}")


def _recordings(
    arguments: argparse.Namespace, resolve: Callable[[], tuple[Path, list[Evaluation], int]]
) -> Recordings:
    from clframe.robot import collect
    from clframe.robot.demonstrations import read_info
    from clframe.robot.formats.recording import Recordings, read

    files = [Path(word).expanduser() for word in arguments.settings if "=" not in word]
    if bool(files) == (len(files) < len(arguments.settings)) or not arguments.settings:
        raise SettingError(
            "clframe demos export needs either files of demonstrations or stream=NAME"
        )
    if files:
        if arguments.task is not None:
            raise SettingError("clframe demos export: --task is for stream=NAME")
        names = [read_info(file).name for file in files]
        return Recordings(names, lambda number: read(files[number], arguments.n))
    folder, tasks, num_demos = resolve()
    n, first = arguments.n or num_demos, tasks[0]
    collect.ensure([how.robot for how in tasks], folder, n, first.goal_seed, first.num_workers)

    def load(number: int) -> Recording:
        how = tasks[number]
        recording = read(collect.path_of(how.robot, folder, how.goal_seed), n)
        return recording if arguments.to == "lerobot" else _with_models(how, recording)

    return Recordings([how.robot.name for how in tasks], load)


def _with_models(how: Evaluation, recording: Recording) -> Recording:
    """Add the model of each episode's world, if its environment provides it."""
    import dataclasses

    environment = how.robot.make_recording()
    models = []
    for demo in recording.demos:
        if demo.seed is not None:
            environment.reset(seed=demo.seed)
            models.append(environment.model_file())
    environment.close()
    found_models = [model for model in models if model is not None]
    if len(found_models) < len(recording.demos):
        return recording
    return dataclasses.replace(recording, models=found_models)


def _targets(out: Path, names: Sequence[str]) -> list[Path]:
    """Return a file for each task: the named file, or one in the named folder."""
    if out.suffix not in _HDF5:
        paths = [out / f"{file_name(name)}_demo.hdf5" for name in names]
    elif len(names) == 1:
        paths = [out]
    else:
        raise SettingError(f"{len(names)} tasks do not fit into one file '{out}'; name a folder")
    for path in paths:
        if path.exists():
            raise DataError(f"'{path}' already exists; remove it, or choose another --out")
        if paths.count(path) > 1:
            raise DataError(f"two tasks are called '{path.stem}'; export them separately")
    return paths


def import_(arguments: argparse.Namespace) -> None:
    """Write other programs' demonstrations in our own layout."""
    from clframe.robot.formats import robomimic
    from clframe.robot.formats.lerobot.read import recordings
    from clframe.robot.formats.recording import with_state, write

    source = arguments.path.expanduser()
    loaded: Sequence[Recording]
    if source.is_file():
        loaded = [robomimic.read(source)]
        names = [loaded[0].name]
    else:
        loaded = recordings(source)
        names = loaded.names
    for recording, path in zip(loaded, _targets(arguments.out.expanduser(), names), strict=True):
        complete, sources = with_state(recording)
        if sources:
            print_out(f"{recording.name}: the state is assembled from {', '.join(sources)}")
        write(path, complete)
        steps = sum(len(demo) for demo in complete.demos)
        print_out(
            f"{recording.name}: {len(complete.demos)} demonstrations, {steps:,} steps in {path}"
        )
