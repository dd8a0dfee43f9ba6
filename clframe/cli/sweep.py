"""``clframe fit -m``: check a sweep, start the missing runs, and report the results."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from clframe.errors import ClframeError
from clframe.report.compare import compare
from clframe.report.metric_formats import HEADLINES, format_value
from clframe.report.sweeps import swept_settings
from clframe.report.tables import as_text
from clframe.runs.reader import Run, read_run
from clframe.sweep.expand import (
    Plan,
    default_folder,
    divide,
    expand,
    plugins_checksum,
    run_name,
)
from clframe.sweep.job import STOPPED, Job, failure
from clframe.sweep.launcher import Interrupts, Launcher, run_all
from clframe.sweep.launchers import make_launcher
from clframe.sweep.manifest import Manifest, lock_folder
from clframe.utils.console import columns, print_err, print_lines, print_out, warn_user, wrap
from clframe.utils.eta import duration

_FIGURES = ("gem.acc", "gem.bwt", *HEADLINES)


def sweep(arguments: Sequence[str]) -> int:
    """Run all combinations of the values, each in its own process and folder.

    Returns:
        0, or 2 if a run failed, or 130 if the sweep was stopped.

    Raises:
        ClframeError: A value is invalid; nothing has been started then.
    """
    overrides, own, folder, allow = divide(arguments)
    plan, plugins = check(overrides)
    folder = folder or default_folder(plan, plugins)
    Manifest(folder, plan, plugins)  # Refuse a folder with other content before changing it.
    jobs = make_jobs(plan, folder, allow)
    waiting = [job for job in jobs if job.state != "finished"]
    failures: dict[str, str] = {}
    interrupts = Interrupts()
    with lock_folder(folder):
        manifest = Manifest(folder, plan, plugins)
        manifest.add(jobs)
        warn_user(_outlook(folder, jobs, waiting))
        if waiting:
            launcher = make_launcher(own, folder)
            with interrupts.counting():
                failures = _run(launcher, jobs, waiting, manifest, interrupts)
    return _conclude(folder, plan, jobs, failures, bool(interrupts.count))


def check(overrides: Sequence[str]) -> tuple[Plan, str]:
    """Parse the arguments and compose runs that hold every value once.

    Returns:
        The plan, and the checksum of the user's plugin files.

    Raises:
        ClframeError: An argument cannot be swept, or a run could not be composed.
    """
    from clframe.config.compose import compose
    from clframe.config.read_overrides import catalog_of, take_config_dirs
    from clframe.config.show import check_settings
    from clframe.core.registry import discover
    from clframe.runs.received import plugin_paths

    paths, folders = plugin_paths(overrides), take_config_dirs(overrides)[1]
    # Refuse what cannot be swept before loading the user's files.
    plan = expand(overrides, lambda group: catalog_of(paths, folders).groups.get(group, ()))
    registry = discover(paths, folders)
    for sample in plan.samples:
        try:
            check_settings(compose(plan.overrides(sample)), registry)
        except ClframeError as error:
            raise type(error)(f"{error} (in the run {_title(plan, sample)})") from error
    return plan, plugins_checksum(paths)


def _title(plan: Plan, combination: dict[str, str]) -> str:
    return " ".join(f"{key}={combination[key]}" for key in plan.axes)


def make_jobs(plan: Plan, folder: Path, allow: Sequence[str] = ()) -> list[Job]:
    """Return the runs of a sweep, finished or not.

    Args:
        plan: The sweep.
        folder: Its folder.
        allow: Differences that are allowed when a run is continued.
    """
    root = folder.resolve()
    return [
        Job(
            name=name,
            overrides=tuple(plan.overrides(combination)),
            title=_title(plan, combination),
            folder=root / name,
            log=root / "logs" / f"{name}.log",
            allow=tuple(allow),
        )
        for combination in plan.combinations
        for name in (run_name(combination),)
    ]


def _outlook(folder: Path, jobs: Sequence[Job], waiting: Sequence[Job]) -> str:
    broken = sum(job.state == "broken" for job in waiting)
    counts = [f"{len(jobs)} run{'s' * (len(jobs) != 1)} in {folder}"]
    if len(waiting) < len(jobs):
        counts.append(f"{len(jobs) - len(waiting)} finished already")
    if broken:
        counts.append(f"{broken} to continue")
    return "sweep of " + ", ".join(counts)


def _run(
    launcher: Launcher,
    jobs: Sequence[Job],
    waiting: Sequence[Job],
    manifest: Manifest,
    interrupts: Interrupts,
) -> dict[str, str]:
    """Run what is missing, with a line for each; return why runs failed, by name."""
    failures: dict[str, str] = {}
    done = len(jobs) - len(waiting)
    digits = len(str(len(jobs)))
    widest = max(len(job.title) for job in jobs)
    try:
        for ended in run_all(launcher, waiting, interrupts, lambda j: manifest.note(j, "running")):
            why = failure(ended.job, ended.code)
            if why is not None and interrupts.count:
                manifest.note(ended.job, "stopped")
                continue
            done += 1
            manifest.note(ended.job, "finished" if why is None else "failed", why)
            if why is not None:
                failures[ended.job.name] = why
            summary = _figures(ended.job.folder) if why is None else f"failed: {why}"
            line = f"{ended.job.title:<{widest}}  {summary}  ({duration(ended.seconds)})"
            _tell(f"[{done:>{digits}}/{len(jobs)}] ", line)
    finally:
        launcher.close()
    return failures


def _figures(folder: Path) -> str:
    """Return the two main metrics of a finished run."""
    metrics = read_run(folder).metrics
    names = [name for name in dict.fromkeys(_FIGURES) if metrics.get(name) is not None]
    return "  ".join(f"{name} {format_value(metrics[name])}" for name in names[:2])


def _tell(start: str, line: str) -> None:
    """Print a line to standard error, wrapped on a narrow terminal."""
    fits = not sys.stderr.isatty() or len(start) + len(line) < columns()
    print_err(*([start + line] if fits else wrap(line, len(start), start)))


def _conclude(
    folder: Path, plan: Plan, jobs: Sequence[Job], failures: dict[str, str], stopped: bool
) -> int:
    """Print the table over seeds and the failures; return the exit code."""
    finished: list[Run] = [read_run(job.folder) for job in jobs if job.state == "finished"]
    if finished:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print_out()
        print_lines(as_text(compare(finished, by=swept_settings(finished, list(plan.axes))), width))
        print_out(f"sweep folder: {folder}")
        print_out(f"a page with figures: clframe report {folder}")
    for job in jobs:
        if job.name in failures:
            log = folder / "logs" / job.log.name
            warn_user(f"failed: {job.title}: {failures[job.name]} (its output: {log})")
    if stopped:
        warn_user(
            f"stopped; {len(finished)} of {len(jobs)} runs are finished and the others have saved "
            "their state; run the same command to continue"
        )
        return STOPPED
    if failures:
        warn_user(
            f"{len(failures)} of {len(jobs)} runs failed; the same command tries them again and "
            "leaves the others as they are"
        )
        return 2
    return 0
