"""Sweeps: every combination in a process and a folder of its own, whatever happens to one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clframe.cli.main import main
from clframe.cli.sweep import check, make_jobs
from clframe.errors import ClframeError
from clframe.report.sweeps import swept_settings
from clframe.runs.reader import read_run
from clframe.sweep.expand import Plan, default_folder, expand, run_name
from clframe.sweep.job import Job, failure
from clframe.sweep.local import LocalLauncher
from clframe.sweep.settings import SweepSettings

QUICK = ["max_steps=1", "hidden=[8]", "logger=none"]
TROUBLE = """\
import os, signal, time
from pathlib import Path
from clframe import Plugin, hookimpl


class Trouble(Plugin):
    '''Does to its own run what the file 'armed' says for its seed.'''

    def order(self, learner):
        armed = Path("armed")
        return armed.read_text().split()[learner.seed] if armed.exists() else ""

    @hookimpl
    def before_experience(self, learner, experience):
        Path(f"pid-{learner.seed}").write_text(str(os.getpid()))
        if len(learner.seen) == 2 and self.order(learner) == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if len(learner.seen) == 2 and self.order(learner) == "raise":
            raise RuntimeError("the third block is too much")

    @hookimpl
    def after_step(self, learner, step):
        if self.order(learner) == "dawdle":
            Path(f"dawdles-{learner.seed}").touch()
            time.sleep(1)
"""


COMMAND = """
import sys
sys.executable, *sys.argv = sys.argv[1:]
from clframe.cli.main import main
sys.exit(main(sys.argv))
"""
"""The command line, which starts its own processes by the executable that comes first."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "trouble.py").write_text(TROUBLE)
    return folder


def results(run: Path) -> dict[str, object]:
    """What must be equal however often a run was interrupted."""
    content = json.loads((run / "results.json").read_text())
    return {name: content[name] for name in ("matrix", "metrics", "curves", "strategy", "seed")}


def states(folder: Path) -> dict[str, str]:
    content = json.loads((folder / "sweep.json").read_text())
    return {name: entry["state"] for name, entry in content["runs"].items()}


def waits_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.1)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_every_combination_runs_once_and_is_compared(
    here: Path, quick_python: None, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", "-m", "strategy=naive,cumulative", "seed=range(0,2)", *QUICK, "sweep.jobs=2"]
    assert main(words) == 0
    (folder,) = (here / "runs/sweeps").iterdir()
    names = [f"strategy-{s}_seed-{n}" for s in ("naive", "cumulative") for n in (0, 1)]
    assert states(folder) == dict.fromkeys(names, "finished")
    output = capfd.readouterr()
    assert "[4/4] strategy=" in output.err
    assert "gem.acc" in output.err
    assert "±" in output.out
    assert [line.split()[:2] for line in output.out.splitlines() if line.startswith("cumul")] == [
        ["cumulative", "2"]
    ]
    assert "[5/5] exp4" in (folder / "logs" / f"{names[0]}.log").read_text()
    # The same run by itself has the same numbers.
    assert main(["fit", "strategy=cumulative", "seed=1", *QUICK, "run_dir=alone"]) == 0
    assert results(here / "alone") == results(folder / names[3])

    # The same command again leaves all as it is.
    before = {name: (folder / name / "results.json").stat().st_mtime_ns for name in names}
    capfd.readouterr()
    assert main(words) == 0
    assert "4 finished already" in capfd.readouterr().err
    assert {n: (folder / n / "results.json").stat().st_mtime_ns for n in names} == before

    runs = [read_run(folder / name) for name in names]
    keys = ["seed", "max_steps", "model", "strategy", "trainer.batch_size", "scenario"]
    assert swept_settings(runs, keys) == ["trainer.max_steps", "model.name", "trainer.batch_size"]
    assert main(["compare", str(folder), "--metric", "gem.acc"]) == 0
    assert "naive       2" in capfd.readouterr().out
    assert main(["report", str(folder)]) == 0
    assert "4 runs" in (folder / "report.html").read_text()


def test_a_failed_run_is_reported_and_the_others_continue(
    here: Path, quick_python: None, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "armed").write_text("nothing kill raise")
    words = ["fit", "-m", "plugin_path=trouble.py", "strategy=trouble", "seed=0,1,2", *QUICK]
    words += ["checkpoint.every_n_steps=1", "sweep_dir=all of them"]
    assert main(words) == 2
    folder = here / "all of them"
    assert states(folder) == {"seed-0": "finished", "seed-1": "failed", "seed-2": "failed"}
    output = capfd.readouterr()
    assert "failed: seed=1: its process was ended by SIGKILL" in output.err
    assert "failed: seed=2: RuntimeError: the third block is too much" in output.err
    assert str(Path("all of them/logs/seed-2.log")) in output.err
    assert "2 of 3 runs failed" in output.err
    assert "Traceback" not in output.err
    assert main(["report", "all of them"]) == 0
    assert "seed-2 of the sweep failed: RuntimeError" in (folder / "report.html").read_text()

    # A wider sweep continues what broke off and adds what is missing.
    (here / "armed").unlink()
    kept = (folder / "seed-0/results.json").stat().st_mtime_ns
    assert main([word.replace("0,1,2", "0,1,2,3") for word in words]) == 0
    assert states(folder) == dict.fromkeys([f"seed-{n}" for n in range(4)], "finished")
    assert "4 runs in all of them, 1 finished already, 2 to continue" in capfd.readouterr().err
    assert (folder / "seed-0/results.json").stat().st_mtime_ns == kept
    log = (folder / "logs/seed-1.log").read_text()
    assert "resume=" in log
    assert "[1/5]" not in log.rpartition("$ clframe")[2]  # it did not begin again
    alone = ["fit", "plugin_path=trouble.py", "strategy=trouble", "seed=1", *QUICK]
    assert main([*alone, "run_dir=alone"]) == 0
    assert results(folder / "seed-1") == results(here / "alone")


FORKS = """
import os, signal
os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
from clframe.cli import _prefork
words = _prefork.serve()
if words is not None:
    print("run", *words)
"""
"""What asyncio does to each copy of a process from Python 3.12 on."""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each run starts anew")
def test_a_run_starts_although_the_fork_was_tidied_up(tmp_path: Path, quick_python: None) -> None:
    request = {"name": "a", "words": ["seed=1"], "log": str(tmp_path / "log"), "environment": {}}
    server = subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline()) == {"name": "a", "code": 0}
        server.stdin.close()
    assert (tmp_path / "log").read_text() == "run seed=1\n"


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize(
    "sign", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_a_stopped_sweep_ends_its_runs_and_continues(
    here: Path, quick_python: None, sign: signal.Signals
) -> None:
    (here / "armed").write_text("dawdle dawdle nothing")
    words = ["fit", "-m", "plugin_path=trouble.py", "strategy=trouble", "seed=0,1,2"]
    words += ["max_steps=30", "hidden=[8]", "logger=none", "sweep_dir=all", "sweep.jobs=2"]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, sys.executable, *words],
        stderr=subprocess.PIPE,
        text=True,
        # The tests may run in the background of a shell, which has Ctrl-C ignored there.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    waits_for(lambda: all((here / f"dawdles-{seed}").exists() for seed in (0, 1)))
    pids = [int((here / f"pid-{seed}").read_text()) for seed in (0, 1)]
    assert all(map(alive, pids))
    assert main([*words]) == 2  # one sweep at a time in a folder
    process.send_signal(sign)
    _, output = process.communicate(timeout=120)
    waits_for(lambda: not any(map(alive, pids)))
    assert not (here / "pid-2").exists()
    if sign != signal.SIGKILL:
        assert process.returncode == 130
        assert "0 of 3 runs are finished" in output
        assert "Traceback" not in output
        assert states(here / "all") == {
            "seed-0": "stopped",
            "seed-1": "stopped",
            "seed-2": "waiting",
        }
    (here / "armed").unlink()
    assert main(words) == 0
    assert set(states(here / "all").values()) == {"finished"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["seed=1"], "there is nothing to sweep"),
        ([], "there is nothing to sweep"),
        (["seed=range(0,3"], "'seed=range(0,3' cannot be read"),
        (["seed=1,"], "'seed=1,' cannot be read"),
        (["seed=range(3,3)"], "'seed=range(3,3)' names no value"),
        (["seed=range(0,3,0)"], "'seed=range(0,3,0)' cannot be listed"),
        (["lr=interval(0,1)"], "use range(start,stop,step)"),
        (["seed=choices(1,2)"], "Unknown function 'choices'"),
        (["strategy=ewc,sii"], "unknown strategy 'sii'; did you mean 'si'?"),
        (["strategy=glob(zz*)"], "names no value"),
        (["seed=0,1", "seed=2,3"], "'seed' is given twice"),
        (["seed=0,x"], "(in the run seed=x)"),
        (["seed=0,1", "stream.part=3"], "unknown setting 'part' for stream 'split_mnist'"),
        (["hidden=[1],many"], "'hidden' must be"),
        (["seed=0,1", "max_epoch=1"], "did you mean 'max_epochs'?"),
        (["strategy=naive,ewc", "strategy.ewc.weight=1"], "'ewc' is not part of this strategy"),
        (["seed=0,1", "nonsense"], "'nonsense' is not a setting"),
        (["seed=0,1", "--fast"], "unknown option '--fast'"),
        (["seed=0,1", "run_dir=here"], "set the sweep's folder with sweep_dir="),
        (["seed=0,1", "resume=here"], "a sweep continues by itself"),
        (["plugin_path=trouble.py,trouble.py"], "plugin_path=[a.py,b.py] loads two files"),
        (["seed=0,1", "hydra/launcher=joblib"], "sweep.launcher=local, submitit or ray"),
        (["seed=0,1", "sweep.launcher=jobs"], "one of local, joblib, submitit, ray"),
        (["seed=0,1", "sweep.jobs=0"], "sweep.jobs must be at least 1, got 0"),
        (["seed=0,1", "sweep.jobs=many"], "'jobs' must be a whole number or null"),
        (["seed=0,1", "sweep.job=1"], "unknown setting 'job' for sweep; did you mean 'jobs'?"),
        (["seed=0,1", "sweep.a.b=1"], "settings of a sweep are sweep.NAME=value"),
        (["seed=0,1", "sweep_dir="], "sweep_dir needs a folder"),
        (["seed=0,1", "sweep_dir=full"], "is not empty and holds no sweep"),
        (["seed=0,1", "sweep_dir=trouble.py"], "'trouble.py' is a file; give a folder"),
        (["seed=0,1", "sweep_dir=damaged"], "cannot be read as the record of a sweep"),
        (["seed=0,1", "sweep_dir=other"], "holds a sweep with logger=none, not max_epochs=1"),
        (["lr=0,1", "sweep_dir=other"], "holds a sweep"),
    ],
)
def test_bad_input_is_one_sentence_and_starts_nothing(
    words: list[str], sentence: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, file, text in (
        ("full", "notes.txt", "mine"),
        ("damaged", "sweep.json", "{"),
        (
            "other",
            "sweep.json",
            '{"schema": 1, "fixed": ["logger=none"], "keys": ["seed"], "plugins": "", "runs": {}}',
        ),
    ):
        (here / name).mkdir()
        (here / name / file).write_text(text)
    if words[-1:] == ["sweep_dir=other"]:
        words = [*words, "max_epochs=1"]
    before = sorted(here.rglob("*"))
    assert main(["fit", "-m", *words]) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if line]
    assert len(lines) == 1, lines
    assert sentence in lines[0]
    assert sorted(here.rglob("*")) == before


def test_sweep_settings_without_a_sweep_are_refused(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "sweep.jobs=2"]) == 2
    assert "put -m after fit" in capfd.readouterr().err
    assert main(["fit", "sweep_dir=x"]) == 2
    assert "put -m after fit" in capfd.readouterr().err


def test_an_edited_plugin_makes_another_sweep(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    overrides = ["plugin_path=trouble.py", "strategy=trouble", "seed=0,1"]
    plan, before = check(overrides)
    (here / "trouble.py").write_text(TROUBLE + "# edited\n")
    _, after = check(overrides)
    assert default_folder(plan, before) != default_folder(plan, after)
    assert default_folder(plan, before) == default_folder(plan, before)


def test_glob_takes_the_registered_names() -> None:
    plan, _ = check(["strategy=glob([ewc,online_e*])"])
    assert plan.axes == {"strategy": ("ewc", "online_ewc")}


def test_every_value_is_checked_once() -> None:
    plan = expand(["strategy=a,b,c", "seed=range(0,10)", "lr=1,2"], lambda group: ())
    assert len(plan.combinations) == 60
    assert [tuple(sample.values()) for sample in plan.samples] == [
        ("a", "0", "1"),
        ("b", "0", "1"),
        ("c", "0", "1"),
        ("a", "0", "2"),
    ]


def test_names_of_runs_differ_where_values_do() -> None:
    values = ["a/b", "a b", "a:b", "'a,b'", "[a,b]", "a-b", "x" * 300, "x" * 301]
    names = [run_name({"k": value}) for value in values]
    assert len(set(names)) == len(names)
    assert all("/" not in name and len(name) < 200 for name in names)


def a_job(folder: Path) -> Job:
    (job,) = make_jobs(Plan((), {"seed": ("0",)}), folder)
    return job


@pytest.mark.parametrize(
    ("code", "log", "why"),
    [
        (-9, "", "its process was ended by SIGKILL, perhaps for lack of memory"),
        (-11, "", "its process was ended by SIGSEGV"),
        (130, "", "it was stopped from outside"),
        (0, "", "it ended without a results.json"),
        (3, "", "its process ended with exit code 3"),
        (2, "$ clframe fit\nclframe: no such thing\n", "no such thing"),
        (1, "$ clframe fit\nclframe: old\n$ clframe fit\nTraceback\nE: new\n", "E: new"),
        ("the job is gone", "", "the job is gone"),
    ],
)
def test_reasons_of_failure(code: int | str, log: str, why: str, tmp_path: Path) -> None:
    job = a_job(tmp_path)
    job.log.parent.mkdir()
    job.log.write_text(log)
    assert failure(job, code) == why


def test_without_the_server_of_processes_the_sweep_says_so(quick_python: None) -> None:
    launcher = LocalLauncher(SweepSettings())
    try:
        os.kill(launcher._process.pid, signal.SIGKILL)
        with pytest.raises(ClframeError, match="the process that starts the runs has ended"):
            launcher.wait(60)
    finally:
        launcher.close()


@pytest.mark.parametrize(("launcher", "extra"), [("submitit", "slurm"), ("ray", "ray")])
def test_an_absent_launcher_is_named(
    launcher: str,
    extra: str,
    here: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, launcher, None)  # as if it were not installed
    assert main(["fit", "-m", "seed=0,1", *QUICK, f"sweep.launcher={launcher}"]) == 2
    assert f"pip install 'clframe[{extra}]'" in capfd.readouterr().err


@pytest.mark.slow(minutes=1)
def test_a_cluster_runs_and_reports(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # The whole way through submitit but for the queue.
    words = ["sweep.submitit.cluster=local", "sweep.submitit.timeout_min=10"]
    pytest.importorskip("submitit", reason="submitit is not installed")
    (here / "armed").write_text("nothing kill")
    command = ["fit", "-m", "plugin_path=trouble.py", "strategy=trouble", "seed=0,1", *QUICK]
    command += ["sweep_dir=all", "sweep.launcher=submitit", *words]
    assert main(command) == 2
    assert states(here / "all") == {"seed-0": "finished", "seed-1": "failed"}
    assert "its process was ended by SIGKILL" in capfd.readouterr().err
    (here / "armed").unlink()
    assert main(command) == 0
    assert states(here / "all") == {"seed-0": "finished", "seed-1": "finished"}
