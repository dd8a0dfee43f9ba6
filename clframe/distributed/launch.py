"""Start the processes of a run on this machine, and end all of them when one fails.

If something else has started them (torchrun, Slurm), Lightning's environments provide the rank and
nothing is started here. Otherwise this process is the first and starts the others by running its
own command again, each with its rank in the environment, as Lightning's launcher does. Unlike that
launcher, it can start the command of one job of a sweep, and reports why a run ended.

Only rank zero prints. Another rank leaves its reason in the shared store and exits; rank zero,
whose next exchange then fails, reads it and reports it in one line. If rank zero is not in an
exchange, or waits for one that never comes, a thread that watches the children ends it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clframe.errors import ClframeError, SettingError
from clframe.utils.console import print_err
from clframe.utils.processes import end_with_parent

if TYPE_CHECKING:
    from lightning.fabric import Fabric

GRACE = 10.0
"""Seconds that rank zero has after a child failed to report it by itself."""

_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "WORLD_SIZE")
_PARENT = "CLFRAME_PARENT"
"""The environment variable that names the process that started this one."""
_RESUME_HINT = "the run was stopped and continues from its folder with resume=RUN"
_FAILED = "clframe/failed/"
_LOST = ("by peer", "gloo", "nccl")
"""Texts in errors of an exchange after the other side has gone."""


class RankError(ClframeError):
    """Another process of the run ended too early."""


class _Children:
    """The processes that this process has started."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[bytes]] = []
        self.environment: dict[str, str | None] = {}
        self.command: list[str] | None = None
        self.reported = threading.Event()
        self.connected = False
        self.follower = False


_children = _Children()


@contextlib.contextmanager
def command(arguments: Sequence[str]) -> Iterator[None]:
    """Start the other processes with this command line, and end them with this context.

    Without it they run this process's own command or script again.
    """
    before = _children.command
    _children.command = [sys.executable, "-m", "clframe", *arguments]
    grace = 1.0  # After a failure the others wait for an exchange that will not come.
    try:
        yield
        _disconnect()
        grace = GRACE
    finally:
        _children.command = before
        _end_children(grace)


def join(fabric: Fabric) -> None:
    """Start the other processes if this one should, and connect to them."""
    from lightning.fabric.strategies.ddp import DDPStrategy

    strategy = fabric.strategy
    assert isinstance(strategy, DDPStrategy)  # checked by the engine
    environment = strategy.cluster_environment
    assert environment is not None
    if _PARENT in os.environ:  # Check before connecting, which waits long for a missing parent.
        end_with_parent(int(os.environ[_PARENT]))
    if not environment.creates_processes_externally:
        if strategy.num_nodes > 1 and not {"MASTER_ADDR", "MASTER_PORT"} <= set(os.environ):
            raise SettingError(
                f"trainer.num_nodes={strategy.num_nodes} needs a launcher that starts the run on "
                "every machine: use torchrun or srun, or set MASTER_ADDR, MASTER_PORT and "
                "NODE_RANK on each"
            )
        variables = {
            "MASTER_ADDR": environment.main_address,
            "MASTER_PORT": str(environment.main_port),
            "NODE_RANK": str(environment.node_rank()),
            "LOCAL_RANK": "0",
            "WORLD_SIZE": str(fabric.world_size),
        }
        _start(variables, strategy.num_processes)
    try:
        with _quiet_lightning():
            fabric.launch()
    except Exception as error:
        raise RankError(
            f"the {fabric.world_size} processes of the run could not connect: "
            f"{str(error).splitlines()[0]}"
        ) from error
    _children.connected = True
    _children.follower = fabric.global_rank != 0
    if _children.follower and threading.current_thread() is threading.main_thread():
        # Rank zero saves and exits; the others follow once it is gone.
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
            signal.signal(signal.Signals[name], signal.SIG_IGN)


@contextlib.contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Hide Lightning's banner."""
    loggers = [logging.getLogger(f"lightning.{name}") for name in ("fabric", "pytorch")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        if not os.environ.get("CLFRAME_DEBUG"):
            logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _start(variables: dict[str, str], processes: int) -> None:
    command_line = _children.command or _own_command()
    _children.environment = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(variables)
    _children.reported.clear()
    _children.connected = False
    own = {_PARENT: str(os.getpid())}
    for number in range(1, processes):
        child = subprocess.Popen(command_line, env={**os.environ, **own, "LOCAL_RANK": str(number)})
        _children.running.append(child)
    atexit.register(_end_children, GRACE)
    threading.Thread(target=_watch, args=(list(_children.running),), daemon=True).start()


def _own_command() -> list[str]:
    """Return the command of this process."""
    import __main__

    spec = getattr(__main__, "__spec__", None)
    if spec is not None:
        return [sys.executable, "-m", spec.name, *sys.argv[1:]]
    if not getattr(__main__, "__file__", None):
        raise SettingError(
            "several processes need the command line or a script file, not "
            "a notebook or a prompt: set trainer.devices=1, or run a script"
        )
    return [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]]


def _watch(children: list[subprocess.Popen[bytes]]) -> None:
    """End this process if a child has failed and nobody has noticed."""
    while any(child.poll() is None for child in children):
        if any(child.returncode for child in children):
            break
        time.sleep(0.2)
    lost = [(rank, child.returncode) for rank, child in enumerate(children, 1) if child.returncode]
    if not lost or _children.reported.wait(GRACE) or children != _children.running:
        return
    print_err(f"clframe: {_sentence(*lost[0])}")
    sys.stderr.flush()
    _kill(children)
    os._exit(2)


def _sentence(rank: int, code: int | None = None, reason: str = "") -> str:
    if reason:
        return f"rank {rank} of the run failed: {reason}"
    ending = ""
    if code is not None and code < 0:
        ending = f", killed by signal {-code} ({signal.strsignal(-code)})"
    elif code:
        ending = f" with code {code}"
    if not _children.connected:
        return f"rank {rank} of the run could not start and ended{ending}; see its output above"
    return f"rank {rank} of the run ended too early{ending}; {_RESUME_HINT}"


# ------------------------------------------------------------ failures


@contextlib.contextmanager
def report_rank_failures() -> Iterator[None]:
    """Report a failure of any rank in one line, on rank zero."""
    try:
        yield
    except BaseException as error:
        from torch import distributed as dist

        if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
            _children.reported.set()
            raise
        if dist.get_rank() > 0:
            _report(dist.get_rank(), error)
            raise  # A defect needs its traceback.
        _children.reported.set()
        if _is_loss(error):
            raise RankError(_find_reason(dist.get_world_size())) from error
        raise


def _is_loss(error: BaseException) -> bool:
    """Return whether an exchange failed because another process has gone."""
    from torch import distributed as dist

    if isinstance(error, dist.DistError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in text for word in _LOST)


def _report(rank: int, error: BaseException) -> None:
    """Leave the reason for rank zero and exit; print nothing if rank zero will report it."""
    if isinstance(error, KeyboardInterrupt | SystemExit) or _is_loss(error):
        _exit_now()
    ours = isinstance(error, ClframeError)
    reason = " ".join(str(error).split())
    with contextlib.suppress(Exception):
        _store().set(f"{_FAILED}{rank}", reason if ours else f"{type(error).__name__}: {reason}")
    if ours:
        _exit_now()


def _exit_now() -> None:
    """Exit without waiting for the others, which the library's clean-up would do."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(2)


def _find_reason(size: int) -> str:
    """Return a lost rank's reason, or how its process ended."""
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        with contextlib.suppress(Exception):
            for rank in range(1, size):
                if _store().check([f"{_FAILED}{rank}"]):
                    return _sentence(rank, reason=_store().get(f"{_FAILED}{rank}").decode())
        for rank, child in enumerate(_children.running, 1):
            # Its own exit code means that it left a reason, which is about to arrive.
            if child.poll() is not None and child.returncode < 0:
                return _sentence(rank, child.returncode)
        time.sleep(0.1)
    for rank, child in enumerate(_children.running, 1):
        if child.poll():
            return _sentence(rank, child.returncode)
    return f"another process of the run ended too early; {_RESUME_HINT}"


def _store() -> Any:
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_store()


def is_main_process() -> bool:
    """Return whether this process shows the result of its run."""
    return not _children.follower


def is_silent() -> bool:
    """Return whether another process, started by the same torchrun, reports errors."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0"


def name_of_process() -> str:
    """Return "rank 1: " for errors of a process that another one started, else an empty text."""
    rank = os.environ.get("LOCAL_RANK", "0")
    return "" if rank == "0" or "TORCHELASTIC_RUN_ID" in os.environ else f"rank {rank}: "


# ------------------------------------------------------------ shutdown


def _disconnect() -> None:
    """Wait for the others and disconnect from them, so that another run can begin."""
    from torch import distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def _end_children(grace: float) -> None:
    """Wait for the children, kill those that stay, and restore the environment."""
    _children.reported.set()
    children, _children.running = _children.running, []
    until = time.monotonic() + grace
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(max(0.0, until - time.monotonic()))
    _kill(children)
    for name, value in _children.environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _children.environment = {}


def _kill(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        if child.poll() is None:
            child.kill()
            child.wait()
