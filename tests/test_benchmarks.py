"""The parts of the benchmarks that compute: what a run is turned into, tables and their checks."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from clframe.metrics import openloris as metrics_of


@pytest.fixture
def bench(load_benchmark: Any) -> ModuleType:
    module: ModuleType = load_benchmark("openloris")
    return module


def results(seed: int, n: int = 9, shift: float = 0.0) -> dict[str, Any]:
    """A results.json of a made-up run."""
    values = np.random.default_rng(seed).uniform(0.2, 0.8, (n, n)) + shift
    return {
        "matrix": {"columns": [f"t{i}" for i in range(n)], "values": values.tolist()},
        "metrics": {"openloris": metrics_of(values)},
        "source": "made up",
        "timing": {"train_seconds": 12.34},
    }


def test_the_identity_of_the_paper_holds_on_what_is_kept_of_a_run(bench: ModuleType) -> None:
    for n in (2, 9, 12):
        record = bench.measure(results(n, n))
        assert record["tasks"] == n
        assert bench.gap(record) < 1e-12
    whole = bench.measure(results(0))
    assert whole["overall"] == pytest.approx(np.mean(results(0)["matrix"]["values"]))


def test_a_run_that_breaks_the_identity_is_named(bench: ModuleType) -> None:
    good, bad = bench.measure(results(0)), bench.measure(results(1))
    bad["fwt"] += 0.001
    found = {"naive_pixel": {"0": good}, "si_pixel": {"0": good, "2": bad}}
    assert bench.broken(found) == ["si_pixel seed 2"]
    bad["fwt"] = float("nan")
    assert bench.broken(found) == ["si_pixel seed 2"]


def test_published_values_hold_the_identity_as_far_as_a_figure_can_be_read(
    bench: ModuleType,
) -> None:
    count = 0
    for row in bench.PUBLISHED.values():
        for factor, values in zip(bench.FACTORS, row, strict=True):
            if values is not None:
                accuracy, _, fwt, overall = values
                n = 12 if factor == "sequence" else 9
                assert ((n + 1) * accuracy + (n - 1) * fwt) / (2 * n) == pytest.approx(
                    overall, abs=0.5
                )
                count += 1
    assert count == 9 * 5 - 1  # EWC is not in the figure of the sequence


def made_up(bench: ModuleType) -> dict[str, dict[str, Any]]:
    return {
        f"{method}_{factor}": {
            str(seed): bench.measure(results(seed, shift=0.1 * shift)) for seed in (0, 1)
        }
        for factor in ("illumination", "pixel")
        for method, shift in (("naive", 0), ("cumulative", 2), ("ewc", 1), ("dgr", -1))
    }


def test_the_table_has_means_errors_and_gains(bench: ModuleType) -> None:
    found = made_up(bench)
    lines = bench.table(found, "pixel", official=False).splitlines()
    assert lines[0].startswith("| method | Accuracy | BWT | FWT | Over-all | over naive")
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| Naive",
        "| Cumulative",
        "| EWC",
        "| DGR",
    ]
    assert [line.split(" | ")[5] for line in lines[2:]] == ["-", "+20.0", "+10.0", "-10.0"]
    accuracies = [100 * record["accuracy"] for record in found["naive_pixel"].values()]
    mean, error = np.mean(accuracies), np.std(accuracies, ddof=1) / np.sqrt(2)
    assert lines[2].split(" | ")[1] == f"{mean:.1f} ± {error:.1f}"
    assert all(line.count("|") == lines[0].count("|") for line in lines)


def test_published_values_stand_only_beside_the_official_data(bench: ModuleType) -> None:
    found = made_up(bench)
    assert "72.7 / 66.2 / 47.4 / 61.6" in bench.table(found, "pixel", official=True)
    assert "72.7" not in bench.report(found, bench.FACTORS, official=False)


def test_what_is_gained_over_naive_is_said(bench: ModuleType) -> None:
    said = " ".join(bench.statements(made_up(bench), "pixel"))
    assert "Best Accuracy on pixel: Cumulative" in said
    assert "regularisation, EWC, is +10.0 points" in said
    assert "generative replay, DGR, is -10.0 points" in said
    assert bench.statements({}, "pixel") == []


def test_the_spider_chart_has_the_four_metrics_as_fractions(bench: ModuleType) -> None:
    panel = bench.spokes(made_up(bench), "pixel", ["naive", "ewc"])
    assert list(panel) == ["Naive", "EWC"]
    assert list(panel["EWC"]) == ["Accuracy", "BWT", "FWT", "Over-all"]
    assert all(0 < value < 1 for values in panel.values() for value in values.values())


def test_known_seeds_are_not_run_again_and_stay_in_the_table(
    load_benchmark: Any, tmp_path: Path
) -> None:
    grid = load_benchmark("grid")
    known = {"naive_pixel": {"0": 1.0}}
    folder = tmp_path / "naive_pixel" / "s1"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results(1)))
    # Neither of the two is run: one is known, the other is there.
    grid.run_all({"naive_pixel": ["stream=none"]}, [0, 1], known, tmp_path, 1, [])
    found = grid.collect(tmp_path, known, lambda content: len(content["matrix"]["values"]))
    assert found == {"naive_pixel": {"0": 1.0, "1": 9}}


@pytest.mark.usefixtures("quick_python")
def test_a_run_that_fails_is_reported_with_its_last_line(
    load_benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = load_benchmark("grid")
    grid.run_all({"naive_pixel": ["stream=nowhere"]}, [0], {}, tmp_path, 1, [])
    said = capsys.readouterr().out
    assert said.startswith("naive_pixel seed 0: FAILED: unknown stream 'nowhere'")


def test_final_accuracy_is_the_mean_of_the_last_row(load_benchmark: Any) -> None:
    module = load_benchmark("beside")
    assert module.final_accuracy({"matrix": {"values": [[0.1, 0.2], [0.5, 0.7]]}}) == 60.0


def test_evaluation_is_measured_in_both_ways_and_told_as_a_table(load_benchmark: Any) -> None:
    module = load_benchmark("evaluation")
    learner = module.learner_of("packnet", 2)
    row = {"method": "packnet", "tasks": 2, "images": 20, **module.rows(learner, 20, 2)}
    assert 0 < row["spread"][0] <= row["faster"] <= row["spread"][1]
    share = {"share": 0.25, "spread": [0.2, 0.3]}
    text = module.table({"rows": [row], "shares": {"2": {"every": share, "fifth": share}}})
    assert "| 2 | 25 % | 20 to 30 | 25 % | 20 to 30 |" in text
    tables = [part.splitlines() for part in text.split("\n\n")]
    assert all(len({line.count("|") for line in lines}) == 1 for lines in tables)


def test_forgetting_of_the_table_of_tuners(load_benchmark: Any) -> None:
    bench: ModuleType = load_benchmark("peft")
    kept = {"0": {"matrix": [[0.0, 0.0], [0.9, 0.0], [0.8, 0.9]], "trained": 5, "cpu_seconds": 1.0}}
    lost = {"0": {"matrix": [[0.0, 0.0], [0.9, 0.0], [0.1, 0.9]], "trained": 5, "cpu_seconds": 1.0}}
    assert bench.forgetting(lost["0"]["matrix"]) == pytest.approx(0.8)
    assert bench.final(lost["0"]["matrix"]) == pytest.approx(0.5)
    found = {"naive": lost, "naive_own": kept, "lora": kept, "l2p": lost}
    assert bench.checks({**found, "lora": kept}, "naive") == ["L2P (seed 0)"]
    page = bench.page(found, "python benchmarks/peft.py")
    assert "Not as claimed: L2P (seed 0) forgets as much" in page
    assert "| LoRA, shared (lr 0.001) | 85.0 | 10.0 | 10.0 | 5 | 1 |" in page
