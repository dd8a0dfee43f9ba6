"""One parser for all commands: argparse, with clframe's messages and a help that can be pasted.

All commands have the same form: paths and names are positional, options are ``--name VALUE``, and
settings of a run are ``key=value``. A command that takes ``key=value`` also takes its options in
that form: ``clframe ste out=DIR`` is ``clframe ste --out DIR``.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from clframe.errors import SettingError, nearest
from clframe.utils.console import columns, wrap

_TRUTH = {"true": True, "false": False}


class Parser(argparse.ArgumentParser):
    """The parser of one command.

    Args:
        command: The name after ``clframe`` on the command line.
        description: What the command does.
        examples: Command lines that work when pasted into a shell, each with its explanation.
        key_value: Whether ``key=value`` stands for ``--key value`` if there is such an option.
        more: Further text of the help, made on demand.
    """

    def __init__(
        self,
        command: str,
        description: str,
        examples: Sequence[tuple[str, str]] = (),
        key_value: bool = False,
        more: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(
            prog=f"clframe {command}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.command = command
        self.examples = examples
        self.key_value = key_value
        self.more = more
        self.subcommands: dict[str, Parser] = {}

    def add_subcommand(
        self,
        name: str,
        description: str,
        examples: Sequence[tuple[str, str]] = (),
        key_value: bool = False,
    ) -> Parser:
        """Add a subcommand; the parsed arguments have its name as ``subcommand``."""
        parser = Parser(f"{self.command} {name}", description, examples, key_value)
        self.subcommands[name] = parser
        return parser

    def add_settings(self, text: str) -> None:
        """Accept settings of a run, ``key=value``, as ``settings``."""
        self.add_argument("settings", nargs="*", metavar="KEY=VALUE", help=text)

    def add_plugin_path(self) -> None:
        """Accept ``plugin_path=FILE`` as ``plugin_path``, a list or None."""
        self.key_value = True
        self.add_argument(
            "--plugin-path",
            action="append",
            metavar="FILE",
            help="your own file instead of the run's plugin files; same as plugin_path=FILE",
        )

    def add_config_dir(self) -> None:
        """Accept folders with the user's configs as ``config_dir``."""
        self.add_argument(
            "--config-dir",
            action="append",
            default=[],
            metavar="DIR",
            help="a folder with your own configs; also $CLFRAME_CONFIG",
        )

    @property
    def options(self) -> dict[str, argparse.Action]:
        """The options by their names."""
        return {name: action for action in self._actions for name in action.option_strings}

    @property
    def positionals(self) -> list[argparse.Action]:
        """The positional arguments."""
        return [action for action in self._actions if not action.option_strings]

    # ------------------------------------------------------------ parsing

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse arguments.

        Raises:
            SettingError: They are invalid.
            SystemExit: The help was requested and printed.
        """
        if self.subcommands:
            return self._parse_subcommand(argv)
        argv = self._as_options(argv) if self.key_value else list(argv)
        # Options may come between settings, which argparse allows only here.
        takes_settings = any(action.dest == "settings" for action in self.positionals)
        read = self.parse_known_intermixed_args if takes_settings else self.parse_known_args
        arguments, unknown = read(argv)
        if unknown:
            argument = unknown[0]
            if argument.startswith("-"):
                self.error(f"unknown option '{argument}'; {nearest(argument, self.options)}")
            self.error(f"unexpected '{argument}'")
        return arguments

    def _parse_subcommand(self, argv: Sequence[str]) -> argparse.Namespace:
        if argv and argv[0] in ("-h", "--help"):
            self.print_help()
            self.exit()
        if not argv:
            self.error(f"needs one of {', '.join(self.subcommands)}")
        name, *rest = argv
        if name not in self.subcommands:
            self.error(f"unknown '{name}'; {nearest(name, self.subcommands)}")
        arguments = self.subcommands[name].parse(rest)
        arguments.subcommand = name
        return arguments

    def _as_options(self, argv: Sequence[str]) -> list[str]:
        """Turn the command's own ``key=value`` into options."""
        changed: list[str] = []
        for argument in argv:
            key, equals, value = argument.partition("=")
            action = self.options.get(f"--{key.replace('_', '-')}") if equals else None
            if action is None or key.startswith("-"):
                changed.append(argument)
            elif action.nargs == 0:  # a switch
                if value not in _TRUTH:
                    self.error(f"{key} must be true or false, got '{value}'")
                changed += [action.option_strings[-1]] * _TRUTH[value]
            else:
                changed.append(f"{action.option_strings[-1]}={value}")
        return changed

    def error(self, message: str) -> NoReturn:
        """Raise an error about the arguments."""
        raise SettingError(f"{self.prog}: {message}; '{self.prog} --help' shows what it takes")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action, f"invalid choice '{value}'; {nearest(str(value), names)}"
            )

    # ------------------------------------------------------------ the help

    def format_help(self) -> str:
        """Return description, arguments and examples."""
        self.formatter_class = functools.partial(
            argparse.RawDescriptionHelpFormatter, width=columns()
        )
        description = self.description or ""
        self.description = "\n".join(wrap(" ".join(description.split())))
        try:
            text = self._format_subcommands() if self.subcommands else super().format_help()
        finally:
            self.description = description
        sections = [text.rstrip()]
        if self.more is not None:
            sections.append(self.more().rstrip())
        examples = [*self.examples]
        for parser in self.subcommands.values():
            examples += parser.examples
        if examples:
            lines = ["\n".join([f"  {line}", *wrap(text, 6)]) for line, text in examples]
            sections.append("\n".join(["examples:", *lines]))
        return "\n\n".join(sections) + "\n"

    def _format_subcommands(self) -> str:
        lines = [f"usage: {self.prog} {'|'.join(self.subcommands)} ...", "", self.description or ""]
        lines.append("")
        for parser in self.subcommands.values():
            usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
            lines += wrap(usage.replace("[-h] ", ""), 6, "  ")
            lines += wrap(parser.description or "", 6)
        return "\n".join(lines)


def whole(least: int = 0) -> Callable[[str], int]:
    """Return a parser for ``type=`` of whole numbers from ``least`` up.

    >>> whole(1)("3")
    3
    """

    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or len(text) > 18 or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {least} up, got '{text}'"
            )
        return int(text)

    return read


def named(text: str) -> str:
    """Return a value that is not empty, for ``type=``."""
    if not text:
        raise argparse.ArgumentTypeError("needs a value")
    return text
