"""`clframe l2`: tables, valid JSON and images."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from clframe.cli.l2 import main
from clframe.metrics import l2

DATA = Path(__file__).parents[1] / "data" / "l2metrics"
IMAGES = ("l2_lifetime.png", "l2_evaluations.png", "l2_experts.png", "l2_transfer.png")


def strict_json(path: Path) -> dict[str, object]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{path} holds {name}")

    content = json.loads(path.read_text(), parse_constant=refuse)
    assert isinstance(content, dict)
    return content


def test_one_lifetime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    code = main(
        [str(DATA / "ondisk" / "ll"), "--ste", str(DATA / "ondisk" / "ste"), "--out", str(out)]
    )
    printed = capsys.readouterr()
    assert code == 0
    assert printed.err == ""
    content = strict_json(out / "l2metrics.json")
    result = l2.evaluate(DATA / "ondisk" / "ll", sorted((DATA / "ondisk" / "ste").iterdir()))
    assert content["lifetime"] == result.lifetime
    assert content["profile"] == "paper"
    for name, value in result.lifetime.items():
        assert f"{name} " in printed.out
        assert value is None or f"{value:.3f}" in printed.out
    for task in ("a_1", "b_1"):
        assert f"\n{task} " in printed.out
    for name in IMAGES:
        head = (out / name).read_bytes()[:24]
        assert head[1:4] == b"PNG"
        width, height = struct.unpack(">II", head[16:24])
        assert width > 500
        assert height > 200
    assert sorted(p.name for p in out.iterdir()) == sorted([*IMAGES, "l2metrics.json"])


def test_reference_profile_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = [str(DATA / "ondisk" / "ll"), "--profile", "reference", "--out", str(out)]
    assert main([*arguments, "--no-plots"]) == 0
    printed = capsys.readouterr().out
    assert "profile reference" in printed
    assert "reproduces a defect" in printed
    assert [p.name for p in out.iterdir()] == ["l2metrics.json"]


def test_several_lifetimes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        shutil.copytree(DATA / "ondisk" / "ll" / "g01_hand_2task", tmp_path / "runs" / f"r{number}")
    out = tmp_path / "out"
    code = main([str(tmp_path / "runs"), "--recursive", "--out", str(out), "--no-plots"])
    assert code == 0
    assert "2 lifetimes" in capsys.readouterr().out
    content = strict_json(out / "l2metrics.json")
    assert isinstance(content["lifetimes"], list)
    assert len(content["lifetimes"]) == 2
    assert isinstance(content["summary"], dict)
    recovery = content["summary"]["perf_recovery"]
    assert recovery["n"] == 2
    assert recovery["standard_error"] == 0.0


def test_results_go_beside_the_log_unless_told_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "ll"
    shutil.copytree(DATA / "ondisk" / "ll" / "g01_hand_2task", log)
    assert main([str(log), "--no-plots"]) == 0
    assert (log / "l2metrics" / "l2metrics.json").is_file()
    assert main([str(log), "--no-plots"]) == 0  # its own output does not disturb it
    capsys.readouterr()


def test_settings_files_of_the_reference_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"log_dir": "x", "maintenance_method": "both"}))
    ranges = tmp_path / "ranges.json"
    bounds = {"min": 0, "max": 100}
    ranges.write_text(json.dumps({"a_1": bounds, "b_1": bounds}))
    out = tmp_path / "out"
    arguments = ["--settings", str(settings), "--data-range", str(ranges), "--no-plots"]
    arguments += ["--set", "window_length=3", "--set", "perf_measure=reward", "--out", str(out)]
    assert main([str(DATA / "ondisk" / "ll"), *arguments]) == 0
    capsys.readouterr()
    content = strict_json(out / "l2metrics.json")
    assert isinstance(content["settings"], dict)
    assert content["settings"]["window_length"] == 3
    assert isinstance(content["lifetime"], dict)
    assert "perf_maintenance_mrtlp" in content["lifetime"]
    assert content["normalization_data_range"] == {"a_1": bounds, "b_1": bounds}


def test_many_tasks_and_a_log_without_evaluations_can_be_drawn(tmp_path: Path) -> None:
    from clframe.metrics.l2.plots import draw_all

    log = l2.L2LogWriter(tmp_path / "log", ["accuracy"])
    for task in range(12):
        log.begin_block("train")
        for step in range(5):
            log.record(f"t{task}_1", {"accuracy": step / 5})
    log.close()
    paths = draw_all(l2.evaluate(tmp_path / "log"), tmp_path)
    assert [path.name for path in paths] == ["l2_lifetime.png"]
