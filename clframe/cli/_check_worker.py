"""The process in which ``clframe check`` runs its checks; see :mod:`clframe.cli.check`.

It sends a line of JSON for the plan, and for the beginning and the end of each item.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clframe.cli.check import FAILED, NOT_CHECKED, OK
from clframe.config.setting_docs import meanings
from clframe.core.factory import make_stream
from clframe.core.registry import GIVEN, GIVEN_UNLESS_SET, Entry, Kind, Registry, discover
from clframe.core.stream import Stream
from clframe.errors import ClframeError, DataError, PluginError, nearest
from clframe.testing import contracts, distributed
from clframe.testing.plugins import PluginContract
from clframe.testing.result import Broken, Check, NotChecked, require
from clframe.testing.toy import prepare, run_built
from clframe.utils.processes import USER_MODULE

KINDS: tuple[Kind, ...] = ("plugin", "stream", "model", "metric")
_BESIDE = ("replay", "ewc", "si", "lwf")
"""Plugins that a plugin is composed with."""


class Sender:
    """Writer of JSON lines to the process that started this one.

    Args:
        descriptor: The file descriptor to write to.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __call__(self, **message: Any) -> None:
        """Send one."""
        os.write(self.descriptor, json.dumps(message).encode() + b"\n")


def main(argv: Sequence[str]) -> int:
    """Check the named objects, item by item."""
    send, request = Sender(int(argv[0])), json.loads(argv[1])
    files, name = request["files"], request["name"]
    with tempfile.TemporaryFile() as printed:
        # Printed output is counted, wherever it comes from.
        os.dup2(printed.fileno(), 1)
        try:
            registry = _load(files)
            chosen = find(registry, files, name)
        except Broken as error:
            title, item = f"plugin of {files[0]}", "hooks"
            send(plan=[{"of": title, "item": item}])
            send(of=title, item=item, verdict=FAILED, words=str(error))
            send(end=True)
            return 1
        except ClframeError as error:
            send(problem=str(error))
            return 2
        plan = [
            (f"{entry.kind} {entry.name}", item, check)
            for entry in chosen
            for item, check in checks_of(entry, registry, files).items()
        ]
        output = functools.partial(_output, printed)
        plan.append((plan[-1][0], "output", output))
        send(plan=[{"of": title, "item": item} for title, item, _ in plan])
        for title, item, check in plan:
            send(begin=item)
            verdict, text = outcome(check)
            send(of=title, item=item, verdict=verdict, words=text)
        send(end=True)
    return 0


def _load(files: Sequence[str]) -> Registry:
    try:
        return discover(files)
    except PluginError as error:
        # A class that cannot be made breaks the contract; a file that cannot be read is not a
        # plugin.
        if USER_MODULE in str(error):
            sentence = str(error).replace(f"{USER_MODULE}{Path(files[0]).stem}.", "")
            raise Broken(sentence) from error
        raise
    except SystemExit as error:
        raise PluginError(f"'{files[0]}' exits (code {error.code}) while it is loaded") from error


def find(registry: Registry, files: Sequence[str], name: str) -> list[Entry]:
    """Return the entries to check: everything that the files define, or the entry of a name.

    Raises:
        ClframeError: There is no such entry.
    """
    entries = [entry for kind in KINDS for entry in registry.entries(kind)]
    if files:
        entries = [entry for entry in entries if entry.origin == str(Path(files[0]))]
        if not entries:
            raise PluginError(f"'{files[0]}' defines no plugin, stream, model or metric")
    chosen = [entry for entry in entries if not name or entry.name == name]
    if not chosen:
        names = sorted({entry.name for entry in entries})
        raise PluginError(f"there is no '{name}' to check; {nearest(name, names)}")
    return chosen


def outcome(check: Check) -> tuple[str, str]:
    """Return the verdict of a check and a one-line text, whatever it raises."""
    try:
        return OK, check()
    except NotChecked as error:
        return NOT_CHECKED, str(error)
    except (ClframeError, AssertionError) as error:
        sentence = " ".join(str(error).split()) or type(error).__name__
        frames = traceback.extract_tb(error.__traceback__)
        if isinstance(error, PluginError) and frames[-1].name == "configure":
            return NOT_CHECKED, f"refuses the toy stream: {sentence}"
        return FAILED, sentence
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        own = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "clframe" not in Path(frame.filename).parts
            and "site-packages" not in Path(frame.filename).parts
        ]
        last = own[-1] if own else last
        sentence = " ".join(str(error).split())
        where = f"{Path(last.filename).name} line {last.lineno}, in {last.name}"
        return FAILED, f"{type(error).__name__}: {sentence} ({where})"


# ------------------------------------------------------------ the contracts


def checks_of(entry: Entry, registry: Registry, files: Sequence[str]) -> dict[str, Check]:
    """Return the items of a contract by name."""
    makers: dict[Kind, Callable[[], dict[str, Check]]] = {
        "plugin": lambda: _plugin(entry, registry, files),
        "stream": lambda: _stream(entry, registry),
        "model": lambda: {"contract": functools.partial(_model, entry)},
        "metric": lambda: {"contract": functools.partial(_metric, entry)},
    }
    checks: dict[str, Check] = {}
    if entry.kind != "metric":
        checks["settings"] = lambda: settings(entry)
    try:
        return {**checks, **makers[entry.kind]()}
    except BaseException as error:
        problem = error

        def refuse() -> str:
            raise problem

        return {**checks, "made": refuse}


def _model(entry: Entry) -> str:
    contracts.check_model(entry.factory)
    return "outputs, gradients, saved weights"


def _metric(entry: Entry) -> str:
    contracts.check_metric(entry.factory)
    return "numbers by name"


def settings(entry: Entry) -> str:
    """Check that every setting has a type, a default and a meaning."""
    passed = (*GIVEN.get(entry.kind, ()), *GIVEN_UNLESS_SET, "self")
    factory = entry.factory
    parameters = inspect.signature(factory).parameters
    explained = meanings(factory)
    names = []
    for name, parameter in parameters.items():
        if name in passed:
            continue
        subject = f"setting '{name}' of {entry.kind} '{entry.name}'"
        require(
            parameter.kind not in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY),
            f"{subject} is positional-only: make it a keyword argument",
        )
        if parameter.kind is parameter.VAR_KEYWORD:
            raise Broken(
                f"{subject} accepts anything: name each setting, so that it can be checked"
            )
        require(
            parameter.annotation is not parameter.empty,
            f"{subject} has no type: write one, such as {name}: float = 1.0",
        )
        require(
            parameter.default is not parameter.empty,
            f"{subject} has no default: give one, so that strategy={entry.name} works by itself",
        )
        grouped = hasattr(parameter.default, "__dataclass_fields__")
        require(
            name in explained or grouped,
            f"{subject} is not explained: add a line under Args: in the docstring",
        )
        names.append(name)
    require(bool(entry.summary), f"{entry.kind} '{entry.name}' has no docstring: add one")
    return ", ".join(names) if names else "none"


def _plugin(entry: Entry, registry: Registry, files: Sequence[str]) -> dict[str, Check]:
    *required, plugin = distributed.made(entry.name, registry)
    named = {name: registry.build("plugin", name, {}) for name in _BESIDE if name != entry.name}
    contract = PluginContract(plugin, required=required, others=named)
    checks = contract.checks()
    slow = {name: checks.pop(name) for name in ("cost per step", "growth")}
    return {
        **checks,
        "batched seeds": lambda: distributed.batched_seeds(contract, files),
        "two processes": lambda: distributed.two_processes(contract, files),
        **slow,
    }


def _stream(entry: Entry, registry: Registry) -> dict[str, Check]:
    def stream() -> Stream:
        try:
            made = make_stream(registry, entry.name, None, 0, None, False)
            made.experiences[0].data  # noqa: B018
        except DataError as error:
            raise NotChecked(str(error)) from error
        return made

    def contract() -> str:
        made = stream()
        contracts.check_stream(made)
        return f"{len(made)} experiences, {len(made.tasks)} tasks, {made.scenario}-incremental"

    def again() -> str:
        for first, second in zip(stream().experiences, stream().experiences, strict=True):
            require(
                first.name == second.name and bool((first.data.labels == second.data.labels).all()),
                f"stream '{entry.name}' differs the second time: draw from a generator "
                "that is seeded with its seed",
            )
        return "the same twice"

    def learns() -> str:
        how = {"max_steps": 2, "evaluate_every": 1000}
        run_built(prepare(stream(), model=registry.model_for(entry.name), **how))
        return "two steps of each experience"

    return {"contract": contract, "determinism": again, "learns": learns}


def _output(printed: Any) -> str:
    """Check that nothing was printed."""
    sys.stdout.flush()
    size = os.fstat(printed.fileno()).st_size
    if not size:
        return "nothing is printed"
    printed.seek(0)
    first = printed.readline().decode(errors="replace").strip()
    raise Broken(
        f"{size} characters were printed to standard output, first '{first[:40]}': leave them out, "
        "or send numbers to the loggers with learner.log"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
