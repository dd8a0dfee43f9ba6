"""From a scenario and its experts to every L2 metric, through the command line."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clframe.cli.main import main
from clframe.models.mlp import mlp

PAGE = Path(__file__).parents[2] / "docs" / "scenarios.md"
# The settings of the page's example, with a smaller model.
SCENARIO = [
    *shlex.split(re.findall(r"^S=\((.*?)\)$", PAGE.read_text(), re.S | re.M)[0]),
    "hidden=[64]",
    "logger=none",
]
NAMES = ["task0_plain", "task1_plain", "task0_dark", "task1_dark"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("quick_python")
def test_a_scenario_and_its_experts_give_every_metric(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", *SCENARIO, "run_dir=run"]) == 0
    assert main(["ste", *SCENARIO, "strategy=cumulative", "out=experts"]) == 0
    output = capfd.readouterr()
    assert "clframe l2 RUN/log --ste experts" in output.out
    assert "experts learn without a strategy; 'cumulative' is left out" in output.err
    assert sorted(p.name for p in (here / "experts").iterdir()) == sorted(NAMES)

    assert main(["l2", "run/log", "--ste", "experts"]) == 0
    written = json.loads((here / "run/log/l2metrics/l2metrics.json").read_text())
    assert [name for name, value in written["lifetime"].items() if value is None] == []
    for name in NAMES:
        task = written["tasks"][name]
        assert task["num_lx"] == 60
        assert task["num_ex"] == 13
        missing = {key for key, value in task.items() if value is None}
        # Not defined: forward transfer to what was learned first, recovery where nothing fell.
        undefined = {"recovery_rate"} if task["droop"] == 0 else set()
        if name == "task0_plain":
            undefined |= {"forward_transfer_contrast_avg", "forward_transfer_ratio_avg"}
        assert missing == undefined
    assert len(list((here / "run/log/l2metrics").glob("*.png"))) == 4

    # The first block of the first task is the same for the lifetime and its expert.
    def first_block(log: Path) -> list[str]:
        rows = (log / "worker-default/data-log.tsv").read_text().splitlines()
        return [row.split("\t")[-1] for row in rows if row.startswith("1\t")]

    lived = first_block(here / "run/log")
    assert len(lived) > 10
    assert lived == first_block(here / "experts/task0_plain/log")

    for name in NAMES:
        place = here / "experts" / name
        info = json.loads((place / "log/scenario_info.json").read_text())
        assert info["scenario_type"] == "ste"
        assert not list(place.rglob("*.pt"))
        weights = load_file(place / "weights.safetensors")
        model = mlp((1, 28, 28), 5, hidden=[64])
        model.load_state_dict(weights)
        assert all(bool(torch.isfinite(value).all()) for value in weights.values())
        results = json.loads((place / "results.json").read_text())
        assert results["strategy"] == "expert"
        assert results["matrix"]["columns"] == [name]

    assert main(["ste", *SCENARIO, "--out", "experts"]) == 2
    assert "out 'experts' is not empty" in capfd.readouterr().err


@pytest.mark.usefixtures("quick_python")
def test_experts_of_a_plain_stream(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    quick = [
        "n_experiences=2",
        "limit_train_batches=2",
        "max_epochs=1",
        "hidden=[8]",
        "logger=none",
    ]
    assert main(["fit", *quick, "run_dir=run"]) == 0
    assert main(["ste", *quick]) == 0
    (folder,) = (here / "runs/ste/split_mnist").iterdir()
    capfd.readouterr()
    assert main(["l2", "run", "--ste", str(folder), "--no-plots"]) == 0
    assert "ste_rel_perf" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["stream=scenario", "base=split_mnits"], "unknown stream 'split_mnits'; did you mean"),
        (["stream=nothing"], "unknown stream 'nothing'"),
        (["run_dir=x"], "clframe ste does not take 'run_dir'"),
        (["resume=x"], "clframe ste does not take 'resume'"),
        (["-m", "seed=1,2"], "clframe ste: unknown option '-m'"),
        (["--out"], "argument --out: expected one argument"),
        (["out=file"], "out 'file' is not empty"),
        (["out=file/deeper", "max_epochs=1"], "'file' is a file"),
        (["seed=x"], "seed must be a whole number, got 'x'"),
        (["stream=scenario", "scenario_file=no.yaml"], "scenario_file 'no.yaml' does not exist"),
        (["stream=scenario", "regimes=[{fog:1}]"], "unknown regime parameter 'fog'"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    words: list[str], sentence: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "file").write_text("")
    assert main(["ste", *words]) == 2
    error = capfd.readouterr().err
    lines = [line for line in error.splitlines() if "expert 1 of" not in line]
    assert len(lines) == 1, error
    assert sentence in lines[0]
    assert [path.name for path in here.iterdir()] == ["file"]
