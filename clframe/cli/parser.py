"""One parser for all commands: argparse, with sentences of ours and a help that can be pasted.

The same form throughout: paths and names stand alone, options are ``--name VALUE``, and settings of
a run are ``key=value``. A command that takes ``key=value`` takes its options in that form, too:
``clframe ste out=DIR`` is ``clframe ste --out DIR``.
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
    """The arguments of one command.

    Args:
        command: What follows ``clframe`` on the command line.
        description: What the command does.
        examples: Command lines that work when pasted into a shell, each with what it does.
        key_value: Whether ``key=value`` stands for ``--key value`` where there is such an option.
        more: Further text of the help, made when it is asked for.
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
        """A command below this one; the parsed arguments have its name as ``subcommand``."""
        parser = Parser(f"{self.command} {name}", description, examples, key_value)
        self.subcommands[name] = parser
        return parser

    def add_settings(self, text: str) -> None:
        """Take settings of a run, ``key=value``, as ``settings``."""
        self.add_argument("settings", nargs="*", metavar="KEY=VALUE", help=text)

    def add_plugin_path(self) -> None:
        """Take ``plugin_path=FILE`` as ``plugin_path``, a list or None."""
        self.key_value = True
        self.add_argument(
            "--plugin-path",
            action="append",
            metavar="FILE",
            help="a file of yours to load instead of the run's own plugin files; plugin_path=FILE "
            "is the same",
        )

    def add_config_dir(self) -> None:
        """Take folders with configs of the user's own as ``config_dir``."""
        self.add_argument(
            "--config-dir",
            action="append",
            default=[],
            metavar="DIR",
            help="a folder with configs of your own; also $CLFRAME_CONFIG",
        )

    @property
    def options(self) -> dict[str, argparse.Action]:
        """The options by their names."""
        return {name: action for action in self._actions for name in action.option_strings}

    @property
    def positionals(self) -> list[argparse.Action]:
        """What stands alone."""
        return [action for action in self._actions if not action.option_strings]

    # ------------------------------------------------------------ reading

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The arguments in the words.

        Raises:
            SettingError: They cannot be read.
            SystemExit: The help was asked for and printed.
        """
        if self.subcommands:
            return self._parse_subcommand(words)
        words = self._as_options(words) if self.key_value else list(words)
        # Options may stand between settings, which argparse allows only here.
        takes_settings = any(action.dest == "settings" for action in self.positionals)
        read = self.parse_known_intermixed_args if takes_settings else self.parse_known_args
        arguments, unknown = read(words)
        if unknown:
            word = unknown[0]
            if word.startswith("-"):
                self.error(f"unknown option '{word}'; {nearest(word, self.options)}")
            self.error(f"unexpected '{word}'")
        return arguments

    def _parse_subcommand(self, words: Sequence[str]) -> argparse.Namespace:
        if words and words[0] in ("-h", "--help"):
            self.print_help()
            self.exit()
        if not words:
            self.error(f"needs one of {', '.join(self.subcommands)}")
        name, *rest = words
        if name not in self.subcommands:
            self.error(f"unknown '{name}'; {nearest(name, self.subcommands)}")
        arguments = self.subcommands[name].parse(rest)
        arguments.subcommand = name
        return arguments

    def _as_options(self, words: Sequence[str]) -> list[str]:
        """The words, with the command's own ``key=value`` as options."""
        changed: list[str] = []
        for word in words:
            key, equals, value = word.partition("=")
            action = self.options.get(f"--{key.replace('_', '-')}") if equals else None
            if action is None or key.startswith("-"):
                changed.append(word)
            elif action.nargs == 0:  # a switch
                if value not in _TRUTH:
                    self.error(f"{key} must be true or false, got '{value}'")
                changed += [action.option_strings[-1]] * _TRUTH[value]
            else:
                changed.append(f"{action.option_strings[-1]}={value}")
        return changed

    def error(self, message: str) -> NoReturn:
        """Refuse the words in one sentence."""
        raise SettingError(f"{self.prog}: {message}; '{self.prog} --help' shows what it takes")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action, f"invalid choice '{value}'; {nearest(str(value), names)}"
            )

    # ------------------------------------------------------------ the help

    def format_help(self) -> str:
        """Description, arguments and examples."""
        self.formatter_class = functools.partial(
            argparse.RawDescriptionHelpFormatter, width=columns()
        )
        given = self.description or ""
        self.description = "\n".join(wrap(" ".join(given.split())))
        try:
            text = self._format_subcommands() if self.subcommands else super().format_help()
        finally:
            self.description = given
        parts = [text.rstrip()]
        if self.more is not None:
            parts.append(self.more().rstrip())
        examples = [*self.examples]
        for parser in self.subcommands.values():
            examples += parser.examples
        if examples:
            lines = ["\n".join([f"  {line}", *wrap(text, 6)]) for line, text in examples]
            parts.append("\n".join(["examples:", *lines]))
        return "\n\n".join(parts) + "\n"

    def _format_subcommands(self) -> str:
        lines = [f"usage: {self.prog} {'|'.join(self.subcommands)} ...", "", self.description or ""]
        lines.append("")
        for parser in self.subcommands.values():
            usage = " ".join(parser.format_usage().split()).removeprefix("usage: ")
            lines += wrap(usage.replace("[-h] ", ""), 6, "  ")
            lines += wrap(parser.description or "", 6)
        return "\n".join(lines)


def whole(least: int = 0) -> Callable[[str], int]:
    """A whole number from ``least`` up, for ``type=``.

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
    """A value that is not empty, for ``type=``."""
    if not text:
        raise argparse.ArgumentTypeError("needs a value")
    return text
