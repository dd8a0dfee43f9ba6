"""``clframe completion SHELL``: a script for the Tab key, and what it asks clframe.

The scripts call the hidden ``clframe __complete SHELL WORDS...`` with the words up to the cursor,
the last of them unfinished; it answers with one candidate a line. It only reads the catalog's file
and never imports torch, so it answers at once; names are known as soon as a command has asked the
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

# Bash breaks words at "=", and replaces only what follows; the line is sent whole.
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
    """The arguments of the command."""
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


def main(words: Sequence[str]) -> int:
    """Print the script."""
    sys.stdout.write(SCRIPTS[parser().parse(words).shell])
    return 0


def answer(words: Sequence[str]) -> int:
    """Print the candidates for the last word.

    Args:
        words: The shell's name, and the words after ``clframe``; of bash, the whole line.
    """
    shell, *rest = words or [""]
    in_quotes = False
    if shell == "bash":
        rest, in_quotes = _split(rest[0] if rest else "")
    *before, current = rest or [""]
    # A mistake in an unfinished line is no news.
    with contextlib.suppress(Exception):
        for candidate in sorted(set(candidates(before, current))):
            if shell == "bash" and "=" in current and not in_quotes:
                candidate = candidate[current.rindex("=") + 1 :]
            if candidate == printable(candidate):
                sys.stdout.write(f"{candidate}\n")
    return 0


def _split(line: str) -> tuple[list[str], bool]:
    """The words of a line after the command itself, and whether the last one is in quotes."""
    for quote in ("", "'", '"'):
        with contextlib.suppress(ValueError):  # a quote is still open
            words = shlex.split(line + quote)
            if not quote and line[-1:].isspace():
                words.append("")
            return words[1:], bool(quote)
    return [], False


def candidates(before: Sequence[str], current: str) -> Iterator[str]:
    """What the current word may become.

    Args:
        before: The finished words after ``clframe``.
        current: The unfinished one.
    """
    if not before:
        yield from _starting(current, [*commands.known(), "--help", "--version"])
        return
    command = commands.known().get(before[0])
    parser = command.parser() if command is not None else None
    if parser is None:
        return
    words = list(before[1:])
    if parser.subcommands:
        if not words:
            yield from _starting(current, [*parser.subcommands, "--help"])
            return
        parser = parser.subcommands.get(words.pop(0))
        if parser is None:
            return
    option = parser.options.get(words[-1]) if words else None
    if option is not None and option.nargs != 0:
        yield from _values(option, current)
        return
    if current.startswith("-"):
        yield from _starting(current, parser.options)
        return
    for action in parser.positionals:
        if action.dest == _TAKES_SETTINGS:
            yield from _settings(before[0], words, current)
        else:
            yield from _values(action, current)
    if not current:
        yield from _starting(current, (name for name in parser.options if name.startswith("--")))


def _values(action: argparse.Action, current: str) -> Iterator[str]:
    """The values of an option, or of what stands alone."""
    if action.choices is not None:
        yield from _starting(current, map(str, action.choices))
    elif action.dest == "what":  # of clframe list
        known = name_catalog.cached(outdated=True)
        if known is not None:
            yield from _starting(current, [*kinds_by_plural(known), *all_names(known)])
    elif action.metavar in ("RUN", "DIR", "LOG_DIR") or action.dest in ("run", "runs"):
        yield from _paths(current, folders_only=True)
    elif action.metavar == "FILE":
        yield from _paths(current)


def _settings(command: str, words: Sequence[str], current: str) -> Iterator[str]:
    """Keys, and after ``key=`` what can follow."""
    known = name_catalog.cached(outdated=True)
    key, equals, value = current.partition("=")
    if equals:
        if key in ("resume", "pretrain", "run_dir", "data_dir", "sweep_dir"):
            yield from (f"{key}={path}" for path in _paths(value, folders_only=True))
        elif key == "plugin_path":
            yield from (f"{key}={path}" for path in _paths(value, suffix=".py"))
        elif known is not None:
            cut = max(value.rfind(sign) for sign in ",+[") + 1
            start, last = value[:cut], value[cut:]
            yield from (f"{key}={start}{v}" for v in _starting(last, _choices(known, key, words)))
        return
    keys: list[str] = []
    if known is not None:
        keys += [*known.groups, *ROOT_KEYS]
        for place, names in chosen_settings(known, words).items():
            keys += [f"{place}.{name}" for name in names]
            keys += names if current else []
    if command == "fit":
        keys += [word for word in KEYS_OF_FIT if word not in ("sweep", "resume_allow")]
    bare = [name for name in keys if "." not in name or "." in current]
    groups = {f"{name.rpartition('.')[0]}." for name in keys if "." in name}
    yield from (f"{name}=" for name in _starting(current, bare))
    if current and "." not in current:
        yield from _starting(current, groups)


def _choices(known: Catalog, key: str, words: Sequence[str]) -> Iterable[str]:
    """The values of a key."""
    if key in known.groups:
        return known.groups[key]
    if key == "scenario":
        return ("task", "domain", "class")
    if key == "download":
        return ("true", "false")
    if key == "active_outputs":
        return ("seen", "all")
    place, _, name = key.rpartition(".")
    found: list[str] = []
    for where, names in chosen_settings(known, words).items():
        if name in names and place in ("", where):
            found += _choices_of(known, where, name)
    return found


def _choices_of(known: Catalog, where: str, name: str) -> list[str]:
    """The values of a setting of what stands at a place such as ``stream`` or ``strategy.ewc``."""
    group, _, part = where.partition(".")
    items = known.items.get("plugin" if group == "strategy" else group, {})
    for item in [items[part]] if part else items.values():
        if name in item.settings and item.settings[name].choices:
            return item.settings[name].choices
    return []


def _starting(start: str, names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.startswith(start))


def _paths(start: str, folders_only: bool = False, suffix: str = "") -> Iterator[str]:
    """Folders and files that begin like this; a run folder is finished, others go on."""
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
