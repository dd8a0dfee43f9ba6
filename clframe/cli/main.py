"""The command line. Every mistake a user can make is one sentence and exit code 2.

Nothing heavy is imported before a command is known, so ``clframe --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

HELP = """\
clframe: continual learning as a composition of plugins

  clframe fit [key=value ...]     learn a stream and fill the matrix
                                  clframe fit strategy=ewc stream=split_mnist scenario=task seed=1
                                  clframe fit strategy=[ewc,replay]      two strategies at once
                                  clframe fit -m strategy=ewc,si seed=range(0,5)         a sweep
                                  clframe fit resume=RUN                      continue a run
  clframe eval RUN                measure a run's final model on every task again
  clframe report RUN...           write report.html
  clframe compare RUN...          table over strategies and seeds, with significance
  clframe list [KIND]             streams, strategies, plugins, models, metrics, loggers,
                                  optimizers, schedulers
  clframe new plugin NAME         write a plugin file with its test
  clframe l2 LOG_DIR              lifelong-learning metrics of a log
  clframe ste [key=value ...]     train a single-task expert for each task, for l2's --ste
  clframe tasks ...               generate, check or show BDDL task files
  clframe data check NAME DIR     what a data folder holds and what is missing
  clframe demos make|check|play   demonstrations of robot tasks
  clframe rollout RUN             run episodes of a run's final policy, and record them
  clframe doctor                  what this machine has and what is missing

CLFRAME_DEBUG=1 shows the traceback of an error. Documentation: docs/ in the source tree.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(HELP)
        return 0
    if words[0] in ("-V", "--version"):
        from clframe.utils.version import __version__

        sys.stdout.write(f"clframe {__version__}\n")
        return 0
    command, rest = words[0], words[1:]
    if command not in COMMANDS:
        from clframe.errors import nearest

        sys.stderr.write(f"clframe: unknown command '{command}'; {nearest(command, COMMANDS)}\n")
        return 2
    if rest and rest[0] in ("-h", "--help") and command not in ("l2", "tasks", "report", "compare"):
        sys.stdout.write(HELP)
        return 0
    return guarded(COMMANDS[command], rest)


def guarded(command: Callable[[Sequence[str]], int], words: Sequence[str]) -> int:
    """Run a command, turning errors a user can cause into one sentence."""
    from clframe.errors import ClframeError

    try:
        return command(words)
    except ClframeError as error:
        if os.environ.get("CLFRAME_DEBUG"):
            raise
        from clframe.distributed.launch import is_silent, name_of_process

        if not is_silent():
            sentence = " ".join(str(error).split())
            sys.stderr.write(f"clframe: {name_of_process()}{sentence}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("clframe: stopped; a run continues from its folder with resume=RUN\n")
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as in `clframe list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _fit(words: Sequence[str]) -> int:
    from clframe.cli.fit import main as command

    return command(words)


def _eval(words: Sequence[str]) -> int:
    from clframe.cli.eval import main as command

    return command(words)


def _list(words: Sequence[str]) -> int:
    from clframe.cli.list import main as command

    return command(words)


def _new(words: Sequence[str]) -> int:
    from clframe.cli.new import main as command

    return command(words)


def _doctor(words: Sequence[str]) -> int:
    from clframe.cli.doctor import main as command

    return command(words)


def _report(words: Sequence[str]) -> int:
    from clframe.cli.report import report_main

    return report_main(words)


def _compare(words: Sequence[str]) -> int:
    from clframe.cli.report import compare_main

    return compare_main(words)


def _l2(words: Sequence[str]) -> int:
    from clframe.cli.l2 import main as command

    return command(words)


def _ste(words: Sequence[str]) -> int:
    from clframe.cli.ste import main as command

    return command(words)


def _tasks(words: Sequence[str]) -> int:
    from clframe.cli.tasks import main as command

    return command(words)


def _data(words: Sequence[str]) -> int:
    from clframe.cli.data import main as command

    return command(words)


def _demos(words: Sequence[str]) -> int:
    from clframe.cli.demos import main as command

    return command(words)


def _rollout(words: Sequence[str]) -> int:
    from clframe.cli.rollout import main as command

    return command(words)


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "fit": _fit,
    "eval": _eval,
    "report": _report,
    "compare": _compare,
    "list": _list,
    "new": _new,
    "l2": _l2,
    "ste": _ste,
    "tasks": _tasks,
    "data": _data,
    "demos": _demos,
    "rollout": _rollout,
    "doctor": _doctor,
}

if __name__ == "__main__":
    sys.exit(main())
