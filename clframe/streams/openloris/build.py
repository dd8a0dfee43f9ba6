"""Fills the cache of a plan: worker processes, a progress bar, one section after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from clframe.errors import DataError
from clframe.streams.openloris.cache import Cache
from clframe.streams.openloris.plan import Bad, Job, Plan, Section
from clframe.streams.openloris.worker import START, execute
from clframe.utils.console import notice

_SMALL = 400
"""So few images are made in this process: starting others would take longer."""

_LINE_EVERY = 15.0
"""Seconds between two lines of progress where there is no terminal."""

Done = Callable[[Job, Bad], None]


def ensure(
    plan: Plan,
    sections: Sequence[Section],
    folder: Path,
    workers: int | None = None,
    skip_bad: bool = False,
) -> Cache:
    """The cache of a plan with these sections in it, made now as far as they are missing.

    Args:
        plan: What to put there.
        sections: Which of it.
        folder: Holds one folder per plan.
        workers: Processes; None is one per processor, fewer for little work.
        skip_bad: Leave out images that cannot be read; otherwise the first one is an error.

    Raises:
        DataError: An image cannot be read, or the cache cannot be written.
    """
    cache = Cache(folder / plan.key, plan)
    if cache.unfinished(sections, retry_bad=not skip_bad):
        with cache.locked():
            cache.create()
            # Another process may have made them while this one waited for the lock.
            todo = cache.unfinished(sections, retry_bad=not skip_bad)
            cache.forget(todo)
            _build(cache, todo, workers, skip_bad)
    return cache


def _build(cache: Cache, sections: Sequence[Section], workers: int | None, skip_bad: bool) -> None:
    plan = cache.plan
    jobs = {section.name: plan.jobs(section) for section in sections}
    open_jobs = {section.name: len(jobs[section.name]) for section in sections}
    home = {job["start"]: section for section in sections for job in jobs[section.name]}
    bad: dict[str, Bad] = {section.name: [] for section in sections}
    total = sum(len(section) for section in sections)

    with Meter(f"{plan.verb} {total:,} images into {cache.folder}", plan.verb, total) as meter:

        def done(job: Job, problems: Bad) -> None:
            section = home[job["start"]]
            if problems and not skip_bad:
                raise DataError(f"{problems[0][1]}; bad_images=skip leaves such images out")
            bad[section.name] += problems
            open_jobs[section.name] -= 1
            if not open_jobs[section.name]:
                cache.finish(section, sorted(bad[section.name]))
            meter.add(job["count"])

        chosen = workers or (1 if total < _SMALL else _processors())
        everything = [job for section in sections for job in jobs[section.name]]
        if chosen == 1:
            for job in everything:
                done(job, execute(cache.folder, job))
        else:
            _run_in_processes(cache.folder, everything, min(chosen, len(everything)), done)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_in_processes(folder: Path, jobs: Sequence[Job], workers: int, done: Done) -> None:
    """Hand the jobs to worker processes, each with a thread here that talks to it."""
    with ExitStack() as stack:
        processes = [stack.enter_context(_Worker(folder)) for _ in range(workers)]
        idle = list(processes)
        lock = threading.Lock()

        def run(job: Job) -> tuple[Job, Bad]:
            with lock:
                process = idle.pop()
            try:
                return job, process.run(job)
            finally:
                with lock:
                    idle.append(process)

        threads = stack.enter_context(ThreadPoolExecutor(workers))
        # Left in reverse order: an error or Ctrl-C ends the processes first, which ends the
        # threads' waiting for them.
        for process in processes:
            stack.callback(process.stop)
        source: Iterator[Job] = iter(jobs)
        running: set[Future[tuple[Job, Bad]]] = set()
        while True:
            running |= {threads.submit(run, job) for job in islice(source, workers - len(running))}
            if not running:
                break
            ready, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ready:
                done(*future.result())


class _Worker:
    """One worker process."""

    def __init__(self, folder: Path) -> None:
        # One thread each: the processes share the processors among them.
        quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps(sys.path), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **quiet},
        )

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):  # a job that could not be handed over any more
                    pipe.close()

    def run(self, job: Job) -> Bad:
        """Hand over one job and wait for its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            code = self.process.wait()
            raise DataError(
                f"a worker process ended with code {code} before its images were made (memory?); "
                "what is finished is kept, and num_workers=1 works without other processes"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise DataError(answer["error"])
        if "crash" in answer:
            raise RuntimeError(f"a worker process failed:\n{answer['crash']}")
        return [(int(row), str(why)) for row, why in answer["bad"]]

    def stop(self) -> None:
        """End the process, whatever it is doing; finished jobs are on disk."""
        self.process.kill()


class Meter:
    """Shows how far a build is: a bar on a terminal, a line now and then elsewhere.

    Args:
        title: The first line.
        verb: Stands before the bar.
        total: Images to be made.
    """

    def __init__(self, title: str, verb: str, total: int) -> None:
        self.verb, self.total, self.count = verb, total, 0
        self.bar: Any = None
        notice(title)

    def __enter__(self) -> Meter:
        self.started = self.next_line = time.perf_counter()
        self.next_line += _LINE_EVERY
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(
                desc=self.verb, total=self.total, unit=" images", leave=False, dynamic_ncols=True
            )
        return self

    def add(self, count: int) -> None:
        """Count images that are done."""
        self.count += count
        if self.bar is not None:
            self.bar.update(count)
        elif time.perf_counter() >= self.next_line and self.count < self.total:
            self.next_line = time.perf_counter() + _LINE_EVERY
            notice(f"{self.verb}: {self.count:,} of {self.total:,} images")

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
        seconds = time.perf_counter() - self.started
        speed = self.count / max(seconds, 1e-9)
        notice(f"{self.verb}: {self.count:,} images in {seconds:.1f} s ({speed:,.0f}/s)")
