"""The profile `reference` equals l2metrics 3.1.0 on every stored scenario and setting."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from clframe.metrics import l2
from clframe.metrics.l2.log_rows import read_rows
from tests.helpers import golden
from tests.helpers.l2_logs import table

DATA = Path(__file__).parents[1] / "data" / "l2metrics"
CASES = list(golden.l2_cases(DATA))


def test_there_is_something_to_check() -> None:
    assert len({scenario for scenario, _ in CASES}) == 9
    assert len(CASES) > 60


@pytest.mark.parametrize(("scenario", "settings"), CASES)
def test_golden_values(scenario: str, settings: str) -> None:
    count, differences = golden.l2_differences(DATA, scenario, settings)
    assert differences == []
    assert count > 50


def test_the_golden_check_notices_wrong_values(tmp_path: Path) -> None:
    source = DATA / "g01_hand_2task"
    folder = tmp_path / "g01"
    folder.mkdir()
    for path in source.iterdir():
        (folder / path.name).write_text(path.read_text())
    expected = json.loads((folder / "expected.json").read_text())
    result = expected["results"]["default"]
    result["lifetime"]["ste_rel_perf"] *= 1 + 2e-6
    result["tasks"]["a_1"]["recovery_times"][0] += 1
    result["regimes"][3]["exp_to_sat"] += 1
    result["lifetime"]["sample_efficiency"] = None
    (folder / "expected.json").write_text(json.dumps(expected))
    _, differences = golden.l2_differences(tmp_path, "g01", "default")
    assert len(differences) == 4


@pytest.mark.parametrize("path", sorted(DATA.glob("*/processed_*.tsv")), ids=lambda p: p.stem)
def test_series_after_preprocessing(path: Path) -> None:
    expected = json.loads((path.parent / "expected.json").read_text())
    settings = expected["results"][path.stem.removeprefix("processed_")]["settings"]
    experts = [path.parent / name for name in expected["ste_files_in_store_order"]]
    result = l2.evaluate(path.parent / "lifetime.tsv", experts, "reference", **settings)
    lines = path.read_text().splitlines()
    header = lines[0].split("\t")
    final = header.index(f"{settings['perf_measure']}_final")
    number = header.index("exp_num")
    wanted = {int(c[number]): float(c[final]) for c in (line.split("\t") for line in lines[1:])}
    series = {
        int(n): v for s in result.series for n, v in zip(s.exp_num, s.value.tolist(), strict=True)
    }
    assert series.keys() == wanted.keys()
    assert all(math.isclose(series[n], wanted[n], rel_tol=1e-6, abs_tol=1e-8) for n in wanted)


def test_folder_table_and_file_give_the_same() -> None:
    names = ("ste_a_1_run1", "ste_b_1_run1")
    from_folder = l2.evaluate(
        DATA / "ondisk" / "ll", [DATA / "ondisk" / "ste" / name for name in names], "reference"
    )
    base = DATA / "g01_hand_2task"
    files = [base / f"{name}.tsv" for name in names]
    from_file = l2.evaluate(base / "lifetime.tsv", files, "reference")
    tables = [dict(read_rows(path).columns) for path in (base / "lifetime.tsv", *files)]
    from_table = l2.evaluate(tables[0], tables[1:], "reference")
    assert from_folder.lifetime == from_file.lifetime == from_table.lifetime
    assert from_folder.tasks == from_file.tasks == from_table.tasks


def test_a_list_of_records_and_rows_in_any_file_order_are_read() -> None:
    rows = read_rows(DATA / "g01_hand_2task" / "lifetime.tsv")
    records = [{name: column[i] for name, column in rows.columns.items()} for i in range(len(rows))]
    for record in records:
        record["reward"] = float(record["reward"])
        record["task_params"] = {}
    result = l2.evaluate(records, profile="reference")
    wanted = l2.evaluate(DATA / "g01_hand_2task" / "lifetime.tsv", profile="reference")
    assert result.lifetime == wanted.lifetime


def test_the_files_of_the_reference_command_line_are_met() -> None:
    path = next((DATA / "ondisk" / "cli_output").glob("*_metrics.json"))
    wanted = json.loads(path.read_text())
    result = l2.evaluate(
        DATA / "ondisk" / "ll",
        sorted((DATA / "ondisk" / "ste").iterdir()),
        "reference",
        maintenance_method="both",
        transfer_method="both",
    )
    checker = golden.Checker(set(), False, 1e-9, 1e-9)
    checker.compare("lifetime", {name: wanted[name] for name in result.lifetime}, result.lifetime)
    checker.compare("tasks", wanted["task_metrics"], result.tasks)
    assert checker.differences == []
    assert checker.count > 80
    assert result.scenario["complexity"] == wanted["complexity"]


def test_format_1_0_without_a_subtype_is_read(tmp_path: Path) -> None:
    text = (DATA / "g01_hand_2task" / "lifetime.tsv").read_text()
    lines = [line.split("\t") for line in text.splitlines()]
    column = lines[0].index("block_subtype")
    old = tmp_path / "old.tsv"
    old.write_text("\n".join("\t".join(c[:column] + c[column + 1 :]) for c in lines) + "\n")
    result = l2.evaluate(old, profile="reference")
    assert (
        result.lifetime
        == l2.evaluate(DATA / "g01_hand_2task" / "lifetime.tsv", profile="reference").lifetime
    )


def test_the_reference_profile_names_its_defects() -> None:
    result = l2.evaluate(DATA / "g01_hand_2task" / "lifetime.tsv", profile="reference")
    assert sum("defect" in note for note in result.notes) == len(l2.REFERENCE_DEFECTS)
    paper = l2.evaluate(DATA / "g01_hand_2task" / "lifetime.tsv")
    assert not any("defect" in note for note in paper.notes)


RAW: dict[str, Any] = {
    "normalization_method": "none",
    "smoothing_method": "none",
    "clamp_outliers": False,
}


def expert_of(task: str, values: list[float]) -> dict[str, list[Any]]:
    """The log of a single-task expert."""
    columns: dict[str, list[Any]] = table([("train", task, values)])
    return columns


def test_an_expert_that_sums_to_nothing_gives_infinity_as_in_the_reference() -> None:
    """Numbers by hand: the program divides numpy floats and takes the mean without NaN.

    Task a rises to 4 at its fourth experience, b is 0 throughout.
    """
    lifetime = table([("train", "a_1", [1.0, 2.0, 3.0, 4.0]), ("train", "b_1", [0.0] * 4)])
    experts = [
        expert_of("a_1", [-2.0, -1.0, 3.0, 0.0]),  # sums to 0, saturates at 3 after 2
        expert_of("a_1", [2.0, 1.0, 4.0, 3.0]),  # RP 10/10, saturates at 4 after 2
        expert_of("b_1", [0.0] * 4),  # 0/0
    ]
    result = l2.evaluate(lifetime, experts, "reference", **RAW)
    a, b = result.tasks["a_1"], result.tasks["b_1"]
    assert a["ste_rel_perf_vals"] == [1.0, math.inf]  # the expert stored last comes first
    assert a["ste_rel_perf"] == math.inf
    assert a["sample_efficiency"] == pytest.approx((4 / 4 * 2 / 3 + 4 / 3 * 2 / 3) / 2)
    assert b["ste_rel_perf"] is None  # 0/0 is not a number, which the program leaves out
    assert result.lifetime["ste_rel_perf"] == math.inf
    content = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert content["lifetime"]["ste_rel_perf"] == "inf"
    assert content["tasks"]["a_1"]["ste_rel_perf_vals"] == [1.0, "inf"]
    assert content["tasks"]["b_1"]["ste_rel_perf_vals"] == [None]
    paper = l2.evaluate(lifetime, experts, "paper", **RAW)
    assert paper.tasks["a_1"]["ste_rel_perf"] == 1.0
    assert paper.lifetime["ste_rel_perf"] == 1.0


def test_an_expert_that_saturates_at_0_gives_infinity_as_in_the_reference() -> None:
    lifetime = table([("train", "a_1", [1.0, 2.0, 3.0, 4.0])])
    expert = expert_of("a_1", [-3.0, -2.0, 0.0, -1.0])
    task = l2.evaluate(lifetime, [expert], "reference", **RAW).tasks["a_1"]
    assert task["ste_saturation_vals"] == [0.0]
    assert task["se_saturation_vals"] == [math.inf]
    assert task["se_exp_to_sat_vals"] == [2 / 3]
    assert task["sample_efficiency"] == math.inf
    paper = l2.evaluate(lifetime, [expert], "paper", **RAW).tasks["a_1"]
    assert paper["sample_efficiency"] is None
    # A curve that falls has 0, whatever the expert does.
    falling = table([("train", "a_1", [3.0, 4.0, 1.0, 0.0])])
    task = l2.evaluate(falling, [expert], "reference", **RAW).tasks["a_1"]
    assert task["sample_efficiency"] == 0.0
    assert task["se_saturation_vals"] == [math.inf]


def test_infinities_of_both_signs_have_no_mean_and_several_lifetimes_leave_them_out() -> None:
    lifetime = table([("train", "a_1", [1.0, 2.0]), ("train", "b_1", [-1.0, -2.0])])
    experts = [expert_of(task, [-1.0, 1.0]) for task in ("a_1", "b_1")]
    result = l2.evaluate(lifetime, experts, "reference", **RAW)
    assert [t["ste_rel_perf"] for t in result.tasks.values()] == [math.inf, -math.inf]
    assert result.lifetime["ste_rel_perf"] is None
    one_task = table([("train", "a_1", [1.0, 2.0])])
    several = l2.evaluate_lifetimes([one_task] * 2, experts[:1], "reference", **RAW)
    assert several.lifetimes[0].lifetime["ste_rel_perf"] == math.inf
    assert several.summary["ste_rel_perf"] is None
