"""``clframe demos make|check|play|export|import``: demonstrations of robot tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clframe.cli import _demos_convert
from clframe.cli.parser import Parser, whole
from clframe.config.compose import compose
from clframe.errors import DataError, SettingError, nearest
from clframe.utils.console import print_out

if TYPE_CHECKING:
    import argparse

    from clframe.robot.evaluation import Evaluation

_SETTINGS = ("stream", "data_dir", "plugin_path")


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser("demos", "Demonstrations of robot tasks.")
    make = parser.add_subcommand(
        "make",
        "Record a stream's experts; skip tasks that already have demonstrations.",
        [("clframe demos make stream=metaworld_mt50 --n 50", "what is missing, in parallel")],
        key_value=True,
    )
    make.add_settings("stream=NAME, its settings, data_dir=DIR, plugin_path=FILE")
    add = make.add_argument
    add("--task", metavar="NAME", help="only this task")
    add("--n", type=whole(1), metavar="N", help="number per task; default: the stream's")
    add("--again", action="store_true", help="also record tasks that have demonstrations")
    add("--num-workers", type=whole(), metavar="N", help="processes; default: as many as cores")
    check = parser.add_subcommand(
        "check",
        "Show the content of files of demonstrations, and check that they are valid.",
        [("clframe demos check push_demo.hdf5", "tasks, steps, observations, actions")],
    )
    check.add_argument("files", type=Path, nargs="+", metavar="FILE")
    play = parser.add_subcommand(
        "play",
        "Replay a demonstration, compare every bit, and record a video.",
        [
            (
                "clframe demos play stream=metaworld_cw10 --task push --out push.gif",
                "the first one",
            ),
            ("clframe demos play stream=tabletop_goal --all", "all of every task"),
        ],
        key_value=True,
    )
    play.add_settings("stream=NAME, its settings, data_dir=DIR, plugin_path=FILE")
    add = play.add_argument
    add("--task", metavar="NAME", help="whose demonstration")
    add("--demo", type=whole(), default=0, metavar="N", help="which one; default: 0")
    add("--all", action="store_true", help="all demonstrations, of this task or of every task")
    add("--out", type=Path, metavar="FILE", help="record a video: FILE.mp4, FILE.gif or a folder")
    add("--every", type=whole(1), metavar="N", help="record every N-th step; default: each")
    _demos_convert.add_subcommands(parser)
    return parser


def main(argv: Sequence[str]) -> int:
    """Make, check, play or convert demonstrations."""
    arguments = parser().parse(argv)
    {
        "make": make,
        "check": check,
        "play": play,
        "export": export,
        "import": _demos_convert.import_,
    }[arguments.subcommand](arguments)
    return 0


class Chosen(NamedTuple):
    """A task of the stream: its evaluation, number of demonstrations, whether it is taught."""

    how: Evaluation
    num_demos: int
    taught: bool


def make(arguments: argparse.Namespace) -> None:
    """Record the missing demonstrations of a stream."""
    from clframe.robot import collect

    folder, tasks = _resolve("make", arguments)
    chosen = [task for task in tasks if task.taught or arguments.task is not None]
    n = arguments.n or chosen[0].num_demos
    goal_seed = chosen[0].how.goal_seed
    made = collect.ensure(
        [task.how.robot for task in chosen],
        folder,
        n,
        goal_seed,
        arguments.num_workers,
        arguments.again,
    )
    if not made:
        print_out(f"all {len(chosen)} tasks have {n} demonstrations or more")
        return
    print_out(f"{'task':<28}{'kept':>6}{'tried':>7}{'steps':>8}{'seconds':>9}  file")
    for robot, kept, tried, seconds in made:
        path = collect.path_of(robot, folder, goal_seed)
        print_out(f"{robot.name:<28}{kept:>6}{tried:>7}{_steps(path):>8,}{seconds:>9.1f}  {path}")


def _steps(path: Path) -> int:
    from clframe.robot.demonstrations import read_info

    return read_info(path).steps


def check(arguments: argparse.Namespace) -> None:
    """Print the content of files; refuse a file that cannot be learned from."""
    import numpy as np

    from clframe.robot import demonstrations

    for file in arguments.files:
        path = file.expanduser()
        info = demonstrations.read_info(path)
        demos = demonstrations.read(path)
        lengths = [len(demo) for demo in demos]
        actions = np.concatenate([demo.actions for demo in demos])
        print_out(f"{path}")
        print_out(
            f"  task: {info.name or '(not said)'}; instruction: {info.language or '(not said)'}"
        )
        print_out(
            f"  {info.demos} demonstrations, {sum(lengths):,} steps; each "
            f"{min(lengths)} to {max(lengths)}, mean {np.mean(lengths):.1f}"
        )
        print_out(
            f"  actions: {actions.shape[1]} numbers from {actions.min():.3g} to {actions.max():.3g}"
        )
        for name, values in demos[0].observations.items():
            print_out(f"  obs/{name}: {values.dtype} {list(values.shape[1:])}")
        if info.facts:
            # A task file is a page of text, so only its presence is shown.
            facts = ", ".join(
                f"{key} {value if len(str(value)) <= 80 else f'({len(str(value)):,} characters)'}"
                for key, value in info.facts.items()
            )
            print_out(f"  made with: {facts}")
        if not np.isfinite(np.concatenate([_flat(demo) for demo in demos])).all():
            raise DataError(f"'{path}' holds observations that are NaN or infinite")


def _flat(demo: Any) -> Any:
    import numpy as np

    return np.concatenate([values.ravel() for values in demo.observations.values()])


def play(arguments: argparse.Namespace) -> None:
    """Replay demonstrations and print whether the results are the same.

    Raises:
        DataError: They differ.
    """
    from clframe.robot.video import video_files

    folder, tasks = _resolve("play", arguments)
    out = None if arguments.out is None else arguments.out.expanduser()
    if out is not None:
        video_files.check_target(out)
    if arguments.all:
        if out is not None:
            raise SettingError("clframe demos play: --all makes no videos; leave --out out")
        _play_all(folder, [task.how for task in tasks if task.taught or arguments.task])
        return
    if arguments.task is None:
        names = [task.how.robot.name for task in tasks]
        raise SettingError(f"clframe demos play needs --task NAME or --all; {nearest('', names)}")
    _play_one(folder, tasks[0].how, arguments.demo, out, arguments.every)


def _play_one(
    folder: Path, how: Evaluation, number: int, out: Path | None, every: int | None
) -> None:
    from clframe.robot import collect, demonstrations
    from clframe.robot.replay import replay
    from clframe.robot.video import video_files
    from clframe.robot.video.record_video import RecordVideo

    path = collect.path_of(how.robot, folder, how.goal_seed)
    demo = demonstrations.read(path, number + 1)[number]
    environment = how.robot.make_recording()
    rate = environment.rate
    every = every or (1 if out is None else video_files.stride(out, rate))
    recorded = RecordVideo(environment, every) if out is not None else None
    result = replay(how.robot, recorded or environment, demo)
    print_out(
        f"{how.robot.name}, demonstration {number}: {len(demo)} steps, goal "
        f"{'reached' if result.reached else 'NOT reached'}; largest difference to the "
        f"recording {result.apart:.3g}"
        f"{' (the same in every bit)' if result.equal else f' (first at step {result.first})'}"
    )
    if recorded is not None and out is not None:
        images = recorded.captioned(how.robot.language, f"the expert, demonstration {number}")
        video_files.write(out, images, rate / every)
        print_out(f"{len(images)} images in {out}")
    if not (result.equal and result.reached):
        raise _differs(path, how, f"demonstration {number}", result.first)


def _play_all(folder: Path, chosen: list[Evaluation]) -> None:
    from clframe.robot import collect, demonstrations
    from clframe.robot.replay import replay

    print_out(f"{'task':<44}{'played':>7}{'equal':>7}{'goal':>6}{'largest difference':>20}")
    wrong: list[DataError] = []
    for how in chosen:
        path = collect.path_of(how.robot, folder, how.goal_seed)
        environment = how.robot.make_recording()
        results = [replay(how.robot, environment, demo) for demo in demonstrations.read(path)]
        good = [result.equal and result.reached for result in results]
        print_out(
            f"{how.robot.name[:43]:<44}{len(results):>7}{sum(r.equal for r in results):>7}"
            f"{sum(r.reached for r in results):>6}{max(r.apart for r in results):>20.3g}"
        )
        if not all(good):
            number = good.index(False)
            wrong.append(_differs(path, how, f"demonstration {number}", results[number].first))
    if wrong:
        raise wrong[0]


def _differs(path: Path, how: Evaluation, which: str, first: int | None) -> DataError:
    """Return the error for a demonstration that does not replay."""
    from clframe.robot.demonstrations import read_info
    from clframe.robot.replay import other_versions

    problem = "does not reach the goal" if first is None else f"differs from step {first} on"
    why = other_versions(read_info(path).facts, how.robot.facts)
    return DataError(f"'{path}': {which} does not replay, it {problem}{f' ({why})' if why else ''}")


def export(arguments: argparse.Namespace) -> None:
    """Write demonstrations in the layouts of other programs."""

    def resolve() -> tuple[Path, list[Evaluation], int]:
        folder, tasks = _resolve("export", arguments)
        chosen = [task.how for task in tasks if task.taught or arguments.task is not None]
        return folder, chosen, tasks[0].num_demos

    _demos_convert.export(arguments, resolve)


def _resolve(command: str, arguments: argparse.Namespace) -> tuple[Path, list[Chosen]]:
    """Return the data folder, and the stream's tasks, or the named one."""
    for word in arguments.settings:
        key, equals, _ = word.partition("=")
        if not equals or not (key in _SETTINGS or key.startswith("stream.")):
            options = [name.strip("-") for name in parser().subcommands[command].options]
            names_of_options = (*_SETTINGS, *options)
            raise SettingError(
                f"clframe demos: '{word}' is not a setting; {nearest(key, names_of_options)}"
            )
    if not any(word.startswith("stream=") for word in arguments.settings):
        raise SettingError("clframe demos needs stream=NAME, such as stream=metaworld_cw10")
    config = compose(arguments.settings)
    from clframe.build import build_stream
    from clframe.core.registry import discover
    from clframe.data.folder import data_folder
    from clframe.robot.evaluation import Evaluation

    stream = build_stream(config, discover(config.plugin_paths))
    tasks = [
        Chosen(task.evaluation, int(task.info["num_demos"]), bool(task.info["taught"]))
        for task in stream.tasks
        if isinstance(task.evaluation, Evaluation)
    ]
    if not tasks:
        raise SettingError(f"stream '{stream.name}' has no demonstrations: it has no environments")
    name = arguments.task
    if name is not None:
        names = [task.how.robot.name for task in tasks]
        if name not in names:
            raise SettingError(
                f"stream '{stream.name}' has no task '{name}'; {nearest(name, names)}"
            )
        tasks = [tasks[names.index(name)]]
    return data_folder(config.data_dir), tasks
