"""``clframe check``: check the contract of a plugin, stream, model or metric.

The checks run in their own process (:mod:`clframe.cli._check_worker`), because the checked code may
print, loop for ever or exit. It sends a line of JSON for each item.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clframe.cli.parser import Parser, whole
from clframe.errors import PluginError
from clframe.utils.console import colored, print_lines, print_out

OK, FAILED, NOT_CHECKED = "ok", "FAILED", "not checked"
CHILD = ("-m", "clframe.cli._check_worker")
"""The command of the process that runs the checks."""
ESSENTIAL = ("learns", "contract")
"""Without these items the others cannot be checked."""
_COLORS = {OK: 32, FAILED: 31, NOT_CHECKED: 33}


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "check",
        "Check that a plugin, stream, model or metric keeps its contract: hooks, settings, saved\n"
        "state, determinism, kill and resume, two processes, batched seeds, cost, composition.\n"
        "The exit code is 0 if it does, 1 if it does not, and 2 if it cannot be checked.",
        [
            ("clframe check my_method.py", "everything that the file defines"),
            ("clframe check ewc", "an installed plugin, stream, model or metric by its name"),
            ("clframe check my_method.py --name my_method --json", "one of several, as JSON"),
        ],
    )
    add = parser.add_argument
    add("what", metavar="FILE or NAME", help="a file with plugins, or a name of clframe list")
    add("--name", metavar="NAME", help="only this one of those that the file defines")
    add("--timeout", type=whole(1), default=300, metavar="SECONDS", help="for each item; 300")
    add("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: Sequence[str]) -> int:
    """Check, print a line for each item, and return the verdict as exit code."""
    arguments = parser().parse(argv)
    target = arguments.what
    is_file = target.endswith(".py") or Path(target).exists()
    if is_file and not Path(target).is_file():
        raise PluginError(f"there is no file '{target}'")
    files = [target] if is_file else []
    name = arguments.name or ("" if is_file else target)
    items: list[dict[str, Any]] = []
    shown = ""
    for item in checked(files, name, arguments.timeout):
        if "problem" in item:
            raise PluginError(item["problem"])
        items.append(item)
        if not arguments.json:
            if item["of"] != shown:
                shown = item["of"]
                print_out(shown)
            print_lines(_line(item))
    verdicts = [item["verdict"] for item in items]
    failed, left = verdicts.count(FAILED), verdicts.count(NOT_CHECKED)
    unseen = any(i["item"] in ESSENTIAL and i["verdict"] == NOT_CHECKED for i in items)
    code = 1 if failed else 2 if unseen else 0
    if arguments.json:
        print_lines(json.dumps({"kept": code == 0, "items": items}, indent=1))
    else:
        print_out(_verdict(len(items), failed, left, unseen))
    return code


def _verdict(total: int, failed: int, left: int, unseen: bool) -> str:
    rest = f", {left} not checked" if left else ""
    if failed:
        return f"{failed} of {total} items failed{rest}"
    if unseen:
        return "cannot be checked here: no run finished"
    return f"keeps the contract: {total - left} of {total} items ok{rest}"


def _line(item: dict[str, Any]) -> str:
    """Return the text of an item, in as many lines as it needs."""
    verdict = f"{item['verdict']:<12}"
    if colored(sys.stdout):
        verdict = f"\033[{_COLORS[item['verdict']]}m{verdict}\033[0m"
    width = max(60, shutil.get_terminal_size((80, 24)).columns)
    lines = textwrap.wrap(item["words"], width - 31) or [""]
    first = f"  {item['item']:<16} {verdict}{lines[0]}".rstrip()
    return "\n".join([first, *(" " * 31 + line for line in lines[1:])])


def checked(files: Sequence[str], name: str, timeout: int) -> Iterator[dict[str, Any]]:
    """Yield the results of the checking process as they come.

    Args:
        files: Files to check; empty for installed objects.
        name: Name of one object; empty for everything that the files define.
        timeout: Maximum seconds for an item.
    """
    reading, writing = os.pipe()
    request = [str(writing), json.dumps({"files": list(files), "name": name})]
    child = subprocess.Popen(
        [sys.executable, *CHILD, *request],
        pass_fds=[writing],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None if os.environ.get("CLFRAME_DEBUG") else subprocess.DEVNULL,
        start_new_session=True,  # Processes that it starts end with it.
    )
    os.close(writing)
    current: dict[str, Any] = {}
    waiting: list[dict[str, Any]] = []
    try:
        for message in _messages(reading, timeout):
            if "plan" in message:
                waiting = message["plan"]
            elif "begin" in message:
                current = waiting.pop(0)
            elif "end" in message:
                current = {}
                return
            else:
                current = {}
                yield message
        ended = child.poll() is not None or _ends(child)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, 9)
        child.wait()
    reason = (
        f"ended the process (code {child.returncode}): a plugin must not exit by itself"
        if ended
        else f"did not end within {timeout} seconds: look for an endless loop, or raise --timeout"
    )
    if not waiting and not current:
        yield {"problem": f"'{name or files[0]}' {reason}"}
        return
    if current:
        yield {**current, "verdict": FAILED, "words": reason}
    for item in waiting:
        yield {
            **item,
            "verdict": NOT_CHECKED,
            "words": "the check before it did not finish",
        }


def _ends(child: subprocess.Popen[bytes]) -> bool:
    """Return whether a process that has closed its output is about to end."""
    try:
        child.wait(2)
    except subprocess.TimeoutExpired:
        return False
    return True


def _messages(reading: int, timeout: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of JSON until there are no more, or none has come for too long."""
    selector = selectors.DefaultSelector()
    selector.register(reading, selectors.EVENT_READ)
    text = b""
    until = time.monotonic() + max(timeout, 60)  # The first one waits for all imports.
    while selector.select(max(0.0, until - time.monotonic())):
        received = os.read(reading, 65536)
        if not received:
            return
        *lines, text = (text + received).split(b"\n")
        for line in lines:
            yield json.loads(line)
        until = time.monotonic() + timeout
