"""``clframe demos make|check|play``: demonstrations of robot tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clframe.errors import DataError, SettingError, nearest
from clframe.utils import settings
from clframe.utils.console import say

if TYPE_CHECKING:
    from clframe.robot.evaluation import Evaluation

USAGE = """\
clframe demos make stream=NAME [task=NAME] [n=50] [again=true] [num_workers=N] [data_dir=DIR]
    record the stream's experts; tasks whose demonstrations are there are passed over
clframe demos check FILE...
    what files of demonstrations hold, and whether all is in order
clframe demos play stream=NAME task=NAME [demo=0] [out=FILE.gif] [every=4]
    do a demonstration's actions again, compare what happens, and record a video
"""
_OWN: dict[str, Any] = {
    "task": str | None,
    "n": int | None,
    "again": bool,
    "num_workers": int | None,
    "demo": int,
    "out": str | None,
    "every": int,
}


def main(words: Sequence[str]) -> int:
    """Make, check or play demonstrations."""
    commands = {"make": make, "check": check, "play": play}
    if not words or words[0] in ("-h", "--help"):
        say(USAGE.rstrip())
        return 0
    if words[0] not in commands:
        raise SettingError(f"clframe demos: unknown '{words[0]}'; {nearest(words[0], commands)}")
    commands[words[0]](words[1:])
    return 0


class Chosen(NamedTuple):
    """A task of the stream: how it is measured, demonstrations wanted, whether it is taught."""

    how: Evaluation
    num_demos: int
    taught: bool


def make(words: Sequence[str]) -> None:
    """Record what is missing of a stream's demonstrations."""
    from clframe.robot import collect

    own, folder, tasks = _resolve(words, ("task", "n", "again", "num_workers"))
    chosen = [task for task in tasks if task.taught or own.get("task") is not None]
    n = own.get("n") or chosen[0].num_demos
    settings.at_least(n, 1, "n")
    goal_seed = chosen[0].how.goal_seed
    made = collect.ensure(
        [task.how.robot for task in chosen],
        folder,
        n,
        goal_seed,
        own.get("num_workers"),
        own.get("again", False),
    )
    if not made:
        say(f"all {len(chosen)} tasks have {n} demonstrations or more")
        return
    say(f"{'task':<28}{'kept':>6}{'tried':>7}{'steps':>8}{'seconds':>9}  file")
    for robot, kept, tried, seconds in made:
        path = collect.path_of(robot, folder, goal_seed)
        say(f"{robot.name:<28}{kept:>6}{tried:>7}{_steps(path):>8,}{seconds:>9.1f}  {path}")


def _steps(path: Path) -> int:
    from clframe.robot.demonstrations import read_info

    return read_info(path).steps


def check(words: Sequence[str]) -> None:
    """Print what files hold; refuse one that cannot be learned from."""
    from clframe.robot import demonstrations

    if not words:
        raise SettingError("clframe demos check needs a file of demonstrations")
    for word in words:
        path = Path(word).expanduser()
        info = demonstrations.read_info(path)
        demos = demonstrations.read(path)
        lengths = [len(demo) for demo in demos]
        actions = np.concatenate([demo.actions for demo in demos])
        say(f"{path}")
        say(f"  task: {info.name or '(not said)'}; instruction: {info.language or '(not said)'}")
        say(
            f"  {info.demos} demonstrations, {sum(lengths):,} steps; each "
            f"{min(lengths)} to {max(lengths)}, mean {np.mean(lengths):.1f}"
        )
        say(
            f"  actions: {actions.shape[1]} numbers from {actions.min():.3g} to {actions.max():.3g}"
        )
        for name, values in demos[0].observations.items():
            say(f"  obs/{name}: {values.dtype} {list(values.shape[1:])}")
        if info.facts:
            said = ", ".join(f"{key} {value}" for key, value in info.facts.items())
            say(f"  made with: {said}")
        if not np.isfinite(np.concatenate([_flat(demo) for demo in demos])).all():
            raise DataError(f"'{path}' holds observations that are NaN or infinite")


def _flat(demo: Any) -> Any:
    return np.concatenate([values.ravel() for values in demo.observations.values()])


def play(words: Sequence[str]) -> None:
    """Do a demonstration again and say whether the same happens."""
    from clframe.robot import collect, demonstrations, video

    own, folder, tasks = _resolve(words, ("task", "demo", "out", "every"))
    if own.get("task") is None:
        names = [task.how.robot.name for task in tasks]
        raise SettingError(f"clframe demos play needs task=NAME; {nearest('', names)}")
    how = tasks[0].how
    number, every = own.get("demo", 0), own.get("every", 4)
    settings.at_least(number, 0, "demo")
    settings.at_least(every, 1, "every")
    path = collect.path_of(how.robot, folder, how.goal_seed)
    out = None if own.get("out") is None else Path(own["out"]).expanduser()
    if out is not None:
        video.check_target(out)
    demo = demonstrations.read(path, number + 1)[number]
    if demo.seed is None:
        raise DataError(f"'{path}' does not tell the seed of demonstration {number}")
    environment = how.robot.environment()
    recorded = video.RecordVideo(environment, every) if out is not None else None
    apart, reached = _repeat(recorded or environment, demo)
    say(
        f"{how.robot.name}, demonstration {number}: {len(demo)} steps, goal "
        f"{'reached' if reached else 'NOT reached'}; largest difference to what was recorded "
        f"{apart:.3g}"
    )
    if recorded is not None and out is not None:
        video.write(out, recorded.frames)
        say(f"{len(recorded.frames)} pictures in {out}")


def _repeat(environment: Any, demo: Any) -> tuple[float, bool]:
    """The largest difference of a state to the recorded one, and whether the goal was reached."""
    from clframe.robot.task import as_dictionary

    observation, _ = environment.reset(seed=demo.seed)
    apart, reached = 0.0, False
    for row, action in enumerate(demo.actions):
        seen = as_dictionary(observation)
        for name, values in demo.observations.items():
            if values.dtype != np.uint8:
                apart = max(apart, float(np.abs(values[row] - seen[name]).max()))
        observation, _, _, _, info = environment.step(action)
        reached = reached or bool(info["success"])
    return apart, reached


def _resolve(
    words: Sequence[str], allowed: Sequence[str]
) -> tuple[dict[str, Any], Path, list[Chosen]]:
    """Settings of the command, the data folder, and the stream's tasks, or the one named."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    from clframe.build import build_stream
    from clframe.config.compose import compose
    from clframe.core.registry import discover
    from clframe.data.folder import data_folder

    own: dict[str, Any] = {}
    rest: list[str] = []
    for word in words:
        key, equals, _ = word.partition("=")
        if equals and key in allowed:
            try:
                value = OverridesParser.create().parse_override(word).value()
            except HydraException as error:
                raise SettingError(f"'{word}' cannot be read: {error}") from error
            own[key] = settings.convert(value, _OWN[key], key)
        elif equals and (key in ("stream", "data_dir", "plugin_path") or key.startswith("stream.")):
            rest.append(word)
        else:
            known = ("stream", "data_dir", "plugin_path", *allowed)
            raise SettingError(f"clframe demos: '{word}' is not a setting; {nearest(key, known)}")
    if not any(word.startswith("stream=") for word in rest):
        raise SettingError("clframe demos needs stream=NAME, such as stream=metaworld_cw10")
    config = compose(rest)
    stream = build_stream(config, discover(config.plugin_paths))
    found = [
        Chosen(task.info["evaluation"], int(task.info["num_demos"]), bool(task.info["taught"]))
        for task in stream.tasks
        if "evaluation" in task.info
    ]
    if not found:
        raise SettingError(f"stream '{stream.name}' has no demonstrations: it has no environments")
    name = own.get("task")
    if name is not None:
        names = [task.how.robot.name for task in found]
        if name not in names:
            raise SettingError(
                f"stream '{stream.name}' has no task '{name}'; {nearest(name, names)}"
            )
        found = [found[names.index(name)]]
    return own, data_folder(config.data_dir), found
