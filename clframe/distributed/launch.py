"""Starting the processes of a run on this machine, and ending all of them when one fails.

Where something else has started them (torchrun, Slurm), Lightning's environments tell a process its
rank and nothing is started here. Otherwise this process is the first and starts the others by
running its own command again, each with its rank in the environment, as Lightning's launcher
does; unlike that one it can start the command of one job of a sweep, and says why a run ended.

Only rank zero prints. Another rank leaves its reason in the store that the processes share and
goes; rank zero, whose next exchange then fails, reads it and makes one sentence of it. If rank zero
is not in an exchange, or waits for one that never comes, a thread that watches the children ends
it.
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
"""Seconds that rank zero has, after a child failed, to find out and say so by itself."""

_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "WORLD_SIZE")
_PARENT = "CLFRAME_PARENT"
"""The variable that tells a process which one has started it."""
_RESUME_HINT = "the run was stopped and continues from its folder with resume=RUN"
_FAILED = "clframe/failed/"
_LOST = ("by peer", "gloo", "nccl")
"""What messages of an exchange say when the other side has gone."""


class RankError(ClframeError):
    """Another process of the run ended before its time."""


class _Children:
    """The processes that this one has started."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[bytes]] = []
        self.environment: dict[str, str | None] = {}
        self.command: list[str] | None = None
        self.reported = threading.Event()
        self.connected = False
        self.follower = False


_children = _Children()


@contextlib.contextmanager
def command(words: Sequence[str]) -> Iterator[None]:
    """Say which words of the command line the other processes are to be started with.

    Without it they run this process's own command or script again. Processes started in here end
    with it.
    """
    before = _children.command
    _children.command = [sys.executable, "-m", "clframe", *words]
    grace = 1.0  # after a failure the others wait for an exchange that will not come
    try:
        yield
        _disconnect()
        grace = GRACE
    finally:
        _children.command = before
        _end_children(grace)


def join(fabric: Fabric) -> None:
    """Start the other processes if that is this one's part, and connect to them."""
    from lightning.fabric.strategies.ddp import DDPStrategy

    strategy = fabric.strategy
    assert isinstance(strategy, DDPStrategy)  # checked by the engine
    environment = strategy.cluster_environment
    assert environment is not None
    if _PARENT in os.environ:  # before connecting, which waits long for a parent that is gone
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
        # Rank zero saves and leaves; the others follow when it has gone.
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
            signal.signal(signal.Signals[name], signal.SIG_IGN)


@contextlib.contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Keep Lightning's banner from the user's screen."""
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
    words = _children.command or _own_command()
    _children.environment = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(variables)
    _children.reported.clear()
    _children.connected = False
    own = {_PARENT: str(os.getpid())}
    for number in range(1, processes):
        child = subprocess.Popen(words, env={**os.environ, **own, "LOCAL_RANK": str(number)})
        _children.running.append(child)
    atexit.register(_end_children, GRACE)
    threading.Thread(target=_watch, args=(list(_children.running),), daemon=True).start()


def _own_command() -> list[str]:
    """How this process was started."""
    import __main__

    spec = getattr(__main__, "__spec__", None)
    if spec is not None:
        return [sys.executable, "-m", spec.name, *sys.argv[1:]]
    if not getattr(__main__, "__file__", None):
        raise SettingError(
            "several processes can be started from the command line or from a script file, not "
            "from a notebook or a prompt: set trainer.devices=1, or run a script"
        )
    return [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]]


def _watch(children: list[subprocess.Popen[bytes]]) -> None:
    """End this process when a child has failed and nobody has noticed."""
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
        return f"rank {rank} of the run could not start, it ended{ending}; what it says is above"
    return f"rank {rank} of the run ended before its time{ending}; {_RESUME_HINT}"


# ------------------------------------------------------------ failures


@contextlib.contextmanager
def report_rank_failures() -> Iterator[None]:
    """Make one sentence, on rank zero, of a failure anywhere."""
    try:
        yield
    except BaseException as error:
        from torch import distributed as dist

        if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
            _children.reported.set()
            raise
        if dist.get_rank() > 0:
            _report(dist.get_rank(), error)
            raise  # a defect, whose traceback is wanted
        _children.reported.set()
        if _is_loss(error):
            raise RankError(_find_reason(dist.get_world_size())) from error
        raise


def _is_loss(error: BaseException) -> bool:
    """Whether an exchange failed because another process has gone."""
    from torch import distributed as dist

    if isinstance(error, dist.DistError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(word in text for word in _LOST)


def _report(rank: int, error: BaseException) -> None:
    """Leave the reason for rank zero and go, without a word if rank zero will say it."""
    if isinstance(error, KeyboardInterrupt | SystemExit) or _is_loss(error):
        _exit_now()
    ours = isinstance(error, ClframeError)
    reason = " ".join(str(error).split())
    with contextlib.suppress(Exception):
        _store().set(f"{_FAILED}{rank}", reason if ours else f"{type(error).__name__}: {reason}")
    if ours:
        _exit_now()


def _exit_now() -> None:
    """Leave without waiting for the others, as the library's own clean-up would."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(2)


def _find_reason(size: int) -> str:
    """What a lost rank has to say, or how its process ended."""
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        with contextlib.suppress(Exception):
            for rank in range(1, size):
                if _store().check([f"{_FAILED}{rank}"]):
                    return _sentence(rank, reason=_store().get(f"{_FAILED}{rank}").decode())
        for rank, child in enumerate(_children.running, 1):
            # A code of its own means that it left a reason, which is about to arrive.
            if child.poll() is not None and child.returncode < 0:
                return _sentence(rank, child.returncode)
        time.sleep(0.1)
    for rank, child in enumerate(_children.running, 1):
        if child.poll():
            return _sentence(rank, child.returncode)
    return f"another process of the run ended before its time; {_RESUME_HINT}"


def _store() -> Any:
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_store()


def is_main_process() -> bool:
    """Whether this process shows the result of the run it took part in."""
    return not _children.follower


def is_silent() -> bool:
    """Whether an error is said by another process, which torchrun started with this one."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0"


def name_of_process() -> str:
    """Where an error was, for a process that was started by another: "rank 1: ", else nothing."""
    rank = os.environ.get("LOCAL_RANK", "0")
    return "" if rank == "0" or "TORCHELASTIC_RUN_ID" in os.environ else f"rank {rank}: "


# ------------------------------------------------------------ the end


def _disconnect() -> None:
    """Wait for the others and disconnect from them, so that another run can begin."""
    from torch import distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def _end_children(grace: float) -> None:
    """Wait for the processes started here, kill those that stay, and restore the environment."""
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
