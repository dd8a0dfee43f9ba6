"""The log writer: what it writes can be read, continued and truncated."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from clframe.errors import DataError, SettingError
from clframe.metrics import l2
from clframe.metrics.l2.log_rows import read_rows


def writer(folder: Path, **options: Any) -> l2.L2LogWriter:
    return l2.L2LogWriter(
        folder, ["accuracy", "loss"], clock=lambda: datetime(2026, 1, 2, 3, 4, 5), **options
    )


def write_blocks(log: l2.L2LogWriter, first: int, last: int) -> None:
    """Write blocks that depend only on their number."""
    for block in range(first, last):
        log.begin_block("train" if block % 2 else "test")
        for step in range(5):
            params = {"light": block, "name": 'a "b"'}
            values = {"accuracy": 0.1 * block + 0.01 * step, "loss": 1.0}
            log.record(f"digits_{block // 2 % 2}", values, params=params)
        log.end_block()


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_layout_and_columns_of_the_format(tmp_path: Path) -> None:
    log = writer(tmp_path / "log", scenario={"scenario_type": "custom", "score": math.nan})
    write_blocks(log, 0, 2)
    log.close()
    files = content(tmp_path / "log")
    assert sorted(files) == [
        "logger_info.json",
        "scenario_info.json",
        "worker-default/data-log.tsv",
    ]
    info = json.loads(files["logger_info.json"])
    assert info == {"metrics_columns": ["accuracy", "loss"], "log_format_version": "1.1"}
    assert json.loads(files["scenario_info.json"])["score"] is None
    lines = files["worker-default/data-log.tsv"].decode().splitlines()
    assert lines[0].split("\t") == [
        "block_num", "exp_num", "worker_id", "block_type", "block_subtype", "task_name",
        "task_params", "exp_status", "timestamp", "accuracy", "loss",
    ]  # fmt: skip
    assert lines[1].startswith("0\t0\tworker-default\ttest\twake\tdigits_0\t")
    assert lines[6].startswith("1\t5\tworker-default\ttrain\twake\tdigits_0\t")
    assert len(lines) == 11
    assert "\t20260102T030405.000000\t" in lines[1]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    log = writer(tmp_path / "log")
    log.begin_block("train")
    for step in range(20):
        log.record("a_1", {"accuracy": step / 20, "loss": None}, params={"x": "\t"})
    log.record("a_1", {"accuracy": math.inf, "loss": 1.0})
    log.record("a_1", {"accuracy": 0.99, "loss": 1.0}, complete=False)
    log.begin_block("test", "sleep")
    log.record("a_1", {"accuracy": 0.123456789012345, "loss": 1.0})
    log.close()
    rows = read_rows(tmp_path / "log")
    assert rows.columns["exp_num"] == [str(n) for n in range(23)]
    assert json.loads(rows.columns["task_params"][0]) == {"x": "\t"}
    result = l2.evaluate(tmp_path / "log", normalization_method="none", clamp_outliers=False)
    assert result.measure == "accuracy"
    assert (result.num_lx, result.num_ex) == (20, 1)
    assert result.lifetime["avg_eval_perf"] == 0.123456789012345


def test_a_log_cut_to_some_blocks_and_continued_is_the_same(tmp_path: Path) -> None:
    whole, truncated = tmp_path / "whole", tmp_path / "truncated"
    write_blocks(writer(whole), 0, 6)
    first = writer(truncated)
    write_blocks(first, 0, 5)
    first.begin_block("train")
    first.record("junk", {"accuracy": 0.0, "loss": 0.0})
    first.flush()
    again = writer(truncated, resume=True)
    again.truncate(3)
    assert again.blocks == 3
    write_blocks(again, 3, 6)
    assert content(truncated) == content(whole)


def test_a_log_continued_inside_a_block_is_the_same(tmp_path: Path) -> None:
    def run(log: l2.L2LogWriter, first: int, last: int) -> None:
        for step in range(first, last):
            if step % 4 == 0:
                log.begin_block("train" if step % 8 else "test")
            log.record("a_1", {"accuracy": step / 40, "loss": 0.0})

    whole, truncated = tmp_path / "whole", tmp_path / "truncated"
    for stop in (1, 4, 6, 7, 8):
        complete = writer(whole / str(stop))
        run(complete, 0, 12)
        complete.close()
        killed = writer(truncated / str(stop))
        run(killed, 0, stop)
        state = json.loads(json.dumps(killed.state_dict()))
        run(killed, stop, 11)  # continues after the checkpoint, then is killed
        killed.flush()
        again = writer(truncated / str(stop), resume=True)
        again.load_state_dict(state)
        run(again, stop, 12)
        again.close()
        assert content(truncated / str(stop)) == content(whole / str(stop))


def test_a_state_before_the_first_block_can_be_restored(tmp_path: Path) -> None:
    state = writer(tmp_path / "a").state_dict()
    log = writer(tmp_path / "a", resume=True)
    log.load_state_dict(state)
    write_blocks(log, 0, 2)
    assert read_rows(tmp_path / "a").columns["exp_num"][0] == "0"


def test_blocks_without_rows_leave_no_trace(tmp_path: Path) -> None:
    log = writer(tmp_path / "log")
    log.begin_block("train")
    assert log.begin_block("test") == 0
    log.record("a", {"accuracy": 0.5, "loss": 0.5})
    log.end_block()
    log.begin_block("train")
    log.close()
    assert log.blocks == 1
    assert l2.evaluate(tmp_path / "log").num_ex == 1


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    log = writer(tmp_path / "log")
    with pytest.raises(SettingError, match="Begin a block"):
        log.record("a", {"accuracy": 0.5, "loss": 0.5})
    with pytest.raises(SettingError, match="'train' or 'test'"):
        log.begin_block("learn")
    log.begin_block("train")
    with pytest.raises(SettingError, match="accuracy"):
        log.record("a", {"accuracy": 0.5})
    with pytest.raises(SettingError, match="task name"):
        log.record("a\tb", {"accuracy": 0.5, "loss": 0.5})
    log.record("a", {"accuracy": 0.5, "loss": 0.5})
    log.end_block()
    with pytest.raises(DataError, match="already holds a log"):
        writer(tmp_path / "log")
    with pytest.raises(DataError, match=r"Cannot truncate .* to 5 blocks"):
        writer(tmp_path / "log", resume=True).truncate(5)
    with pytest.raises(DataError, match="had written 3"):
        log.load_state_dict(
            {**log.state_dict(), "block": 0, "rows": 3, "exp_num": 3, "kind": "train"}
        )
    with pytest.raises(SettingError, match="continues a log"):
        writer(tmp_path / "log", resume=True).begin_block("train")
    for measures in ([], ["exp_num"], ["a\tb"]):
        with pytest.raises(SettingError, match="measures"):
            l2.L2LogWriter(tmp_path / "other", measures)
    with pytest.raises(SettingError, match="worker_id"):
        writer(tmp_path / "other", worker_id="a/b")
