"""The command line as a user meets it: what works, and one sentence for what does not."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import clframe
from clframe.checkpoint.store import note_sum
from clframe.cli.main import main
from tests.helpers.processes import ProcessServer, until

QUICK = ["trainer.max_epochs=1", "logger=none"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


SYNTAX_ERROR = "def (:\n"
NO_PLUGIN = "x = 1\n"
MISSPELT = (
    "from clframe import Plugin, hookimpl\n"
    "class Mine(Plugin):\n"
    "    @hookimpl\n"
    "    def after_expirience(self): ...\n"
)
UNMARKED = (
    "from clframe import Plugin\nclass Mine(Plugin):\n    def penalty(self, step): return None\n"
)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["fit", "stream=split_mnits"],
            "unknown stream 'split_mnits'; did you mean 'split_mnist'?",
        ),
        (["fit", "strategy=nave"], "unknown strategy 'nave'; did you mean 'naive'?"),
        (["fit", "strategy=[naive,cumulativ]"], "did you mean 'cumulative'?"),
        (["fit", "model=mpl"], "unknown model 'mpl'; did you mean 'mlp'?"),
        (["fit", "logger=wandbb"], "unknown logger 'wandbb'; did you mean 'wandb'?"),
        (["fit", "experiment=nothing"], "unknown experiment 'nothing'"),
        (["fit", "modell=mlp"], "unknown key 'modell'; did you mean 'model'?"),
        (["fit", "trainer.max_epoch=1"], "unknown setting 'max_epoch' for trainer"),
        (["fit", "strategy.ewc.weight=1"], "'ewc' is not part of this strategy"),
        (["fit", "_target_=os.system"], "unknown key '_target_'"),
        (["fit", "stream._target_=os.system"], "unknown setting '_target_' for stream"),
        (["fit", "trainer.max_epochs=-1"], "trainer.max_epochs must be at least 0, got -1"),
        (["fit", "trainer.max_epochs=many"], "'max_epochs' must be a whole number or null"),
        (["fit", "seed=x"], "seed must be a whole number, got 'x'"),
        (["fit", "scenario=classes"], "scenario must be one of task, domain, class"),
        (["fit", "lr=1,2"], "put -m after fit to sweep them"),
        (["fit", "nonsense"], "'nonsense' is not a setting; write key=value"),
        (["fit", "data_dir=file"], "data_dir 'file' is a file; it must be a folder"),
        (["fit", "run_dir=file"], "run_dir 'file' is a file; give a folder"),
        (["fit", "run_dir=file/deeper"], "cannot be made: 'file' is a file"),
        (["fit", "trainer.accelerator=abacus"], "invalid accelerator name"),
        (["fit", "trainer.devices=64"], "asks for 64 processes"),
        (["fit", "plugin_path=nothing.py"], "cannot open 'nothing.py'"),
        (["fit", "plugin_path=syntax.py"], "'syntax.py' line 1: invalid syntax"),
        (["fit", "plugin_path=empty.py"], "defines no subclass of clframe.Plugin"),
        (["fit", "plugin_path=misspelt.py"], "did you mean 'after_experience'?"),
        (["fit", "plugin_path=unmarked.py"], "is named like a hook but lacks @hookimpl"),
        (["fit", "resume=nothing"], "'nothing' is not a run folder"),
        (["fit", "resume=nothing", "seed=1"], "'nothing' is not a run folder"),
        (["fit", "stream=split_cifar10"], "put the official Python files into"),
        (["fit", "strategy=[cumulative,multitask]"], "'cumulative' cannot be combined with"),
        (["train"], "unknown command 'train'"),
        (["list", "stream"], "did you mean 'streams'?"),
        (["new", "plugin", "3d"], "'3d' cannot be a plugin's name"),
        (["eval", "nothing"], "'nothing' is not a run folder"),
        (["report", "nothing"], "nothing does not exist"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    words: list[str], sentence: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, content in (
        ("file", ""),
        ("syntax.py", SYNTAX_ERROR),
        ("empty.py", NO_PLUGIN),
        ("misspelt.py", MISSPELT),
        ("unmarked.py", UNMARKED),
    ):
        (here / name).write_text(content)
    assert main(words) == 2
    captured = capfd.readouterr()
    lines = [line for line in captured.err.splitlines() if line]
    assert len(lines) == 1, captured.err
    assert sentence in lines[0]
    assert "Traceback" not in captured.err
    assert not (here / "runs").exists()


def test_a_folder_without_write_right_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Root may write everywhere, so it becomes somebody else, who can look into this folder.
    nobody = 65534
    main(["fit", "run_dir=/proc/nowhere/run"])  # imports what somebody else might not read
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("CLFRAME_DATA", f"{folder}/data")
        Path("locked").mkdir(mode=0o555)
        me = os.geteuid()
        try:
            if me == 0:
                os.seteuid(nobody)
            if not os.access(clframe.__file__, os.R_OK, effective_ids=True):
                pytest.skip("this checkout is in a folder that only its owner can read")
            assert os.access("locked", os.R_OK, effective_ids=True)
            assert main(["fit", "run_dir=locked/run"]) == 2
        finally:
            os.seteuid(me)
        assert "'locked/run' cannot be written" in capfd.readouterr().err
        assert not list(Path("locked").iterdir())


def test_a_folder_that_cannot_be_made_is_refused(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "run_dir=/proc/nowhere/run"]) == 2
    assert "'/proc/nowhere/run' cannot be written" in capfd.readouterr().err


def test_debug_shows_the_traceback(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clframe import ClframeError

    monkeypatch.setenv("CLFRAME_DEBUG", "1")
    with pytest.raises(ClframeError):
        main(["fit", "stream=nothing"])


def without_timing(path: Path) -> dict[str, object]:
    content = json.loads(path.read_text())
    content.pop("timing")
    return dict(content)


def test_the_same_command_twice_gives_identical_results(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", "strategy=naive", "stream=split_mnist", "scenario=class", "seed=1", *QUICK]
    for number in "ab":
        assert main([*words, f"run_dir={number}"]) == 0
    a, b = without_timing(here / "a/results.json"), without_timing(here / "b/results.json")
    assert a == b
    assert (here / "a/matrix.csv").read_bytes() == (here / "b/matrix.csv").read_bytes()
    output = capfd.readouterr()
    assert "embedded subset" in output.out
    assert "gem.acc" in output.out
    assert "[5/5] exp4" in output.err


def test_the_run_folder_keeps_its_contract(here: Path) -> None:
    assert main(["fit", "trainer.max_epochs=1"]) == 0
    (run,) = (here / "runs/split_mnist/naive").iterdir()
    assert run.name.endswith("-s0")
    names = {path.name for path in run.iterdir()}
    assert {"config.yaml", "results.json", "matrix.csv", "events.jsonl", "checkpoints"} <= names
    results = json.loads((run / "results.json").read_text())
    assert results["schema"] == 1
    assert {"stream", "strategy", "scenario", "seed", "curves", "metrics", "environment"} <= set(
        results
    )
    assert results["matrix"]["rows"] == ["before", *(f"exp{i}" for i in range(5))]
    assert results["matrix"]["columns"] == [f"task{i}" for i in range(5)]
    assert len(results["matrix"]["values"]) == 6
    timing = results["timing"]
    assert {
        "train_seconds",
        "cpu_seconds",
        "eval_seconds",
        "eval_share",
        "samples_per_second",
        "peak_memory_bytes",
    } == set(timing)
    whole = timing["train_seconds"] + timing["eval_seconds"]
    assert timing["eval_share"] == pytest.approx(timing["eval_seconds"] / whole)
    assert "embedded" in results["source"]
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["trainer"]["max_epochs"] == 1
    assert config["model"] == {"name": "mlp", "hidden": [400, 400], "dropout": 0.0, "init": "torch"}
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [e["event"] for e in events].count("epoch") == 5
    assert next(e["row"] for e in events if e["event"] == "evaluation") == "before"
    assert (run / "csv" / "metrics.csv").is_file()


def test_a_second_run_in_one_folder_is_refused(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "run_dir=one", *QUICK]) == 0
    before = (here / "one/results.json").read_bytes()
    assert main(["fit", "run_dir=one", *QUICK]) == 2
    assert "holds a run already" in capfd.readouterr().err
    assert (here / "one/results.json").read_bytes() == before


def test_resume_continues_to_the_same_numbers(clframe_process: ProcessServer, here: Path) -> None:
    assert main(["fit", "run_dir=whole", *QUICK]) == 0
    code = (
        "import os, sys\n"
        "from clframe.checkpoint.checkpointer import Checkpointer\n"
        "write = Checkpointer._write\n"
        "def stop(self, *given):\n"
        "    number = write(self, *given)\n"
        "    if len(self.learner.seen) == 2: os._exit(9)\n"
        "    return number\n"
        "Checkpointer._write = stop\n"
        "from clframe.cli.main import main\n"
        f"sys.exit(main(['fit', 'run_dir=part', 'every_n_steps=1000', *{QUICK}]))\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = clframe_process.run("-c", code, folder=here, environment=environment)
    assert done.returncode == 9, done.stderr
    assert not (here / "part/results.json").exists()
    assert main(["fit", "resume=part"]) == 0
    assert without_timing(here / "whole/results.json") == without_timing(here / "part/results.json")
    lines = (here / "part/events.jsonl").read_text().splitlines()
    assert len(lines) == len((here / "whole/events.jsonl").read_text().splitlines())


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_leaves_with_130_and_goes_on(
    clframe_process: ProcessServer, here: Path, sign: signal.Signals
) -> None:
    command = ["-m", "clframe", "fit", "run_dir=run", "max_epochs=12", "logger=none"]
    errors = here / "errors"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = clframe_process.start(command, here, environment, errors=errors)
    try:
        # One experience is safe then.
        until(lambda: "[1/5]" in errors.read_text() or process.poll() is not None, 120)
        said = errors.read_text()
        process.signal(sign)
        code = process.wait(60)
    finally:
        process.kill()
    rest = errors.read_text().removeprefix(said)
    assert code == 130, said + rest
    assert "Traceback" not in rest
    assert "stopped; continue with clframe fit resume=" in rest
    assert not (here / "run/results.json").exists()
    assert main(["fit", "resume=run"]) == 0
    assert len((here / "run/matrix.csv").read_text().splitlines()) == 7


def test_a_checkpoint_that_holds_code_is_refused(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import pickle

    class Attack:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
            return os.system, ("touch attacked",)

    assert main(["fit", "run_dir=run", *QUICK]) == 0
    newest = max((here / "run/checkpoints").glob("*.pt"))
    note = newest.with_suffix(".json")
    content = pickle.dumps({"learner": Attack()})
    newest.write_bytes(content)
    # Somebody who makes a checkpoint makes its sum as well.
    said = json.loads(note.read_text())
    said.pop("note_sha256")
    said.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    note.write_text(json.dumps(said | {"note_sha256": note_sum(said)}))
    assert main(["fit", "resume=run"]) == 2
    assert "holds more than tensors and plain values" in capfd.readouterr().err
    assert not (here / "attacked").exists()


def test_eval_measures_the_recorded_row_again(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "run_dir=run", *QUICK]) == 0
    capfd.readouterr()
    assert main(["eval", "run"]) == 0
    output = capfd.readouterr().out
    assert "differ" not in output
    recorded = json.loads((here / "run/results.json").read_text())["matrix"]["values"][-1]
    assert json.loads(output.splitlines()[-1])["values"] == recorded


def test_report_and_compare_take_real_runs(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        assert main(["fit", f"seed={seed}", f"run_dir=runs/s{seed}", *QUICK]) == 0
    assert main(["report", "runs/s0"]) == 0
    assert "<svg" in (here / "runs/s0/report.html").read_text()
    capfd.readouterr()
    assert main(["compare", "runs"]) == 0
    assert "naive" in capfd.readouterr().out


def test_list_shows_every_kind(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    output = capfd.readouterr().out
    for name in ("split_mnist", "naive", "mlp", "openloris", "wandb", "adam"):
        assert name in output


def test_doctor_finds_nothing_broken(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    output = capfd.readouterr().out
    assert "BAD" not in output
    assert "embedded subset" in " ".join(output.split())  # lines are broken as there is room
    assert re.search(r"^  -   MNIST: not in", output, re.M)  # nothing is ok that is not there


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from clframe.cli.main import main; main(['--help']);"
        "sys.exit(bool({'torch', 'lightning', 'hydra', 'mujoco'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
