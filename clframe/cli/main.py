"""The command line. Every user error is one line and exit code 2.

Nothing heavy is imported before the command is known, so ``clframe --help`` answers at once.
"""

from __future__ import annotations

import errno
import importlib
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clframe.cli import commands
from clframe.errors import ClframeError, SettingError, nearest
from clframe.utils.console import drop, print_err, truncate, warn_user
from clframe.utils.files import FULL


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return guarded(run, arguments)


def run(arguments: Sequence[str]) -> int:
    """Find the command and run it.

    Raises:
        ClframeError: Some input cannot be used.
    """
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(commands.overview())
        return 0
    if arguments[0] in ("-V", "--version"):
        from clframe.utils.version import __version__

        sys.stdout.write(f"clframe {__version__}\n")
        return 0
    name, *rest = arguments
    if name == "__complete":
        from clframe.cli.completion import answer

        return answer(rest)
    if not os.environ.get("CLFRAME_DEBUG"):
        warnings.showwarning = _show_warning
    if name in commands.NAMES:  # Without looking at the installed packages.
        return importlib.import_module(f"clframe.cli.{name}").main(rest) or 0
    available = commands.known()
    if name not in available:
        raise SettingError(f"unknown command '{name}'; {nearest(name, available)}")
    return available[name].load()(rest) or 0


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any
) -> None:
    """Print clframe's warnings; those of libraries appear only with CLFRAME_DEBUG."""
    if "clframe" in Path(filename).parts:
        warn_user(str(message))


def guarded(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command, turning user errors into one line."""
    try:
        return command(arguments)
    except ClframeError as error:
        if os.environ.get("CLFRAME_DEBUG"):
            raise
        from clframe.distributed.launch import is_silent, name_of_process

        if not is_silent():
            sentence = " ".join(str(error).split())
            warn_user(f"{name_of_process()}{sentence}")
        return 2
    except SystemExit as leave:  # argparse has printed a help.
        if isinstance(leave.code, str):
            raise
        return int(leave.code or 0)
    except KeyboardInterrupt as stop:
        print_err(f"clframe: stopped{_to_resume(stop)}")
        return 130
    except BrokenPipeError:  # The reader of our output has gone, as in `clframe list | head`.
        drop(sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            name = truncate(str(error.filename), 40)
            warn_user(f"'{name}' is too long for the name of a file or folder; give a shorter one")
            return 2
        if error.errno not in FULL:
            raise
        return _of_full_disk(error)


def _to_resume(stop: BaseException) -> str:
    """Return how to continue the run that was stopped; empty if there was none."""
    folder = getattr(stop, "run_dir", None)
    return (
        "" if folder is None else f"; continue with clframe fit resume={shlex.quote(str(folder))}"
    )


def _of_full_disk(error: OSError) -> int:
    """Report what could not be written, most often the command's own output."""
    if error.filename is None:
        drop(sys.stdout.fileno())  # Python would try to write the rest once more.
    name = "its output" if error.filename is None else f"'{error.filename}'"
    print_err(f"clframe: {name} cannot be written: {error.strerror}; free some space and try again")
    return 2


if __name__ == "__main__":
    sys.exit(main())
