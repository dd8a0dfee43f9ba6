"""One self-contained HTML page about a run, or about many runs grouped by stream and strategy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clframe.report.comparison_page import comparison_page
from clframe.report.page_blocks import Page
from clframe.report.rendering import render
from clframe.report.run_page import run_page
from clframe.runs.reader import Run


def report_page(
    runs: Sequence[Run],
    notes: Sequence[str] = (),
    by: Sequence[str] = (),
    experts: Sequence[Path] = (),
) -> Page:
    """Return the page about these runs as plain data.

    Args:
        runs: At least one run.
        notes: Sentences to put on top, such as which folders were left out.
        by: Settings that distinguish groups of runs besides the strategy.
        experts: Folders of single-task experts, for the lifetime of a single run.
    """
    if len(runs) == 1:
        return run_page(runs[0], notes, experts)
    return comparison_page(runs, notes, by)


def report_html(
    runs: Sequence[Run],
    notes: Sequence[str] = (),
    by: Sequence[str] = (),
    experts: Sequence[Path] = (),
    templates: Path | None = None,
) -> str:
    """Return the page about these runs as HTML.

    Args:
        runs: At least one run.
        notes: Sentences to put on top, such as which folders were left out.
        by: Settings that distinguish groups of runs besides the strategy.
        experts: Folders of single-task experts, for the lifetime of a single run.
        templates: A folder with edited templates; clframe's own templates replace missing ones.

    Raises:
        SettingError: A template is broken.
    """
    return render(report_page(runs, notes, by, experts), templates)
