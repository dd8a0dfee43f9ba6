"""``clframe fit``: compose, run, and show the matrix."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from clframe.console import coloured, headline, matrix_table, notice, say
from clframe.errors import ClframeError, SettingError


def main(words: Sequence[str]) -> int:
    """Run once, or several times with ``-m``."""
    _quiet()
    # A polite end (a scheduler's, `kill`) is the same as Ctrl-C: leave with 130, ready to resume.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if "-m" in words or "--multirun" in words:
        return sweep([word for word in words if word not in ("-m", "--multirun")])
    return run_once(words)


def run_once(overrides: Sequence[str]) -> int:
    """One run from its overrides."""
    from clframe.api import fit
    from clframe.config import compose

    resumed = [word.partition("=")[2] for word in overrides if word.startswith("resume=")]
    if resumed and resumed[-1] not in ("", "null"):
        if len(overrides) > 1:
            raise SettingError(
                "resume=RUN continues a run with its own settings; leave the other settings out"
            )
        arguments = _arguments_of(Path(resumed[-1]))
    else:
        arguments, name = compose(overrides)
        arguments["strategy_name"] = name
    show(fit(**arguments))
    return 0


def _arguments_of(folder: Path) -> dict[str, Any]:
    """The arguments a run was made with, from its config.yaml."""
    from clframe.run_folder import RunFolder

    config = RunFolder(folder).read_config()
    for group in ("stream", "model"):
        if "object" in (config.get(group) or {}):
            raise SettingError(
                f"run '{folder}' was made in Python with a {group} of its own "
                f"({config[group]['object']}); continue it there with clframe.fit(..., resume=...)"
            )
    return {**config, "resume": str(folder)}


def show(result: Any) -> None:
    """The matrix and the headline metrics."""
    content = result.matrix.to_json()
    colour = coloured(sys.stdout)
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else None
    say()
    say(
        f"{result.strategy} on {result.stream} ({result.scenario}-incremental, "
        f"seed {result.seed}), data: {result.source}"
    )
    say(f"{content['measure']} on each task (columns) after each experience (rows):")
    say()
    say(matrix_table(content["rows"], content["columns"], content["values"], colour, width))
    say()
    say(headline(result.metrics))
    if result.run_dir is not None:
        say(f"\nrun folder: {result.run_dir}")


def sweep(overrides: Sequence[str]) -> int:
    """All combinations of the values given, through Hydra's sweeper and launcher."""
    import hydra
    from hydra.core.hydra_config import HydraConfig

    from clframe.config import GROUPS, ROOT_KEYS, plugin_paths, store
    from clframe.registry import discover

    store(discover(plugin_paths(overrides)))
    failures: list[str] = []

    @hydra.main(version_base="1.3", config_path="pkg://clframe.configs", config_name="fit")
    def job(_: Any) -> None:
        own = [word.lstrip("+") for word in HydraConfig.get().overrides.task]
        notice("fit " + " ".join(own))
        try:
            run_once(own)
        except ClframeError as error:
            failures.append(f"fit {' '.join(own)}: {error}")
            notice(f"this run failed: {error}")

    prepared = []
    for word in overrides:
        key = word.partition("=")[0]
        known = key in GROUPS or key in ROOT_KEYS or key.startswith(("hydra", "+", "~"))
        # Keys that only a chosen plugin or stream knows are added; each job checks them.
        prepared.append(word if known else f"++{word}")
    before = sys.argv
    sys.argv = [before[0], "--multirun", *prepared]
    try:
        job()
    finally:
        sys.argv = before
    for failure in failures:
        notice(failure)
    return 2 if failures else 0


def _quiet() -> None:
    """Show only what is meant for the user; warnings of libraries are for CLFRAME_DEBUG."""
    if not os.environ.get("CLFRAME_DEBUG"):
        warnings.showwarning = _show_warning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if "clframe" in Path(filename).parts:
        notice(str(message))
