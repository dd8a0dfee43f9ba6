"""Tables beside published ones: bands and flags, pages from stored values, the quick check."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from clframe.config.compose import compose

RESULTS = Path(__file__).parent.parent / "docs" / "results"


@pytest.fixture
def beside(load_benchmark: Any) -> ModuleType:
    module: ModuleType = load_benchmark("beside")
    return module


@pytest.fixture
def results_pages(load_benchmark: Any) -> ModuleType:
    module: ModuleType = load_benchmark("results_pages")
    return module


@pytest.fixture
def published(load_benchmark: Any) -> ModuleType:
    module: ModuleType = load_benchmark("published")
    return module


def table(beside: ModuleType) -> Any:
    """A table with a cell inside of its band, one outside, one unpublished and one not run."""
    value = beside.Published
    return beside.Table(
        "made_up",
        "Made up",
        ("method", "memory"),
        (
            beside.Cell(("er", "200"), (), value(80.0, 0.5, 16)),
            beside.Cell(("er", "500"), (), value(80.0, 0.01, 16), "It was made up."),
            beside.Cell(("naive", "-"), ()),
            beside.Cell(("der", "200"), (), value(90.0)),
        ),
        "Text.",
    )


FOUND = {
    "er_200": {"0": 82.0, "1": 84.0},
    "er_500": {"0": 81.5},
    "naive_-": {"3": 40.0},
}


def test_a_band_is_two_deviations_of_a_single_seed_and_at_least_a_point(beside: ModuleType) -> None:
    assert beside.Published(90.0, 0.5, 16).band == pytest.approx(2 * 0.5 * 4)
    assert beside.Published(90.0, 0.02, 16).band == 1.0
    assert beside.Published(90.0, least=2.0).band == 2.0
    of_runs = beside.of_deviation(90.0, 3.0, 10)
    assert of_runs.error == pytest.approx(3.0 / math.sqrt(10))
    assert of_runs.band == pytest.approx(6.0)
    assert not beside.is_outside(96.0, of_runs)
    assert beside.is_outside(83.9, of_runs)


def test_a_table_flags_what_is_outside_and_says_why(beside: ModuleType) -> None:
    text = beside.markdown(table(beside), FOUND)
    lines = text.splitlines()
    assert "| er | 200 | 83.00 ± 1.00 | 2 | 80.00 ± 0.50 | 16 | +3.00 | ±4.0 |  |" in lines
    assert "| er | 500 | 81.50 | 1 | 80.00 ± 0.01 | 16 | +1.50 | ±1.0 | outside |" in lines
    assert "| naive | - | 40.00 | 1 | - | - | - | - |  |" in lines
    assert "2 of 3 published cells have been run; outside of their band: 1." in lines
    assert lines[-1] == "- er, 500: It was made up."
    rows = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1


def test_the_committed_pages_are_those_of_the_stored_values(results_pages: ModuleType) -> None:
    pages = results_pages.pages()
    assert {"three_scenarios.md", "openloris.md"} <= set(pages)
    for name, text in pages.items():
        assert (RESULTS / name).read_text() == text, f"run benchmarks/results_pages.py for {name}"


def test_every_stored_value_is_of_a_cell_and_is_counted(results_pages: ModuleType) -> None:
    compared = flagged = 0
    for one in results_pages.TABLES:
        path = RESULTS / f"{one.name}.json"
        found = json.loads(path.read_text()) if path.is_file() else {}
        assert set(found) <= set(one.by_name), one.name
        for name, seeds in found.items():
            assert seeds
            assert all(0 <= value <= 100 for value in seeds.values())
            known = one.by_name[name].published
            if known is not None:
                compared += 1
                mean = sum(seeds.values()) / len(seeds)
                deviation = known.error * math.sqrt(known.seeds) if known.error else 0.0
                flagged += abs(mean - known.mean) > max(known.least, 2 * deviation)
    assert results_pages.count() == (compared, flagged)
    assert compared >= 16


def test_every_cell_outside_of_its_band_has_a_reason(
    results_pages: ModuleType, beside: ModuleType
) -> None:
    for one in results_pages.TABLES:
        for cell in beside.outside(one, results_pages.stored(one.name)):
            assert cell.note, f"{one.name}: {cell.name} needs a note on why it is outside"


def test_pages_of_other_values_are_built_without_running(
    results_pages: ModuleType, tmp_path: Path
) -> None:
    assert results_pages.pages(tmp_path) == {}
    assert results_pages.count(tmp_path) == (0, 0)
    (tmp_path / "gem_mnist.json").write_text(json.dumps({"gem_permuted": {"0": 10.0}}))
    (page,) = results_pages.pages(tmp_path).values()
    assert "| gem | permuted | 10.00 | 1 | 83.00 | 1 | -73.00 | ±2.0 | outside |" in page
    assert results_pages.count(tmp_path) == (1, 1)


def test_the_quick_check_has_a_cell_of_each_method(published: ModuleType) -> None:
    quick = published.chosen(None, quick=True)
    assert len(quick) == len(published.QUICK)
    assert {cell.labels[0] for cell in quick.values()} >= {"er", "gem", "agem", "der", "derpp"}
    (only,) = published.chosen(["er"], quick=True).values()
    assert only.labels == ("er", "500", "permuted")
    all_of_er = published.chosen(["er"], quick=False)
    assert {"der_mnist_er_200_rotated", "three_scenarios_er_class"} <= set(all_of_er)
    assert all(cell.published is not None for cell in all_of_er.values())


def test_what_the_quick_check_runs_can_be_composed(published: ModuleType) -> None:
    for cell in published.chosen(None, quick=True).values():
        config = compose([*cell.settings, "seed=3"])
        assert config.seed == 3


def test_the_quick_check_tells_by_its_exit_code(published: ModuleType, beside: ModuleType) -> None:
    cells = {f"made_up_{c.name}": c for c in table(beside).cells if c.published is not None}
    inside = {"made_up_er_200": {"7": 82.0}, "made_up_er_500": {"7": 80.5}}
    cells.pop("made_up_der_200")
    text, code = published.verdicts(cells, inside, 7)
    assert code == 0
    assert text.splitlines()[0] == (
        "made_up_er_200: 82.00 in 76.00 to 84.00 (published 80.00 ± 0.50)"
    )
    outside = inside | {"made_up_er_500": {"7": 78.5}}
    text, code = published.verdicts(cells, outside, 7)
    assert code == 1
    assert "made_up_er_500: 78.50 OUTSIDE 79.00 to 81.00" in text
    text, code = published.verdicts(cells, {"made_up_er_200": {"7": 82.0}}, 7)
    assert code == 2
    assert "made_up_er_500: has no value: its run failed" in text


def test_the_quick_check_needs_full_mnist(
    published: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("sys.argv", ["published.py", "--quick", "--data-dir", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        published.main()
    assert ended.value.code == 2
    assert "holds no MNIST/raw" in capsys.readouterr().err
