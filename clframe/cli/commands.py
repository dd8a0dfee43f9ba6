"""The commands: names, one-line summaries and modules. Nothing heavy is imported.

A built-in command is a module of this folder with ``parser()`` and ``main(argv)``. An installed
package adds one with an entry point in the group ``clframe.commands``, which names a module with
``main(argv)`` or a function that takes the arguments; its return value is the exit code.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clframe.cli.parser import Parser
from clframe.errors import PluginError
from clframe.utils.console import wrap

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "clframe.commands"


@dataclass(frozen=True)
class Command:
    """A command.

    Args:
        name: The name after ``clframe``.
        arguments: The arguments after the name, for the overview.
        summary: One line.
        point: The entry point, if an installed package provides it.
    """

    name: str
    arguments: str = ""
    summary: str = ""
    point: EntryPoint | None = None

    @property
    def origin(self) -> str:
        """The package that provides the command."""
        if self.point is None:
            return "clframe"
        return self.point.dist.name if self.point.dist is not None else self.point.value

    def load(self) -> Callable[[Sequence[str]], int | None]:
        """Return the function that runs it.

        Raises:
            PluginError: The command of an installed package cannot be loaded.
        """
        if self.point is None:
            main: Callable[[Sequence[str]], int] = self._module().main
            return main
        try:
            value = self.point.load()
        except Exception as error:
            raise PluginError(
                f"command '{self.name}' of {self.origin} ({self.point.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
        value = getattr(value, "main", value)
        if not callable(value):
            raise PluginError(
                f"command '{self.name}' of {self.origin} ({self.point.value}) is neither a "
                "function nor a module with a function 'main'"
            )
        loaded: Callable[[Sequence[str]], int | None] = value
        return loaded

    def parser(self) -> Parser | None:
        """Its parser; None for the command of a package, which parses its own arguments."""
        if self.point is not None:
            return None
        parser: Parser = self._module().parser()
        return parser

    def _module(self) -> Any:
        return importlib.import_module(f"clframe.cli.{self.name}")


BUILT_IN = (
    Command("fit", "KEY=VALUE...", "learn a stream and fill the matrix; -m for a sweep"),
    Command("eval", "RUN", "measure a run's final model on every task again"),
    Command("watch", "RUN", "follow a run in the terminal or, with --web, on a page"),
    Command("report", "RUN...", "write report.html"),
    Command("compare", "RUN...", "compare strategies over seeds, with significance"),
    Command("verify", "RUN", "retrain one experience of a run and compare every bit"),
    Command("fork", "RUN --at EXPERIENCE", "start a new run from the end of an experience"),
    Command("bundle", "RUN", "pack a run into one file that anyone can verify"),
    Command("trust", "RUN", "confirm the code that comes with somebody else's run"),
    Command("wandb", "RUN...", "send finished runs to Weights & Biases"),
    Command("list", "KIND or NAME", "list registered names, or describe one and its settings"),
    Command("new", "KIND NAME", "write a plugin, stream, model, metric or package with its test"),
    Command("check", "FILE or NAME", "check the contract of a plugin, one line per item"),
    Command("trace", "KEY=VALUE...", "show the hook calls of one experience, with times"),
    Command("l2", "LOG_DIR...", "compute lifelong-learning metrics of a log"),
    Command("ste", "KEY=VALUE...", "train a single-task expert for each task, for l2 --ste"),
    Command("tasks", "ACTION ...", "generate, check or show BDDL task files"),
    Command("data", "check NAME DIR", "show what a data folder holds and what is missing"),
    Command("demos", "ACTION ...", "make, check or play demonstrations of robot tasks"),
    Command("rollout", "RUN", "run episodes of a run's final policy, and record them"),
    Command("doctor", "", "show what this machine has and what is missing"),
    Command("completion", "SHELL", "print a script for completion with the Tab key"),
)
NAMES = frozenset(command.name for command in BUILT_IN)


def installed() -> Iterator[Command]:
    """Yield the commands of installed packages, by name."""
    from clframe.utils import entry_points  # Importing Python's own module takes a while.

    for point in entry_points.entry_points_of(ENTRY_POINT_GROUP):
        summary = "" if point.dist is None else point.dist.metadata["Summary"]
        yield Command(point.name, "...", summary or "", point)


def known() -> dict[str, Command]:
    """Return all commands by name; a package cannot replace a built-in command."""
    commands = {command.name: command for command in BUILT_IN}
    for command in installed():
        commands.setdefault(command.name, command)
    return commands


def checked() -> Iterator[tuple[bool, str]]:
    """Yield whether each command of an installed package works, and a line about it."""
    taken = {command.name: command for command in BUILT_IN}
    for command in installed():
        if command.name in taken:
            other = taken[command.name].origin
            yield (
                False,
                f"command '{command.name}' of {command.origin} is ignored: {other} has one of "
                "that name",
            )
            continue
        taken[command.name] = command
        try:
            command.load()
            yield True, f"command '{command.name}' of {command.origin}"
        except PluginError as error:
            yield False, str(error)


def overview() -> str:
    """Return the help of ``clframe`` alone."""
    lines = ["clframe: continual learning as a composition of plugins", ""]
    lines += [line for command in BUILT_IN for line in _lines(command)]
    others = [command for command in known().values() if command.point is not None]
    if others:
        lines += ["", "of installed packages:", ""]
        lines += [line for other in others for line in _lines(other, f" [{other.origin}]")]
    lines += [
        "",
        "  clframe fit strategy=ewc stream=split_mnist scenario=task seed=1",
        "  clframe fit strategy=ewc+replay",
        "  clframe fit -m strategy=ewc,si seed=0..4",
        "  clframe fit resume=RUN",
        "",
        *wrap("clframe COMMAND --help explains a command; clframe list NAME explains a name."),
        "CLFRAME_DEBUG=1 shows the traceback of an error.",
    ]
    return "\n".join(lines) + "\n"


def _lines(command: Command, origin: str = "") -> list[str]:
    start = f"  {f'clframe {command.name} {command.arguments}':<29} "
    text = f"{command.summary}{origin}".strip()
    return wrap(text, 32, start) or [start.rstrip()]
