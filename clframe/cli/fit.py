"""``clframe fit``: compose, run, and show the matrix."""

from __future__ import annotations

import importlib.resources
import re
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clframe.cli import _name_cache
from clframe.cli._names import check_names
from clframe.cli.parser import Parser
from clframe.config.overrides import expand_ranges, take_config_dirs
from clframe.distributed import launch
from clframe.errors import SettingError
from clframe.utils.console import (
    colored,
    hide_library_warnings,
    matrix_table,
    print_lines,
    print_out,
    printable,
    wrap,
)
from clframe.utils.processes import hangup

_DASHED = re.compile(r"^--((?!config-dir=|cfg=|multirun=)[A-Za-z_][\w.]*=)")
"""A setting as W&B's agent writes it unless told otherwise: ``--optimizer.lr=0.1``."""
_MANY = 6
"""Names that begin alike and are more than this are one entry of the help."""


def parser() -> Parser:
    """The arguments of the command."""
    parser = Parser(
        "fit",
        "Learn a stream, evaluate every task after every experience, and fill the matrix.",
        [
            ("clframe fit strategy=ewc stream=split_mnist scenario=task seed=1", "one run"),
            ("clframe fit strategy=ewc+replay strategy.replay.size=500", "a composition"),
            ("clframe fit strategy=er seeds=0,1,2", "several seeds as one batched model"),
            ("clframe fit -m strategy=ewc,si seed=0..4", "a sweep: every combination"),
            ("clframe fit experiment=three_scenarios/dgr scenario=class", "a published protocol"),
            ("clframe fit resume=RUN", "continue a run that was stopped or killed"),
        ],
        more=_choices,
    )
    parser.add_settings("settings of the run; see below")
    parser.add_argument(
        "-m",
        "--multirun",
        action="store_true",
        help="a sweep: run every combination of the values given",
    )
    parser.add_argument(
        "--cfg", action="store_true", help="print the composed config and run nothing"
    )
    parser.add_config_dir()
    return parser


def main(words: Sequence[str]) -> int:
    """Run once, or several times with ``-m``."""
    arguments = parser().parse([_DASHED.sub(r"\1", word) for word in words])
    hide_library_warnings()
    folders = [f"config_dir='{Path(folder).resolve()}'" for folder in arguments.config_dir]
    words = [*arguments.settings, *folders]
    check_names(words)
    # A polite end (a scheduler's, `kill`, a terminal that is closed) is the same as Ctrl-C: leave
    # with 130, ready to resume.
    for number in (signal.SIGTERM, *hangup()):
        signal.signal(number, signal.default_int_handler)
    if arguments.cfg:
        if arguments.multirun:
            raise SettingError("--cfg shows a single run; leave -m out")
        return show_config(words)
    if arguments.multirun:
        from clframe.cli.sweep import sweep

        return sweep(words)
    for word in words:
        if word.startswith(("sweep.", "sweep_dir=")):
            raise SettingError(f"'{word}' is for a sweep; put -m after fit to sweep")
    return run_once(words)


def _choices() -> str:
    """The groups with their names, and the other keys: what the help has beside the options."""
    text = (importlib.resources.files("clframe.configs") / "fit.yaml").read_text(encoding="utf-8")
    known = _name_cache.cached()
    first = "groups, chosen by GROUP=NAME; settings are GROUP.SETTING=VALUE or SETTING=VALUE:"
    lines = wrap(first)
    for group in [*re.findall(r"^  - (?:optional )?(\w+):", text, re.M), "checkpoint"]:
        names = known.groups.get(group, []) if known is not None else []
        listed = ", ".join(_shortened(names)) or f"see clframe list {_name_cache.plural(group)}"
        lines += _columns(group, listed)
    lines += ["", "other keys:"]
    for key, meaning in _root_keys(text):
        lines += _columns(key, meaning)
    last = "clframe list NAME explains a name and its settings, also those of the trainer."
    lines += ["", *wrap(last)]
    return "\n".join(lines)


def _columns(name: str, text: str) -> list[str]:
    return wrap(text, 18, f"  {name:<15} ")


def _root_keys(text: str) -> Iterator[tuple[str, str]]:
    """The keys of fit.yaml with the comments above them."""
    comment: list[str] = []
    for line in text.partition("\n\n")[2].splitlines():
        key = re.match(r"(\w+):", line)
        if line.startswith("# "):
            comment.append(line[2:])
        elif key and key[1] not in ("hydra", "checkpoint"):
            yield key[1], " ".join(comment) or "of everything that is drawn"
        if not line.startswith("#"):
            comment = []


def _shortened(names: Sequence[str]) -> list[str]:
    """The names, with one entry for many that begin alike.

    >>> _shortened(["mlp", *(f"task_{i}" for i in range(9))])
    ['mlp', 'task_* (9)']
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        folder, slash, rest = name.rpartition("/")
        start = folder + slash if slash else rest[: rest.rfind("_") + 1]
        alike.setdefault(start or name, []).append(name)
    shown: list[str] = []
    for start, members in alike.items():
        shown += [f"{start}* ({len(members)})"] if len(members) > _MANY else members
    return shown


def show_config(overrides: Sequence[str]) -> int:
    """Print what ``config.yaml`` would hold, and run nothing."""
    from clframe.config.compose import compose
    from clframe.config.show import as_yaml
    from clframe.core.registry import discover
    from clframe.runs.received import plugin_paths

    folders = take_config_dirs(overrides)[1]
    print_lines(as_yaml(compose(overrides), discover(plugin_paths(overrides), folders)).rstrip())
    return 0


def run_once(overrides: Sequence[str]) -> int:
    """One run from its overrides, or several seeds at once."""
    from clframe.api import fit_config
    from clframe.config.compose import compose

    seeds = [word.partition("=")[2] for word in overrides if word.startswith("seeds=")]
    if seeds:
        return run_seeds([word for word in overrides if not word.startswith("seeds=")], seeds[-1])
    config = compose(overrides)
    with launch.command(["fit", *overrides]):
        result = fit_config(config)
    if launch.is_main_process():
        show(result)
    return 0


def run_seeds(overrides: Sequence[str], seeds: str) -> int:
    """Run several seeds at once: ``seeds=0,1,2``, ``seeds=[0,1,2]`` or ``seeds=0..2``."""
    from clframe.config.compose import compose
    from clframe.sweep.seeds import fit_seeds

    listed = expand_ranges(f"seeds={seeds.strip().strip('[]')}").removeprefix("seeds=")
    words = [word.strip() for word in listed.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise SettingError(f"seeds must be a list such as seeds=0,1,2 or seeds=0..2, got '{seeds}'")
    if any(word.startswith("seed=") for word in overrides):
        raise SettingError("seed and seeds cannot both be given; leave one of them out")
    show_seeds(fit_seeds(compose(overrides), [int(word) for word in words]))
    return 0


def _say(text: str) -> None:
    print_lines(wrap(printable(text), 2, ""))


def show(result: Any) -> None:
    """The matrix and the headline metrics."""
    from clframe.cli._headline import headline

    content = result.matrix.to_json()
    color = colored(sys.stdout)
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
    print_out()
    _say(
        f"{result.strategy} on {result.stream} ({result.scenario}-incremental, seed {result.seed})"
    )
    _say(f"data: {result.source}")
    _say(f"{content['measure']} on each task (columns) after each experience (rows):")
    print_out()
    print_lines(matrix_table(content["rows"], content["columns"], content["values"], color, width))
    print_out()
    print_lines(headline(result.metrics, content["measure"]))
    _say_classes([result])
    learning, measuring = result.timing["train_seconds"], result.timing["eval_seconds"]
    how = "rollouts" if content["measure"] == "success" else "evaluation"
    print_out()
    print_out(f"{learning + measuring:.0f} s, {result.timing['eval_share']:.0%} of it {how}")
    if result.run_dir is not None:
        print_out(f"run folder: {result.run_dir}")


def _say_classes(results: Sequence[Any]) -> None:
    """Say which class is the worst, if classes differ in size."""
    from clframe.evaluation.class_sizes import class_line

    line = class_line(results)
    if line is not None:
        _say(line)


def show_seeds(results: Sequence[Any]) -> None:
    """The mean matrix over seeds, and the headline metrics with their standard errors."""
    from clframe.utils.statistics import summarize

    first = results[0]
    content = first.matrix.to_json()
    mean = sum(result.matrix.values for result in results) / len(results)
    seeds = ", ".join(str(result.seed) for result in results)
    print_out()
    _say(f"{first.strategy} on {first.stream} ({first.scenario}-incremental, seeds {seeds})")
    _say(f"data: {first.source}")
    _say(f"mean {content['measure']} over seeds on each task after each experience:")
    print_out()
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
    table = mean.tolist()
    print_lines(
        matrix_table(content["rows"], content["columns"], table, colored(sys.stdout), width)
    )
    print_out()
    for family, name in (("gem", "acc"), ("gem", "bwt"), ("openloris", "accuracy")):
        values = [result.metrics.get(family, {}).get(name) for result in results]
        if all(isinstance(value, int | float) for value in values):
            summary = summarize(values)
            error = "" if summary.standard_error is None else f" ± {summary.standard_error:.3f}"
            print_out(
                f"{family + '.' + name:<20}{summary.mean:>8.3f}{error}  over {summary.n} seeds"
            )
    _say_classes(results)
    for result in results:
        if result.run_dir is not None:
            print_out(f"run folder: {result.run_dir}")
