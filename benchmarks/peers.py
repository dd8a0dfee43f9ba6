"""clframe, Avalanche and a bare loop: wall time, memory and accuracy on split MNIST.

    python benchmarks/peers.py --data-dir DIR [--repeats 3] [--json FILE] [--markdown FILE]

Full MNIST in five experiences, 784-400-400-10, batch 128, one epoch, all tasks tested after each
experience, with as many threads as torch takes. Every case is a process of its own and the cases
take turns. Avalanche runs in a virtual environment that is made on the first call
(``--environments``); it borrows torch and torchvision from the environment that runs this file, so
that both use the same build.

``DIR`` holds ``MNIST/raw`` as torchvision leaves it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

METHODS = ("naive", "replay", "ewc", "online_ewc", "si", "lwf")
CASES = Path(__file__).parent / "peer_cases"
PACKAGES = (
    "avalanche-lib==0.6.0 --no-deps",
    "psutil gputil scikit-learn pytorchcv tensorboard torchmetrics gdown qpsolvers dill --no-deps",
    "scipy joblib threadpoolctl requests beautifulsoup4 soupsieve absl-py grpcio markdown "
    "werkzeug tensorboard-data-server lightning-utilities narwhals",
)


def avalanche_python(folder: Path) -> Path:
    """The interpreter of Avalanche's environment, made if it is not there."""
    python = folder / "avalanche" / "bin" / "python"
    done = folder / "avalanche" / ".complete"
    if done.exists():
        return python
    print(f"making an environment for Avalanche in {folder / 'avalanche'}", flush=True)
    venv.create(folder / "avalanche", with_pip=True, clear=True)
    lent = next((folder / "avalanche" / "lib").glob("python*")) / "site-packages" / "lent.pth"
    lent.write_text(sysconfig.get_paths()["purelib"] + "\n")
    for packages in PACKAGES:
        subprocess.run([python, "-m", "pip", "install", "-q", *packages.split()], check=True)
    done.touch()
    return python


def run_case(python: Path | str, case: str, method: str, data_dir: Path, seed: int) -> Any:
    """Run one case in a process of its own and read what it measured."""
    command = [str(python), str(CASES / f"{case}.py"), method, str(data_dir), str(seed)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{case} {method} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def summary(runs: dict[str, dict[str, list[Any]]]) -> dict[str, Any]:
    """Medians and ratios; a ratio is of the two times of one turn."""
    plain = runs["bare"]["naive"]
    bare = [r["seconds"] for r in plain]
    report: dict[str, Any] = {}
    for method in runs["ours"]:
        ours, theirs = runs["ours"][method], runs["avalanche_lib"][method]
        faster = [b["seconds"] / a["seconds"] for a, b in zip(ours, theirs, strict=True)]

        def described(case: list[Any]) -> dict[str, float]:
            times = [r["seconds"] for r in case]
            return {
                "seconds": statistics.median(times),
                "of_bare": statistics.median(t / b for t, b in zip(times, bare, strict=True)),
                "peak_megabytes": statistics.median(r["peak_bytes"] for r in case) / 1e6,
                "accuracy": statistics.mean(statistics.mean(r["accuracies"]) for r in case),
            }

        report[method] = {
            "clframe": described(ours),
            "avalanche": described(theirs),
            "faster": statistics.median(faster),
            "spread": [min(faster), max(faster)],
        }
    report["bare"] = {
        "seconds": statistics.median(bare),
        "peak_megabytes": statistics.median(r["peak_bytes"] for r in plain) / 1e6,
        "accuracy": statistics.mean(
            statistics.mean(r["accuracies"]) for r in runs["bare"]["naive"]
        ),
    }
    return report


def table(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [
        "| method | clframe s | of bare | Avalanche s | of bare | times faster | lowest to highest "
        "| MB | Avalanche MB | accuracy | Avalanche |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for method, row in report.items():
        if method == "bare":
            continue
        a, b = row["clframe"], row["avalanche"]
        low, high = row["spread"]
        lines.append(
            f"| {method} | {a['seconds']:.1f} | {a['of_bare']:.2f} | {b['seconds']:.1f} | "
            f"{b['of_bare']:.2f} | {row['faster']:.2f} | {low:.2f} to {high:.2f} | "
            f"{a['peak_megabytes']:.0f} | {b['peak_megabytes']:.0f} | {a['accuracy']:.3f} | "
            f"{b['accuracy']:.3f} |"
        )
    bare = report["bare"]
    lines.append(
        f"\nBare loop, naive: {bare['seconds']:.1f} s, {bare['peak_megabytes']:.0f} MB, accuracy "
        f"{bare['accuracy']:.3f}."
    )
    return "\n".join(lines)


def main() -> None:
    """Run all cases in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--environments", type=Path, default=Path("runs/peers"))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    pythons: dict[str, Path | str] = {
        "bare": sys.executable,
        "ours": sys.executable,
        "avalanche_lib": avalanche_python(arguments.environments.resolve()),
    }
    runs: dict[str, dict[str, list[Any]]] = {case: {} for case in pythons}
    for seed in range(arguments.repeats):
        bare = run_case(pythons["bare"], "bare", "naive", arguments.data_dir, seed)
        runs["bare"].setdefault("naive", []).append(bare)
        for number, method in enumerate(arguments.methods):
            order = ["ours", "avalanche_lib"]
            for case in order if (seed + number) % 2 else order[::-1]:
                result = run_case(pythons[case], case, method, arguments.data_dir, seed)
                runs[case].setdefault(method, []).append(result)
                print(f"{case} {method} seed {seed}: {result['seconds']:.1f} s", flush=True)
    report = summary(runs)
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(table(report) + "\n")


if __name__ == "__main__":
    main()
