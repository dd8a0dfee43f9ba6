"""Following a run by its folder: in the terminal, on a pipe and over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from clframe.cli.main import main
from clframe.utils.lock import Lock
from clframe.watch.events import Events
from clframe.watch.process import holder
from clframe.watch.resolve import OneRun, watcher
from clframe.watch.run import RunWatcher
from clframe.watch.server import PageServer
from tests.helpers.processes import ProcessServer

TASKS = ("task0", "task1")


def row(name: str, *values: float) -> dict[str, Any]:
    found = dict(zip(TASKS, values, strict=True))
    measures = {task: {"accuracy": value} for task, value in found.items()}
    return {"event": "evaluation", "row": name, "values": found, "measures": measures}


def epoch(experience: int, number: int, loss: float) -> dict[str, Any]:
    step = 8 * (2 * experience + number + 1)
    return {"event": "epoch", "experience": experience, "epoch": number, "step": step, "loss": loss}


EVENTS: list[dict[str, Any]] = [
    {"event": "prepare", "stream": "toy", "source": "numbers", "seconds": 0.1},
    row("before", 0.5, 0.25),
    epoch(0, 0, 2.0),
    epoch(0, 1, 1.0),
    {"event": "experience", "experience": 0, "name": "exp0", "seconds": 60.0},
    row("exp0", 1.0, 0.5),
]
STATUS = {
    "format": 1,
    **{"stream": "toy", "strategy": "ewc", "scenario": "task", "seed": 3, "state": "running"},
    **{"rows": ["exp0", "exp1"], "columns": list(TASKS), "experiences": 2, "why": ""},
    **{"phase": "learning", "experience": 1, "name": "exp1", "epoch": 0, "epochs": 2},
    **{"step": 4, "steps": 8, "loss": 0.75, "seconds": 70.0, "left": 55.0},
}


def write_events(folder: Path, events: list[dict[str, Any]]) -> None:
    (folder / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))


def write_status(folder: Path, **changes: Any) -> None:
    (folder / "status.json").write_text(json.dumps({**STATUS, "at": time.time(), **changes}))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run in the middle of its second experience, whose process is gone."""
    folder = tmp_path / "the run"
    folder.mkdir()
    (folder / "config.yaml").write_text("stream: {name: toy}\nseed: 3\nscenario: task\n")
    write_events(folder, EVENTS)
    write_status(folder)
    (folder / ".lock").write_text(f"process 999999999 on {socket.gethostname()}\n")
    return folder


def test_a_run_at_work(run: Path) -> None:
    with Lock(run / ".lock"):
        assert holder(run).alive is True
        view = RunWatcher(run).view()
    assert holder(run).alive is False
    assert (view["state"], view["sentence"]) == ("running", "")
    assert view["now"] == "learning exp1 (2 of 2), epoch 1 of 2, step 4 of 8, loss 0.75"
    assert (view["left"], view["seconds"], view["learned"]) == (55.0, 70.0, 1)
    assert view["rows"] == ["before", "exp0", "exp1"]
    assert view["values"] == [[0.5, 0.25], [1.0, 0.5], [None, None]]
    assert view["losses"] == [(8, 2.0, 0), (16, 1.0, 0)]


def test_how_a_run_ended_and_how_it_goes_on(run: Path) -> None:
    resume = f"clframe fit resume='{run}'"
    at = time.strftime("%H:%M")
    assert RunWatcher(run).view()["sentence"] in (
        f"no process has worked on it since {at}; resume with {resume}",
        f"no process has worked on it since {time.strftime('%H:%M')}; resume with {resume}",
    )
    write_status(run, state="stopped")
    assert RunWatcher(run).view()["sentence"].endswith(f"; continue with {resume}")
    write_status(run, state="failed", why="the disk is full.")
    assert "the disk is full; fix it" in RunWatcher(run).view()["sentence"]
    assert main(["watch", str(run), "--once"]) == 2
    # What another machine does is told by the age of its files.
    (run / ".lock").write_text("process 1 on elsewhere\n")
    write_status(run)
    assert RunWatcher(run).view()["state"] == "running"
    for name in ("status.json", "events.jsonl", "config.yaml"):
        os.utime(run / name, (1e9, 1e9))
    assert RunWatcher(run).view()["state"] == "dead"
    # Resumed: what the process before this one said no longer counts.
    write_status(run, state="stopped", at=time.time() - 60)
    with Lock(run / ".lock"):
        assert RunWatcher(run).view()["now"] == "starting again"


def test_files_that_are_half_written_shortened_or_gone(run: Path) -> None:
    events = Events(run / "events.jsonl")
    events.update()
    with (run / "events.jsonl").open("a") as file:
        file.write(json.dumps(epoch(1, 0, 3.0))[:20])
        file.flush()
        events.update()
        assert len(events.losses) == 2
        file.write(json.dumps(epoch(1, 0, 3.0))[20:] + "\n\x00garbage\n[1]\n")
    events.update()
    assert len(events.losses) == 3
    # A resumed run goes back to its checkpoint and writes other lines, even more of them.
    write_events(run, [*EVENTS[:3], *(epoch(0, n, 7.0) for n in range(1, 9))])
    events.update()
    assert list(events.rows) == ["before"]
    assert [loss for _, loss in events.losses.values()] == [2.0, *[7.0] * 8]
    for name in ("events.jsonl", "status.json", "config.yaml"):
        (run / name).unlink()
    view = RunWatcher(run).view()
    assert (view["state"], view["rows"]) == ("dead", [])
    (run / "status.json").write_text("{half")
    (run / "config.yaml").write_text("[")
    assert RunWatcher(run).view()["state"] == "dead"


def test_a_pipe_gets_a_line_when_something_happens(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Lock(run / ".lock")
    lock.take()

    def measure() -> None:
        with (run / "events.jsonl").open("a") as file:
            file.write(json.dumps(row("exp1", 0.75, 1.0)) + "\n")

    def stop() -> None:
        write_status(run, state="stopped")
        lock.release()

    meanwhile = iter([lambda: None, measure, stop])  # between one look at the folder and the next
    monkeypatch.setattr(time, "sleep", lambda seconds: next(meanwhile)())
    assert main(["watch", str(run.parent)]) == 0  # the newest run below it
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ewc on toy (task-incremental, seed 3)"
    assert lines[2:4] == [
        "before: mean accuracy 0.375  (0.500 0.250)",
        "exp0: mean accuracy 0.750  (1.000 0.500)",
    ]
    assert lines[4].startswith(
        "learning exp1 (2 of 2), epoch 1 of 2, step 4 of 8, loss 0.75, about "
    )
    assert lines[5] == "exp1: mean accuracy 0.875  (0.750 1.000)"
    assert "\x1b" not in "".join(lines)
    assert any(line.startswith("stopped at ") for line in lines[6:])
    assert max(map(len, lines[6:])) <= 80 or str(run) in max(lines[6:], key=len)


def test_a_terminal_is_drawn_over_and_left_with_ctrl_c(
    clframe_process: ProcessServer, run: Path
) -> None:
    parent, child = os.openpty()
    environment = {**os.environ, "COLUMNS": "80", "LINES": "24", "PYTHONIOENCODING": "utf-8"}
    environment.pop("NO_COLOR", None)
    with Lock(run / ".lock"):
        # The server resets Ctrl-C in each process, even if the tests themselves ignore it.
        words = ["-m", "clframe", "watch", str(run)]
        process = clframe_process.start(words, run, environment, terminal=os.ttyname(child))
        shown = b""
        try:
            # Drawn again and again, since the time left runs on: two are whole by the third.
            deadline = time.monotonic() + 120
            while shown.count(b"\x1b[J") < 3:
                assert process.poll() is None, shown.decode()
                assert time.monotonic() < deadline, shown.decode()
                if select.select([parent], [], [], 0.2)[0]:
                    shown += os.read(parent, 4096)
            process.signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
            os.close(child)  # was open all the time, so that reading finds the terminal there
            os.close(parent)
    first, second, *_ = shown.decode().split("\x1b[J")[1:]
    assert second.count("\n") == first.count("\n")
    assert f"\x1b[{first.count(chr(10))}F" in first + second
    assert "█" in first
    assert "so far, about" in first
    assert "\x1b[38;5;71m1.000" in first  # a cell in its shade
    plain = [line for line in first.replace("\x1b[0m", "").splitlines() if "\x1b" not in line]
    assert max(map(len, plain)) <= 80
    assert "Traceback" not in shown.decode()


def test_a_sweep(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run.rename(tmp_path / "seed=0")
    entries = {
        "seed=0": {"state": "running"},
        "seed=1": {"state": "waiting"},
        "seed=2": {"state": "failed", "why": "no memory"},
    }
    (tmp_path / "sweep.json").write_text(json.dumps({"keys": ["seed"], "runs": entries}))
    with Lock(tmp_path / "seed=0/.lock"):
        view = watcher(tmp_path).view()
        assert main(["watch", str(tmp_path), "--once"]) == 0
    assert (view["state"], view["chosen"], view["finished"]) == ("running", "seed=0", 0)
    assert [r["state"] for r in view["runs"]] == ["running", "waiting", "failed"]
    shown = capsys.readouterr().out
    assert "sweep: 0 of 3 runs finished" in shown
    assert "no memory" in shown
    assert "seed=0  running      1/2  mean 0.750  about 5" in shown
    assert watcher(tmp_path).view()["sentence"].startswith("stopped: 0 of 3 runs are finished")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing"], "nothing does not exist"),
        (["."], "holds no run"),
        ([".", "--web", "--once"], "leave one of them out"),
        ([".", "--port", "80"], "--port is for the page; add --web"),
        ([".", "--web", "--port", "70000"], "must be a port from 1 to 65535, got '70000'"),
    ],
)
def test_what_cannot_be_watched_is_one_sentence(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["watch", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line


def test_the_server_answers_this_machine_only(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with PageServer(OneRun(run), port=None) as server:

        def ask(path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, str]:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=named)
            with contextlib.closing(connection), connection.getresponse() as answer:
                return answer.status, answer.read(), answer.headers.get("ETag", "")

        code, page, _ = ask("/")
        assert code == 200
        elsewhere = page.decode().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in elsewhere
        _, state, tag = ask("/state")
        assert json.loads(state)["state"] == "dead"
        assert ask("/state", If_None_Match=tag)[:2] == (304, b"")
        write_status(run, state="failed", why="x")
        assert ask("/state", If_None_Match=tag)[0] == 200
        for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1:1", ""):
            assert ask("/state", Host=host)[0] == 403
        assert ask("/state", Host=f"LOCALHOST:{server.port}")[0] == 200
        for path in ("/config.yaml", "/../config.yaml", "//etc/passwd", "/state/"):
            assert ask(path)[0] == 404
        assert ask("/state", "POST")[0] == 501
        assert ask("/", "HEAD")[:2] == (200, b"")
        assert main(["watch", str(run), "--web", "--port", str(server.port)]) == 2
        assert f"port {server.port} of this machine is taken" in capsys.readouterr().err
