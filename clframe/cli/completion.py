"""``clframe completion SHELL``: a script for the Tab key, and its requests to clframe.

The scripts call the hidden ``clframe __complete SHELL WORDS...`` with the words up to the cursor,
the last of them unfinished; it prints one candidate per line. It only reads the catalog's file and
never imports torch, so it answers at once. It knows names as soon as any command has read the
registry.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence

from clframe.cli import commands
from clframe.cli.parser import Parser
from clframe.config import name_catalog
from clframe.config.chosen_settings import chosen_settings
from clframe.config.groups import KEYS_OF_FIT, ROOT_KEYS
from clframe.config.name_catalog import Catalog
from clframe.config.name_lists import all_names, kinds_by_plural
from clframe.utils.console import printable

# Bash splits words at "=" and replaces only the rest, so the whole line is sent.
_BASH = """\
_clframe() {
    local IFS=$'\\n'
    COMPREPLY=($(clframe __complete bash "${COMP_LINE:0:$COMP_POINT}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/.] ]]; then
        compopt -o nospace
    fi
}
complete -F _clframe clframe
"""
_ZSH = """\
#compdef clframe
_clframe() {
    local -a candidates open closed
    candidates=("${(@f)$(clframe __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    open=("${(@M)candidates:#*[=/.]}")
    closed=("${(@)candidates:#*[=/.]}")
    [[ -n ${open[*]} ]] && compadd -Q -S '' -- "${open[@]}"
    [[ -n ${closed[*]} ]] && compadd -Q -- "${closed[@]}"
}
if [[ ${funcstack[1]} == _clframe ]]; then
    _clframe "$@"
else
    compdef _clframe clframe
fi
"""
_FISH = """\
function __clframe_complete
    set -l words (commandline -opc)
    clframe __complete fish $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c clframe -f -a '(__clframe_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_RUN_FILES = ("config.yaml", "results.json")
_TAKES_SETTINGS = "settings"


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "completion",
        "Print a script that lets the Tab key complete commands, options, names, settings and run\n"
        "folders.",
        [
            ("clframe completion bash >> ~/.bashrc", "for bash"),
            ("clframe completion zsh >> ~/.zshrc", "for zsh, after compinit"),
            ("clframe completion fish > ~/.config/fish/completions/clframe.fish", "for fish"),
        ],
    )
    parser.add_argument("shell", choices=sorted(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")
    return parser


def main(argv: Sequence[str]) -> int:
    """Print the script."""
    sys.stdout.write(SCRIPTS[parser().parse(argv).shell])
    return 0


def answer(argv: Sequence[str]) -> int:
    """Print the candidates for the last word.

    Args:
        argv: The shell's name, and the words after ``clframe``; for bash, the whole line.
    """
    shell, *rest = argv or [""]
    in_quotes = False
    if shell == "bash":
        rest, in_quotes = _split(rest[0] if rest else "")
    *before, current = rest or [""]
    # Errors in an unfinished line are expected.
    with contextlib.suppress(Exception):
        for candidate in sorted(set(candidates(before, current))):
            if shell == "bash" and "=" in current and not in_quotes:
                candidate = candidate[current.rindex("=") + 1 :]
            if candidate == printable(candidate):
                sys.stdout.write(f"{candidate}\n")
    return 0


def _split(line: str) -> tuple[list[str], bool]:
    """Return the words of a line after the command, and whether the last one is in quotes."""
    for quote in ("", "'", '"'):
        with contextlib.suppress(ValueError):  # A quote is still open.
            arguments = shlex.split(line + quote)
            if not quote and line[-1:].isspace():
                arguments.append("")
            return arguments[1:], bool(quote)
    return [], False


def candidates(before: Sequence[str], current: str) -> Iterator[str]:
    """Yield candidates for the current word.

    Args:
        before: The finished words after ``clframe``.
        current: The unfinished word.
    """
    if not before:
        yield from _starting(current, [*commands.known(), "--help", "--version"])
        return
    command = commands.known().get(before[0])
    parser = command.parser() if command is not None else None
    if parser is None:
        return
    arguments = list(before[1:])
    if parser.subcommands:
        if not arguments:
            yield from _starting(current, [*parser.subcommands, "--help"])
            return
        parser = parser.subcommands.get(arguments.pop(0))
        if parser is None:
            return
    option = parser.options.get(arguments[-1]) if arguments else None
    if option is not None and option.nargs != 0:
        yield from _values(option, current)
        return
    if current.startswith("-"):
        yield from _starting(current, parser.options)
        return
    for action in parser.positionals:
        if action.dest == _TAKES_SETTINGS:
            yield from _settings(before[0], arguments, current)
        else:
            yield from _values(action, current)
    if not current:
        yield from _starting(current, (name for name in parser.options if name.startswith("--")))


def _values(action: argparse.Action, current: str) -> Iterator[str]:
    """Yield the values of an option or a positional argument."""
    if action.choices is not None:
        yield from _starting(current, map(str, action.choices))
    elif action.dest == "what":  # of clframe list
        catalog = name_catalog.cached(outdated=True)
        if catalog is not None:
            yield from _starting(current, [*kinds_by_plural(catalog), *all_names(catalog)])
    elif action.metavar in ("RUN", "DIR", "LOG_DIR") or action.dest in ("run", "runs"):
        yield from _paths(current, folders_only=True)
    elif action.metavar == "FILE":
        yield from _paths(current)


def _settings(command: str, overrides: Sequence[str], current: str) -> Iterator[str]:
    """Yield keys and, after ``key=``, values."""
    catalog = name_catalog.cached(outdated=True)
    key, equals, value = current.partition("=")
    if equals:
        if key in ("resume", "pretrain", "run_dir", "data_dir", "sweep_dir"):
            yield from (f"{key}={path}" for path in _paths(value, folders_only=True))
        elif key == "plugin_path":
            yield from (f"{key}={path}" for path in _paths(value, suffix=".py"))
        elif catalog is not None:
            cut = max(value.rfind(sign) for sign in ",+[") + 1
            start, last = value[:cut], value[cut:]
            yield from (
                f"{key}={start}{v}" for v in _starting(last, _choices(catalog, key, overrides))
            )
        return
    keys: list[str] = []
    if catalog is not None:
        keys += [*catalog.groups, *ROOT_KEYS]
        for entry, names in chosen_settings(catalog, overrides).items():
            keys += [f"{entry}.{name}" for name in names]
            keys += names if current else []
    if command == "fit":
        keys += [word for word in KEYS_OF_FIT if word not in ("sweep", "resume_allow")]
    bare = [name for name in keys if "." not in name or "." in current]
    groups = {f"{name.rpartition('.')[0]}." for name in keys if "." in name}
    yield from (f"{name}=" for name in _starting(current, bare))
    if current and "." not in current:
        yield from _starting(current, groups)


def _choices(catalog: Catalog, key: str, overrides: Sequence[str]) -> Iterable[str]:
    """Return the values of a key."""
    if key in catalog.groups:
        return catalog.groups[key]
    if key == "scenario":
        return ("task", "domain", "class")
    if key == "download":
        return ("true", "false")
    if key == "active_outputs":
        return ("seen", "all")
    entry, _, name = key.rpartition(".")
    values: list[str] = []
    for where, names in chosen_settings(catalog, overrides).items():
        if name in names and entry in ("", where):
            values += _choices_of(catalog, where, name)
    return values


def _choices_of(catalog: Catalog, where: str, name: str) -> list[str]:
    """Return the values of a setting at a place such as ``stream`` or ``strategy.ewc``."""
    group, _, own_name = where.partition(".")
    items = catalog.items.get("plugin" if group == "strategy" else group, {})
    for item in [items[own_name]] if own_name else items.values():
        if name in item.settings and item.settings[name].choices:
            return item.settings[name].choices
    return []


def _starting(start: str, names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.startswith(start))


def _paths(start: str, folders_only: bool = False, suffix: str = "") -> Iterator[str]:
    """Yield matching folders and files; run folders are complete, other folders continue."""
    folder, _, name = start.rpartition("/")
    written = f"{folder}/" if "/" in start else ""
    place = os.path.expanduser(written) or "."
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if not entry.name.startswith(name) or (entry.name.startswith(".") and not name):
                continue
            path = f"{written}{entry.name}"
            if entry.is_dir():
                is_run = any(os.path.exists(os.path.join(entry.path, f)) for f in _RUN_FILES)
                yield path if is_run else f"{path}/"
            elif not folders_only and entry.name.endswith(suffix):
                yield path
