"""``clframe fit``: compose a run, run it, and show the matrix."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

from clframe.cli._fit_help import choices
from clframe.cli.parser import Parser
from clframe.config.compose import compose
from clframe.config.read_overrides import take_config_dirs
from clframe.distributed import launch
from clframe.errors import SettingError
from clframe.utils.processes import hangup

_DASHED = re.compile(r"^--((?!config-dir=|cfg=|multirun=)[A-Za-z_][\w.]*=)")
"""A setting in the default form of W&B's agent: ``--optimizer.lr=0.1``."""


def parser() -> Parser:
    """Return the parser of the command."""
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
        more=choices,
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


def main(argv: Sequence[str]) -> int:
    """Run once, or several times with ``-m``."""
    arguments = parser().parse([_DASHED.sub(r"\1", word) for word in argv])
    folders = [f"config_dir='{Path(folder).resolve()}'" for folder in arguments.config_dir]
    argv = [*arguments.settings, *folders]
    if arguments.cfg:
        if arguments.multirun:
            raise SettingError("--cfg shows a single run; leave -m out")
        return show_config(argv)
    if arguments.multirun:
        from clframe.sweep.expand import check_names

        check_names(argv)
        from clframe.cli.sweep import sweep

        end_like_interrupted()
        return sweep(argv)
    for word in argv:
        if word.startswith(("sweep.", "sweep_dir=")):
            raise SettingError(f"'{word}' is for a sweep; put -m after fit to sweep")
    return run_once(argv)


def end_like_interrupted() -> None:
    """Treat a scheduler's signal, ``kill`` or a closed terminal like Ctrl-C from now on.

    The command exits with code 130, and the run is ready to be resumed.
    """
    for number in (signal.SIGTERM, *hangup()):
        signal.signal(number, signal.default_int_handler)


def show_config(overrides: Sequence[str]) -> int:
    """Print the content of ``config.yaml`` without running."""
    config = compose(overrides)
    from clframe.config.show import as_yaml
    from clframe.core.registry import discover
    from clframe.utils.console import print_lines

    folders = take_config_dirs(overrides)[1]
    print_lines(as_yaml(config, discover(config.plugin_paths, folders)).rstrip())
    return 0


def run_once(overrides: Sequence[str]) -> int:
    """Run once, or several seeds at once."""
    seeds = [word.partition("=")[2] for word in overrides if word.startswith("seeds=")]
    if seeds:
        from clframe.cli._seeds import run_seeds

        end_like_interrupted()
        return run_seeds([word for word in overrides if not word.startswith("seeds=")], seeds[-1])
    config = compose(overrides)
    from clframe.api import fit_config
    from clframe.cli._show_result import show

    end_like_interrupted()
    with launch.command(["fit", *overrides]):
        result = fit_config(config)
    if launch.is_main_process():
        show(result)
    return 0
