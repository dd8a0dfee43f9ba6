"""``clframe trace``: show the hook calls of a run as a table, with each plugin's answers."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.cli.parser import Parser
from clframe.config.compose import compose
from clframe.errors import SettingError
from clframe.utils.console import print_lines, print_out

if TYPE_CHECKING:
    from clframe.core.trace import Call

_ANSWERS = 3
"""Maximum number of answers shown of one plugin."""


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "trace",
        "Show the hook calls of a run's first experience: which plugin answered what, and how\n"
        "long it took. Takes the settings of clframe fit; writes a run folder only with run_dir.",
        [
            ("clframe trace strategy=ewc+replay max_epochs=1", "the first experience"),
            ("clframe trace plugin_path=my_method.py strategy=my_method", "a plugin of your own"),
            ("clframe trace strategy=er --all --json", "the whole stream, as JSON"),
        ],
    )
    parser.add_settings("settings of the run, as for clframe fit")
    parser.add_argument("--all", action="store_true", help="all experiences of the stream")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_config_dir()
    return parser


@dataclasses.dataclass
class Row:
    """The calls of one plugin's hook, added up.

    Args:
        hook: Its name.
        within: The hooks during which it was called.
        plugin: The called plugin; empty if none answered.
        calls: Number of calls.
        total: Milliseconds of all calls.
        answers: Different answers, in order of appearance.
    """

    hook: str
    within: tuple[str, ...]
    plugin: str
    calls: int = 0
    total: float = 0.0
    answers: list[str] = dataclasses.field(default_factory=list)

    def add(self, milliseconds: float, answer: str) -> None:
        """Count one call."""
        self.calls += 1
        self.total += milliseconds
        if answer not in self.answers and len(self.answers) <= _ANSWERS:
            self.answers.append(answer)

    def to_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        return {
            "hook": self.hook,
            "within": list(self.within),
            "plugin": self.plugin or None,
            "calls": self.calls,
            "mean_ms": round(self.total / self.calls, 4),
            "total_ms": round(self.total, 4),
            "answers": self.answers[:_ANSWERS],
        }


class Table:
    """The sum of all calls, in the order in which hooks were first called."""

    def __init__(self) -> None:
        self._rows: dict[tuple[tuple[str, ...], str], Row] = {}
        self._order: dict[tuple[str, ...], None] = {}

    def __call__(self, call: Call) -> None:
        """Add one call; calls within it come before it."""
        path = (*call.within, call.hook)
        for depth in range(1, len(path) + 1):
            self._order.setdefault(path[:depth])
        if not call.asked:
            return
        nobody = [("", call.milliseconds, "nobody answered")]
        answers: Sequence[tuple[str, float, str]] = call.answers or nobody
        for plugin, took, answer in answers:
            row = self._rows.setdefault((path, plugin), Row(call.hook, call.within, plugin))
            row.add(took, answer)

    @property
    def rows(self) -> list[Row]:
        """All rows, grouped by hook."""
        first = {path: number for number, path in enumerate(self._order)}

        def place(row: Row) -> list[int]:
            path = (*row.within, row.hook)
            return [first[path[: depth + 1]] for depth in range(len(path))]

        return sorted(self._rows.values(), key=place)

    def text(self, width: int = 80) -> str:
        """Return the rows as lines of at most this width."""
        rows = self.rows
        hooks = ["  " * len(row.within) + row.hook for row in rows]
        first = max(map(len, ["hook", *hooks]))
        second = min(20, max([6, *(len(row.plugin) for row in rows)]))
        left = max(12, width - first - second - 27)
        heading = f"{'calls':>5} {'mean ms':>8} {'total ms':>8}  answer"
        lines = [f"{'hook':<{first}} {'plugin':<{second}} {heading}"]
        before = None
        for row, hook in zip(rows, hooks, strict=True):
            path = (*row.within, row.hook)
            shown = hook if path != before else ""
            before = path
            answers = " / ".join(row.answers[:_ANSWERS])
            answers += " / ..." * (len(row.answers) > _ANSWERS)
            numbers = f"{row.calls:>5} {_short(row.total / row.calls):>8} {_short(row.total):>8}"
            lines.append(
                f"{shown:<{first}} {_cut(row.plugin, second):<{second}} {numbers}  "
                f"{_cut(answers, left)}".rstrip()
            )
        return "\n".join(lines)


def _short(milliseconds: float) -> str:
    """Return a time with about three digits.

    >>> [_short(value) for value in (0.01234, 1.5, 1234.5)]
    ['0.01', '1.50', '1234']
    """
    return f"{milliseconds:.2f}" if milliseconds < 1000 else f"{milliseconds:.0f}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def main(argv: Sequence[str]) -> int:
    """Run one experience, or all, and print the calls."""
    arguments = parser().parse(argv)
    folders = [f"config_dir='{Path(folder).resolve()}'" for folder in arguments.config_dir]
    argv = [*arguments.settings, *folders]
    for argument in argv:
        if argument.startswith(("seeds=", "resume=", "sweep.", "sweep_dir=")):
            raise SettingError(f"clframe trace: traces one new run: leave '{argument}' out")

    config = compose(argv).replace(progress=False)
    from clframe.build import build
    from clframe.core.trace import Trace
    from clframe.run import run

    if not any(argument.startswith("run_dir=") for argument in argv):
        config = config.replace(run_dir=False)
    if not any(argument.startswith("logger") for argument in argv):
        config = config.replace(logger=None)
    if (config.trainer or {}).get("devices", 1) not in (1, "auto"):
        raise SettingError("clframe trace: traces one process: leave trainer.devices out")
    built = build(config)
    table = Table()
    Trace(built.learner.plugins.manager, table)
    stream = built.stream
    if not arguments.all:
        stream = dataclasses.replace(stream, experiences=stream.experiences[:1])
    result = run(built.learner, stream, built.strategy, built.folder)
    learned = f"{len(stream)} of {len(built.stream)} experiences"
    if arguments.json:
        content = {
            "strategy": result.strategy,
            "stream": result.stream,
            "experiences": len(stream),
            "calls": [row.to_json() for row in table.rows],
        }
        print_lines(json.dumps(content, indent=1))
        return 0
    print_out(f"{result.strategy} on {result.stream}, {learned}; indented: called within")
    print_out()
    terminal = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
    print_lines(table.text(max(80, terminal)))
    if result.run_dir is not None:
        print_out()
        print_out(f"run folder: {result.run_dir}")
    return 0
