"""Workers: any function of a module, state of their own, and a sentence whatever ends them."""

from __future__ import annotations

import gc
import itertools
import math
import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clframe.errors import DataError, SettingError
from clframe.robot.workers import environment_pool
from clframe.utils import processes
from clframe.utils.processes import (
    InlineWorker,
    ProcessWorker,
    WorkerPool,
    thread_limits,
    usable_cores,
)
from clframe.utils.statistics import summarize

PID = "__import__('os').getpid()"


@pytest.fixture(scope="module")
def pair() -> Iterator[WorkerPool]:
    with WorkerPool(2) as pool:
        yield pool


@pytest.fixture
def one() -> Iterator[WorkerPool]:
    with WorkerPool(1) as pool:
        yield pool


def process_of(pool: WorkerPool) -> subprocess.Popen[bytes]:
    worker = pool.workers[0]
    assert isinstance(worker, ProcessWorker)
    return worker.process


def ask(pool: WorkerPool, *call: Any) -> Any:
    pool.workers[0].send(*call)
    return pool.workers[0].receive()


def test_cores_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 5, 7}, raising=False)
    assert usable_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1
    assert thread_limits(3)["OMP_NUM_THREADS"] == "3"


def test_each_worker_answers_in_order_and_keeps_its_state(pair: WorkerPool) -> None:
    for number, worker in enumerate(pair.workers):
        worker.send(sys.setrecursionlimit, 5000 + number)
        worker.send(sys.getrecursionlimit)
    assert [[w.receive(), w.receive()] for w in pair.workers] == [[None, 5000], [None, 5001]]


def test_a_worker_is_light_and_has_one_thread(one: WorkerPool) -> None:
    heavy = "{'torch', 'numpy', 'lightning', 'scipy', 'tqdm'} & set(__import__('sys').modules)"
    assert ask(one, eval, heavy) == set()
    for name, value in thread_limits(1).items():
        assert ask(one, os.getenv, name) == value


@pytest.mark.parametrize(
    "module",
    ["clframe.worlds.objects.frames.worker", "clframe.robot.episodes", "clframe.robot.collect"],
)
def test_the_modules_that_workers_use_are_light(module: str, pair: WorkerPool) -> None:
    code = f"__import__('{module}') and 'torch' in __import__('sys').modules"
    assert ask(pair, eval, code) is False


def test_what_a_call_prints_is_no_answer(pair: WorkerPool) -> None:
    assert ask(pair, print, "not an answer") is None
    assert ask(pair, os.write, 1, b"nor this\n") == 9
    assert ask(pair, operator.add, 1, 2) == 3


@pytest.mark.parametrize("count", [0, 1, 2])
def test_map_calls_the_function_on_every_item_once(count: int) -> None:
    with WorkerPool(count) as pool:
        assert len(pool) == max(count, 1)
        assert sorted(pool.map_unordered(math.sqrt, range(20))) == [
            (n, math.sqrt(n)) for n in range(20)
        ]
        assert list(pool.map_unordered(math.sqrt, [])) == []


def test_map_uses_all_workers(pair: WorkerPool) -> None:
    pids = {pid for _, pid in pair.map_unordered(eval, [PID] * 6)}
    assert len(pids) == 2
    assert os.getpid() not in pids
    sizes = [len(answer) for _, answer in pair.map_unordered(bytes, [3_000_000] * 6)]
    assert sizes == [3_000_000] * 6  # more than a pipe holds


def test_map_takes_items_as_workers_become_free() -> None:
    with WorkerPool(2) as pool:
        numbers = itertools.count()
        assert len(list(itertools.islice(pool.map_unordered(math.sqrt, numbers), 5))) == 5
        assert next(numbers) < 10


def test_a_slow_item_holds_up_no_other() -> None:
    with WorkerPool(2) as pool:  # which ends the worker that sleeps
        answers = pool.map_unordered(time.sleep, [600.0, *[0.0] * 10])
        assert [next(answers)[0] for _ in range(10)] == [0.0] * 10


def test_errors_come_back_as_sentences(one: WorkerPool) -> None:
    with pytest.raises(DataError, match="at least one finite number"):
        ask(one, summarize, [])
    with pytest.raises(RuntimeError, match=r"(?s)a worker process failed:\n.*ZeroDivisionError"):
        ask(one, operator.truediv, 1, 0)
    with pytest.raises(RuntimeError, match=r"(?s)a worker process failed:\n.*EOFError"):
        ask(one, eval, "(_ for _ in ()).throw(EOFError)")
    with pytest.raises(RuntimeError, match="a worker process failed"):
        ask(one, eval, "lambda: 'no answer that can be handed back'")
    assert ask(one, operator.add, 1, 2) == 3  # and the worker continues


def test_a_call_that_cannot_be_handed_over() -> None:
    advice = "set stream.num_workers=0, or give the environment as a function of a module"
    with (
        environment_pool(1, 1) as pool,
        pytest.raises(DataError, match=rf"cannot receive this call \(.*\); {advice}"),
    ):
        ask(pool, lambda: 0)


def test_a_killed_worker_is_told_in_one_sentence() -> None:
    with environment_pool(1, 1) as pool:
        pool.workers[0].send(time.sleep, 60)
        os.kill(process_of(pool).pid, signal.SIGKILL)
        sentence = "of the robot environments ended with code -9 .*stream.num_workers=0"
        with pytest.raises(DataError, match=sentence):
            pool.workers[0].receive()
        with pytest.raises(DataError, match=sentence):
            ask(pool, time.sleep, 0)


def test_a_worker_that_leaves_in_the_middle_of_a_map() -> None:
    with WorkerPool(2) as pool, pytest.raises(DataError, match="ended with code 3"):
        list(pool.map_unordered(eval, ["0", "0", "__import__('os')._exit(3)", "0"]))


def test_a_worker_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_START", "import os; os._exit(7)")
    with WorkerPool(2) as pool, pytest.raises(DataError, match="ended with code 7"):
        list(pool.map_unordered(math.sqrt, [1, 2]))


def test_no_worker_outlives_its_pool() -> None:
    with WorkerPool(2) as pool:
        pool.workers[0].send(time.sleep, 60)
        process = process_of(pool)
    assert process.poll() == -signal.SIGKILL
    pool = WorkerPool(1)
    process = process_of(pool)
    del pool
    gc.collect()
    assert process.poll() == -signal.SIGKILL


def test_orphans_end_when_their_parent_is_gone() -> None:
    code = (
        "import sys, time; from clframe.utils.processes import WorkerPool\n"
        "pool = WorkerPool(2); pool.workers[0].send(time.sleep, 1.0)\n"
        "pool.workers[1].send(time.sleep, 0); pool.workers[1].receive()\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    parent.kill()
    # The workers share their parent's standard error, which ends with the last of them.
    _, errors = parent.communicate(timeout=30)
    assert errors == ""


def test_orphans_end_in_the_middle_of_a_call() -> None:
    code = (
        "import time; from clframe.utils.processes import WorkerPool\n"
        "pool = WorkerPool(1); pool.workers[0].send(time.sleep, 0); pool.workers[0].receive()\n"
        "pool.workers[0].send(time.sleep, 3600)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    parent.kill()
    _, errors = parent.communicate(timeout=30)
    assert errors == ""


@pytest.mark.parametrize("sign", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
def test_signals_for_the_whole_group_are_left_to_the_parent(one: WorkerPool, sign: str) -> None:
    assert ask(one, operator.add, 0, 0) == 0  # it has started
    process_of(one).send_signal(signal.Signals[sign])
    assert ask(one, operator.add, 1, 2) == 3


def test_inline_workers_call_here() -> None:
    worker = InlineWorker()
    worker.send(os.getpid)
    worker.send(summarize, [])
    assert worker.receive() == os.getpid()
    with pytest.raises(SettingError):
        worker.receive()
    with environment_pool(0, 3) as pool:
        assert [type(worker) for worker in pool.workers] == [InlineWorker]


def test_no_more_workers_than_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clframe.robot.workers.usable_cores", lambda: 2)
    for asked, most, expected in [(None, 5, 2), (None, 1, 1), (3, 2, 2)]:
        with environment_pool(asked, most) as pool:
            assert len(pool) == expected


def test_a_function_of_a_plugin_path_file_can_be_called(tmp_path: Path) -> None:
    from clframe.core.registry import Registry

    file = tmp_path / "my_robot.py"
    file.write_text(
        "from clframe.hookspecs import hookimpl\n\n\ndef double(x):\n    return 2 * x\n\n\n"
        "@hookimpl\ndef register(registry):\n    registry.add('stream', 'my_robot', double)\n"
    )
    registry = Registry()
    registry.add_file(file)
    try:
        double = registry.get("stream", "my_robot").factory
        with WorkerPool(1) as pool:
            assert [answer for _, answer in pool.map_unordered(double, [21])] == [42]
    finally:
        del sys.modules["clframe_user_my_robot"]


def test_what_a_script_defines_is_refused_in_a_sentence(one: WorkerPool) -> None:
    reach = type("Reach", (), {"__module__": "__main__"})
    with pytest.raises(DataError, match=r"'Reach' is defined in the script itself.*; give it as"):
        one.workers[0].send(reach)
