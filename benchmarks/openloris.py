"""The nine algorithms of OpenLORIS-Object on its factors: the paper's metrics and spider chart.

    python benchmarks/openloris.py --factors illumination occlusion --seeds 0 1 2
    python benchmarks/openloris.py --official DIR --jobs 1 --seeds 7

Each cell is ``clframe fit experiment=openloris_small/<method> stream=openloris_<factor> seed=N`` on
rendered data (see grid.py for what is run and kept), or ``experiment=openloris/<method>`` with the
paper's settings on the official data in DIR. Per factor the four metrics of the paper are printed,
mean and standard error over seeds in per cent; the identity
Over-all = ((N + 1) Accuracy + (N - 1) FWT) / 2N is checked on every run. ``table.md``,
``table.json`` and ``spider.png`` are written to the output folder.

Published (official data only): She et al., "OpenLORIS-Object: A robotic vision dataset and
benchmark for lifelong deep learning", ICRA 2020, read off Fig. 5 (single factors) and Fig. 7 (the
12-task sequence) to about one point; one seed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grid

from clframe.report.figures import save, spiders
from clframe.utils.statistics import summarize

METRICS = {"accuracy": "Accuracy", "bwt": "BWT", "fwt": "FWT", "overall": "Over-all"}
FACTORS = ("illumination", "occlusion", "pixel", "clutter", "sequence")
METHODS = {
    "naive": "Naive",
    "cumulative": "Cumulative",
    "lwf": "LwF",
    "ewc": "EWC",
    "online_ewc": "Online EWC",
    "si": "SI",
    "dgr": "DGR",
    "dgr_distill": "DGR + distil",
    "rtf": "DGR feedback",
}
FAMILIES = {
    "regularisation": ("lwf", "ewc", "online_ewc", "si"),
    "generative replay": ("dgr", "dgr_distill", "rtf"),
}
TOLERANCE = 1e-9

# Accuracy, BWT, FWT, Over-all in per cent, by factor in the order of FACTORS.
PUBLISHED: dict[str, tuple[tuple[float, ...] | None, ...]] = {
    "naive": (
        (62, 52.5, 36.5, 50.5),
        (76.7, 71.5, 48, 64.3),
        (72.7, 66.2, 47.4, 61.6),
        (81, 75.6, 49, 66.6),
        (59.4, 52.3, 31.6, 46.7),
    ),
    "cumulative": (
        (99, 98, 41.7, 73.5),
        (99, 98, 47.8, 76.2),
        (99.5, 98, 47.4, 76.3),
        (99.5, 98, 50.8, 77.8),
        (97.6, 98.1, 39.8, 71.1),
    ),
    "lwf": (
        (64.9, 59.5, 34.7, 51.6),
        (84.7, 83.5, 43.3, 66.4),
        (83.5, 82.2, 36.3, 62.6),
        (87.5, 86, 46.5, 69.3),
        (70.8, 66.3, 35.8, 54.9),
    ),
    "ewc": (
        (57.8, 48.8, 35.4, 47.9),
        (86.6, 84.4, 42.2, 66.9),
        (88.8, 86.6, 43.4, 68.7),
        (88.8, 86.4, 48.7, 71),
        None,
    ),
    "online_ewc": (
        (58.4, 49, 32.7, 47),
        (84.2, 80.5, 47.8, 68),
        (83.3, 80.2, 43.6, 65.6),
        (91.3, 89, 49.1, 72.5),
        (65.0, 59.9, 31.3, 49.6),
    ),
    "si": (
        (61.2, 52.6, 36.5, 50.3),
        (78.8, 73.5, 47.5, 65),
        (73, 67, 48, 62),
        (79.3, 74, 47.5, 65.2),
        (59.4, 52.3, 31.3, 46.4),
    ),
    "dgr": (
        (33.8, 29, 20.5, 27.9),
        (36.6, 31.3, 30.3, 33.7),
        (25.7, 19.8, 22.3, 24),
        (30.3, 26.3, 25.1, 28.1),
        (31.0, 26.0, 19.4, 25.7),
    ),
    "dgr_distill": (
        (54, 48, 28.4, 42.7),
        (64.4, 58.3, 38.5, 52.9),
        (57.5, 50.5, 36.1, 48.1),
        (70, 65, 36.5, 55.1),
        (50.7, 43.8, 27.9, 40.3),
    ),
    "rtf": (
        (74.5, 69.5, 38.8, 58.7),
        (76.4, 71, 35, 57.9),
        (68.6, 62, 29.1, 51.1),
        (74.9, 69.8, 31.8, 55.7),
        (42.4, 35.5, 18.3, 31.3),
    ),
}


TITLE = "OpenLORIS: nine algorithms on two factors"
TEXT = """
`python benchmarks/openloris.py --factors illumination occlusion --seeds 0 1 2`, 2026-11-16:
`experiment=openloris_small/<method> stream=openloris_<factor>` on rendered data, a small CNN with
batch normalisation as the paper's VGG has it (DGR feedback: its own MLP-VAE, as in the authors'
code), the paper's strengths of regularisation, not tuned. These are not the real images, so the
numbers are not comparable with the paper's; the order of the methods may be looked at. The column s
/ run was taken while other jobs ran and says little.

![Accuracy, BWT, FWT and Over-all of each method](openloris_spider.png)
"""
REMARKS = """
As in the paper, cumulative training is far ahead; regularisation does nothing or harm against a
change of light and gains against occlusion; the feedback variant, a plain MLP, falls behind on
occlusion. Unlike in the paper, plain generative replay gains over naive training: at 32 x 32 its
generator can learn the images.

Batch normalisation is part of the result: in a single run of naive training on illumination (an
earlier state of the renderer) Accuracy was 40 without normalisation, 56 with batch and 94 with
group normalisation, whose network hardly sees the light. The values of each run are in
`openloris_small.json`.
"""
"""What the page in ``docs/results`` says before and after the tables of the rendered data."""


def gap(record: dict[str, Any]) -> float:
    """How far a run's metrics are from Over-all = ((N + 1) Accuracy + (N - 1) FWT) / 2N."""
    n = record["tasks"]
    implied: float = ((n + 1) * record["accuracy"] + (n - 1) * record["fwt"]) / (2 * n)
    return abs(float(record["overall"]) - implied)


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run: the paper's metrics as fractions, and which data they are of."""
    record: dict[str, Any] = {name: results["metrics"]["openloris"][name] for name in METRICS}
    record["tasks"] = len(results["matrix"]["columns"])
    record["source"] = results["source"]
    record["train_seconds"] = round(results["timing"]["train_seconds"], 1)
    return record


def broken(found: grid.Found) -> list[str]:
    """The runs whose metrics do not hold the identity."""
    return [
        f"{cell} seed {seed}"
        for cell, seeds in found.items()
        for seed, record in seeds.items()
        if not gap(record) < TOLERANCE
    ]


def value(records: Sequence[dict[str, Any]], metric: str) -> tuple[float, str]:
    """Mean over seeds in per cent, and the same as text with its standard error."""
    summary = summarize([100.0 * record[metric] for record in records])
    text = f"{summary.mean:.1f}"
    if summary.standard_error is not None:
        text += f" ± {summary.standard_error:.1f}"
    return summary.mean, text


def records_of(found: grid.Found, method: str, factor: str) -> list[dict[str, Any]]:
    """All seeds of a cell."""
    return list(found.get(f"{method}_{factor}", {}).values())


def table(found: grid.Found, factor: str, official: bool) -> str:
    """One factor: all methods that have been run, with the published values if these are theirs."""
    published = " | published |" if official else " |"
    lines = [
        f"| method | {' | '.join(METRICS.values())} | over naive | seeds | s / run{published}",
        "|" + " --- |" * (len(METRICS) + 4 + official),
    ]
    base = records_of(found, "naive", factor)
    for method, title in METHODS.items():
        records = records_of(found, method, factor)
        if not records:
            continue
        cells = [value(records, metric)[1] for metric in METRICS]
        gain = "-"
        if base and method != "naive":
            gain = f"{value(records, 'accuracy')[0] - value(base, 'accuracy')[0]:+.1f}"
        seconds = summarize([record["train_seconds"] for record in records]).mean
        row = [title, *cells, gain, str(len(records)), f"{seconds:.0f}"]
        if official:
            known = PUBLISHED[method][FACTORS.index(factor)]
            row.append("-" if known is None else " / ".join(f"{x:g}" for x in known))
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def statements(found: grid.Found, factor: str) -> list[str]:
    """What the numbers of a factor say, in sentences."""
    means = {
        method: value(records, "accuracy")[0]
        for method in METHODS
        if (records := records_of(found, method, factor))
    }
    if "naive" not in means:
        return []
    best = max(means, key=lambda method: means[method])
    said = [f"Best Accuracy on {factor}: {METHODS[best]} ({means[best]:.1f})."]
    for family, methods in FAMILIES.items():
        present = {m: means[m] - means["naive"] for m in methods if m in means}
        if present:
            top = max(present, key=lambda method: present[method])
            low = min(present, key=lambda method: present[method])
            said.append(
                f"The best of {family}, {METHODS[top]}, is {present[top]:+.1f} points of Accuracy "
                f"from naive, the worst, {METHODS[low]}, {present[low]:+.1f}."
            )
    return said


def spokes(found: grid.Found, factor: str, methods: Sequence[str]) -> dict[str, dict[str, float]]:
    """One panel of the spider chart: means over seeds as fractions."""
    return {
        METHODS[method]: {
            title: value(records_of(found, method, factor), metric)[0] / 100.0
            for metric, title in METRICS.items()
        }
        for method in methods
    }


def report(found: grid.Found, factors: Sequence[str], official: bool) -> str:
    """All factors as Markdown."""
    sources = {record["source"] for seeds in found.values() for record in seeds.values()}
    runs = sum(len(seeds) for seeds in found.values())
    parts = [
        "Per cent, mean ± standard error over seeds; *over naive* is the difference in Accuracy. "
        f"Data: {'; '.join(sorted(sources))}. The identity Over-all = ((N + 1) Accuracy + "
        f"(N - 1) FWT) / 2N holds on all {runs} runs (within {TOLERANCE:g})."
    ]
    for factor in factors:
        if any(records_of(found, method, factor) for method in METHODS):
            parts += [f"## {factor}", table(found, factor, official)]
            parts.append("\n".join(f"- {line}" for line in statements(found, factor)))
    return "\n\n".join(part for part in parts if part)


def page(found: grid.Found) -> str:
    """The page of the rendered data in ``docs/results``."""
    parts = [f"# {TITLE}", TEXT.strip(), report(found, FACTORS, official=False), REMARKS.strip()]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run what is missing, check it and write the tables and the chart."""
    parser = grid.parser(__doc__, "runs/openloris_benchmark")
    parser.add_argument("--factors", nargs="+", default=["illumination", "occlusion"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--official", type=Path, metavar="DIR", help="the official data")
    parser.add_argument("--data-dir", type=Path, help="where rendered and decoded images are kept")
    arguments = parser.parse_args()
    for factor in arguments.factors:
        if factor not in FACTORS:
            parser.error(f"there is no factor '{factor}'; known: {', '.join(FACTORS)}")
    official = arguments.official is not None
    extra = [f"stream.folder={arguments.official.resolve()}"] if official else []
    if arguments.data_dir:
        extra.append(f"data_dir={arguments.data_dir}")
    extra += arguments.set
    known = grid.read_known(arguments.known)
    group = "openloris" if official else "openloris_small"
    cells = {
        f"{method}_{factor}": [f"experiment={group}/{method}", f"stream=openloris_{factor}"]
        for factor, method in itertools.product(arguments.factors, arguments.methods)
    }
    grid.run_all(cells, arguments.seeds, known, arguments.out, arguments.jobs, extra)
    found = grid.collect(arguments.out, known, measure)
    if wrong := broken(found):
        sys.exit(f"Over-all is not ((N + 1) Accuracy + (N - 1) FWT) / 2N in: {', '.join(wrong)}")
    text = report(found, FACTORS, official)
    grid.write(arguments.out, found, text, Path(__file__).name)
    drawn = [factor for factor in FACTORS if records_of(found, "naive", factor)]
    methods = [m for m in METHODS if all(records_of(found, m, factor) for factor in drawn)]
    if drawn and methods:
        save(spiders({f: spokes(found, f, methods) for f in drawn}), arguments.out / "spider.png")
    print("\n" + text)


if __name__ == "__main__":
    main()
