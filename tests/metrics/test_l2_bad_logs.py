"""Bad logs: one sentence that names file, row and column, and exit code 2."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clframe.cli.main import main
from clframe.errors import DataError
from clframe.metrics import l2
from tests.helpers.l2_logs import table, write_tsv

DATA = Path(__file__).parents[1] / "data" / "l2metrics" / "ondisk"

Columns = dict[str, list[Any]]


def good() -> Columns:
    columns: Columns = table(
        [("test", "a", [1.0, 2.0]), ("train", "a", [1.0, 2.0, 3.0]), ("test", "a", [2.0, 3.0])]
    )
    return columns


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code = main(["l2", *(str(argument) for argument in arguments)])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    return captured.err


def cell(column: str, row: int, value: object) -> Callable[[Columns], None]:
    def change(columns: Columns) -> None:
        columns[column][row - 1] = value

    return change


@pytest.mark.parametrize(
    ("change", "row", "column", "sentence"),
    [
        (cell("reward", 3, "high"), 3, "reward", "'high' is not a number"),
        (cell("reward", 4, "nan"), 4, "reward", "'nan' is not a number"),
        (cell("reward", 4, "inf"), 4, "reward", "'inf' is infinite"),
        (cell("reward", 5, "-1e999"), 5, "reward", "infinite"),
        (cell("exp_num", 2, "x"), 2, "exp_num", "not a whole number"),
        (cell("exp_num", 2, -1), 2, "exp_num", "not a whole number"),
        (cell("block_num", 2, "1.5"), 2, "block_num", "not a whole number"),
        (cell("block_type", 3, "learn"), 3, "block_type", "must be 'test' or 'train'"),
        (cell("block_subtype", 3, "nap"), 3, "block_subtype", "must be 'wake' or 'sleep'"),
        (cell("exp_status", 3, "done"), 3, "exp_status", "must be 'complete'"),
        (cell("worker_id", 3, "a b"), 3, "worker_id", "not a worker id"),
        (cell("task_name", 3, ""), 3, "task_name", "name is empty"),
        (cell("task_params", 3, "{light}"), 3, "task_params", "not a JSON object"),
        (cell("block_type", 4, "test"), 4, "block_type", "both training and test"),
    ],
)
def test_a_bad_cell(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Columns], None],
    row: int,
    column: str,
    sentence: str,
) -> None:
    columns = good()
    change(columns)
    path = write_tsv(tmp_path / "log.tsv", columns)
    message = refused(capsys, path)
    assert f"{path}, row {row} (line {row + 1}), column '{column}'" in message
    assert sentence in message


def test_blocks_out_of_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = good()
    columns["block_num"] = [0, 0, 2, 2, 2, 1, 1]
    message = refused(capsys, write_tsv(tmp_path / "log.tsv", columns))
    assert "log.tsv, row 6 (line 7), column 'block_num'" in message
    assert "block 1 comes after block 2" in message


def test_two_lifetimes_in_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {name: values * 2 for name, values in good().items()}
    message = refused(capsys, write_tsv(tmp_path / "log.tsv", columns))
    assert "log.tsv, row 8 (line 9), column 'exp_num'" in message
    assert "two lifetimes" in message


def test_two_lifetimes_as_two_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {name: values * 2 for name, values in good().items()}
    columns["worker_id"] = ["w0"] * 7 + ["w1"] * 7
    message = refused(capsys, write_tsv(tmp_path / "log.tsv", columns))
    assert "log.tsv, row 8 (line 9), column 'exp_num'" in message
    assert "two lifetimes" in message


def test_two_lifetimes_in_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(DATA / "ste", tmp_path / "logs")
    message = refused(capsys, tmp_path / "logs")
    assert f"{tmp_path / 'logs'} has 2 lifetimes" in message


@pytest.mark.parametrize("column", ["exp_num", "block_type", "task_name", "exp_status"])
def test_a_missing_column(tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str) -> None:
    columns = good()
    del columns[column]
    message = refused(capsys, write_tsv(tmp_path / "log.tsv", columns))
    assert f"log.tsv has no column '{column}'" in message


def test_a_measure_that_is_declared_but_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(DATA / "ll", tmp_path / "ll")
    info = next((tmp_path / "ll").rglob("logger_info.json"))
    info.write_text('{"metrics_columns": ["score"]}')
    assert "has no column 'score'" in refused(capsys, tmp_path / "ll")


def test_no_measure_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = good()
    del columns["reward"]
    message = refused(capsys, write_tsv(tmp_path / "log.tsv", columns))
    assert "no column with a measure" in message


def test_a_row_with_too_few_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_tsv(tmp_path / "log.tsv", good())
    lines = path.read_text().splitlines()
    lines[3] = lines[3].rsplit("\t", 1)[0]
    path.write_text("\n".join(lines) + "\n")
    message = refused(capsys, path)
    assert f"{path}, row 3 (line 4), column 'reward': the row has 8 cells" in message


def test_empty_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(DATA / "ll", tmp_path / "ll")
    path = next((tmp_path / "ll").rglob("3-train/data-log.tsv"))
    header = path.read_text().splitlines()[0]
    path.write_text(header + "\n")
    assert f"{path} has a header but no rows" in refused(capsys, tmp_path / "ll")
    path.write_text("")
    assert f"{path} is empty" in refused(capsys, tmp_path / "ll")
    path.unlink()
    assert f"The block {path.parent} is empty" in refused(capsys, tmp_path / "ll")


def test_a_block_without_any_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = good()
    columns["exp_status"][2:5] = ["incomplete"] * 3
    message = refused(capsys, write_tsv(tmp_path / "log.tsv", columns))
    assert "row 3 (line 4), column 'reward': block 1 has no complete experience" in message


def test_rows_of_a_folder_are_named_by_their_own_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(DATA / "ll", tmp_path / "ll")
    path = next((tmp_path / "ll").rglob("3-train/data-log.tsv"))
    lines = path.read_text().splitlines()
    cells = lines[2].split("\t")
    lines[2] = "\t".join([*cells[:-1], "oops"])
    path.write_text("\n".join(lines) + "\n")
    message = refused(capsys, tmp_path / "ll")
    assert f"{path}, row 2 (line 3), column 'reward': 'oops'" in message


def test_missing_experts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = tmp_path / "none"
    assert f"no log at {nowhere}" in refused(capsys, DATA / "ll", "--ste", nowhere)
    nowhere.mkdir()
    assert "holds no l2logger folder" in refused(capsys, DATA / "ll", "--ste", nowhere)
    one = DATA / "ste" / "ste_a_1_run1"
    message = refused(capsys, DATA / "ll", "--ste", one)
    assert "the task b_1, learned in block 3, has no single-task expert" in message
    message = refused(capsys, DATA / "ll", "--ste", DATA / "ll")
    assert "is not the log of a single-task expert: it trains 2 tasks" in message


def test_other_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no log at" in refused(capsys, tmp_path / "nothing")
    assert "not an l2logger folder" in refused(capsys, tmp_path)
    assert "--help" in refused(capsys, DATA / "ll", "--profil", "x")
    assert "required" in refused(capsys)
    assert "NAME=VALUE" in refused(capsys, DATA / "ll", "--set", "x")
    assert "Unknown L2 setting 'x'" in refused(capsys, DATA / "ll", "--set", "x=1")
    binary = tmp_path / "log.tsv"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "not readable text" in refused(capsys, binary)


@pytest.mark.parametrize(
    "source", [3, [], {}, {"block_num": [0]}, {"block_num": [0], "exp_num": [0, 1]}]
)
def test_bad_tables_are_refused(source: object) -> None:
    with pytest.raises(DataError):
        l2.evaluate(source)


def test_a_table_may_lack_values_but_not_be_infinite() -> None:
    columns = good()
    columns["reward"][3] = None
    assert l2.evaluate(columns).num_lx == 2
    columns["reward"][3] = float("nan")
    assert l2.evaluate(columns).num_lx == 2
    columns["reward"][3] = float("inf")
    with pytest.raises(DataError, match="the table, row 4, column 'reward'"):
        l2.evaluate(columns)
    columns = good()
    columns["exp_num"][1] = 0.5
    with pytest.raises(DataError, match="row 2, column 'exp_num'"):
        l2.evaluate(columns)
