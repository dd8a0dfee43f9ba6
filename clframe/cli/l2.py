"""``clframe l2 LOG_DIR``: compute tables, JSON and plots from an l2logger folder."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.cli.parser import Parser
from clframe.errors import DataError, SettingError
from clframe.utils.console import print_lines, print_out, wrap

if TYPE_CHECKING:
    from clframe.metrics.l2.lifetimes import LifetimesResult
    from clframe.metrics.l2.result import L2Result

JSON_FILE = "l2metrics.json"


def parser() -> Parser:
    """Return the parser of the command."""
    from clframe.metrics.l2.profiles import PROFILES

    parser = Parser(
        "l2",
        "Compute lifelong-learning metrics (New et al., 2022) of l2logger folders: tables, JSON, "
        "images.",
        [
            ("clframe l2 RUN/log", "the lifetime of a run"),
            ("clframe l2 RUN/log --ste experts --out DIR", "with experts: RP and SE"),
            ("clframe l2 RUNS --recursive", "every lifetime below: mean, standard error, interval"),
        ],
    )
    add = parser.add_argument
    add("logs", nargs="+", metavar="LOG_DIR", help="log folder, run folder or TSV file")
    add("--ste", nargs="+", default=[], metavar="DIR", help="logs of single-task experts")
    add("--partial-ste", action="store_true", help="accept tasks without an expert")
    add("--profile", choices=PROFILES, default="paper", help="default: paper")
    add("--recursive", action="store_true", help="evaluate every lifetime below the folders")
    add("--out", metavar="DIR", help=f"for {JSON_FILE} and the plots (default: LOG_DIR/l2metrics)")
    add("--settings", metavar="FILE", help="JSON file with settings by name")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="perf_measure=reward, ...")
    add("--data-range", metavar="FILE", help="JSON file: task -> {min, max}, to scale by")
    add("--no-plots", action="store_true", help="write no images")
    return parser


def main(argv: Sequence[str]) -> int:
    """Print the tables, write JSON and images."""
    options = parser().parse(argv)
    from clframe.metrics.l2.evaluate import evaluate
    from clframe.metrics.l2.lifetimes import evaluate_lifetimes
    from clframe.metrics.l2.result import plain, write_json

    settings = _settings(options)
    logs = _logs(options.logs) if options.recursive else list(options.logs)
    experts = _logs(options.ste)
    out = Path(options.out) if options.out else _default_folder(logs)
    if len(logs) == 1:
        result = evaluate(logs[0], experts, options.profile, **settings)
        _refuse_missing_experts([result], experts, options.partial_ste)
        _show(result)
        content: dict[str, Any] = result.as_dict()
        results = [result]
    else:
        several = evaluate_lifetimes(logs, experts, options.profile, **settings)
        results = several.lifetimes
        _refuse_missing_experts(results, experts, options.partial_ste)
        _show_several(several)
        content = {
            "summary": several.summary_dict(),
            "lifetimes": [result.as_dict() for result in results],
        }
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / JSON_FILE, plain(content))
        written = [out / JSON_FILE]
        if not options.no_plots:
            written += _draw(results, out)
    except OSError as error:
        raise DataError(
            f"{out} cannot be written: {error}; choose another folder with --out."
        ) from None
    print_out()
    print_out("written: " + ", ".join(str(path) for path in written))
    return 0


def _draw(results: Sequence[L2Result], out: Path) -> list[Path]:
    from clframe.metrics.l2.plots import draw_all

    if len(results) == 1:
        return draw_all(results[0], out)
    written = []
    for number, result in enumerate(results):
        folder = out / f"lifetime{number}"
        folder.mkdir(exist_ok=True)
        written += draw_all(result, folder)
    return written


def _show(result: L2Result) -> None:
    from clframe.metrics.l2.tables import lifetime_table, task_table

    head = (
        f"{result.name}: {result.num_lx} learning and {result.num_ex} evaluation experiences, "
        f"measure {result.measure}, profile {result.profile}"
    )
    print_lines([*wrap(head, 2, ""), ""])
    print_lines(task_table(result) + "\n\n" + lifetime_table(result))
    if result.notes:
        print_out()
        print_lines([line for text in result.notes for line in wrap(f"note: {text}", 6, "")])


def _show_several(several: LifetimesResult) -> None:
    from clframe.metrics.l2.tables import summary_table

    for result in several.lifetimes:
        _show(result)
        print_out()
    print_lines(f"{len(several.lifetimes)} lifetimes\n\n{summary_table(several)}")


def _default_folder(logs: Sequence[str]) -> Path:
    first = Path(logs[0])
    if len(logs) > 1:
        return Path("l2metrics")
    return (first if first.is_dir() else first.parent) / "l2metrics"


def _logs(paths: Sequence[str]) -> list[str]:
    """Replace folders that hold several logs by these logs."""
    from clframe.metrics.l2.log_rows import LOGGER_FILE

    logs: list[str] = []
    for text in paths:
        path = Path(text)
        inner = sorted(path.rglob(LOGGER_FILE)) if path.is_dir() else []
        if path.is_dir() and not inner:
            raise DataError(f"{path} holds no l2logger folder (none has a {LOGGER_FILE}).")
        logs += [str(info.parent) for info in inner] or [text]
    return logs


def _refuse_missing_experts(
    results: Sequence[L2Result], experts: Sequence[str], partial: bool
) -> None:
    if not experts or partial:
        return
    for result in results:
        for row in result.regimes:
            task = row["task_name"]
            if row["block_type"] == "train" and task not in result.expert_curves:
                raise DataError(
                    f"{result.name}: the task {task}, learned in block {row['block_num']}, has no "
                    "single-task expert among the logs of --ste; add one, or pass "
                    "--partial-ste to leave it out of RP and SE."
                )


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if options.settings:
        settings = _json_file(options.settings)
        settings.pop("log_dir", None)  # The reference program's settings files name their log.
    for text in options.set:
        name, sign, value = text.partition("=")
        if not sign:
            raise SettingError(f"--set {text!r} must have the form NAME=VALUE.")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    if options.data_range:
        settings["data_range"] = _json_file(options.data_range)
    return settings


def _json_file(path: str) -> dict[str, Any]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SettingError(f"{path} is not a readable JSON file: {error}.") from None
    if not isinstance(content, dict):
        raise SettingError(f"{path} must hold a JSON object.")
    return content
