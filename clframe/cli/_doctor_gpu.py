"""``clframe doctor --gpu``: check that everything that runs on the CPU also runs on the GPU.

Every method trains on a toy stream on both. On the GPU a run is also killed and resumed, with data
in main memory, in mixed precision, compiled, as CUDA graphs and, if there are several, on two GPUs.
Steps that wait for the GPU are counted. The results go into a report.
"""

from __future__ import annotations

import copy
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clframe.errors import SettingError
from clframe.utils.console import print_out
from clframe.utils.files import write_text
from clframe.utils.version import __version__

Lines = Iterator[tuple[bool, str]]

_FAR = 0.2
"""Maximum difference in accuracy of the same lifetime on CPU and GPU due to rounding. (A toy stream
has 80 samples a task, and sums that differ in their last digits lead to other weights.)"""
_MEASURES_ONLY = ("continual_world",)
"""Methods that need other runs' folders."""
ON_TWO = (
    "fit stream=split_mnist stream.n_experiences=2 strategy=er trainer.max_steps=20 logger=null "
    "run_dir=false trainer.devices=2 trainer.strategy=ddp"
)
"""A run of two processes, each with its own GPU."""
_SMALL: dict[str, dict[str, Any]] = {
    "generative_replay": {"hidden": [16], "latent": 4},
    "feedback_replay": {"hidden": [16], "latent": 4},
}


def main(out: Path) -> int:
    """Run all checks, print and write the results; exit 0 if nothing is bad."""
    import torch

    if not torch.cuda.is_available():
        raise SettingError(
            "doctor --gpu checks a CUDA device, but torch finds none on this machine: see clframe "
            "doctor for the devices there are"
        )
    if not out.absolute().parent.is_dir():
        raise SettingError(f"--out: there is no folder '{out.parent}' for the report")
    # cuBLAS reads it on first use, and needs it for reproducible bits.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    lines, broken = [f"# clframe on {torch.cuda.get_device_name(0)}", ""], 0
    for title, check in CHECKS.items():
        print_out(title)
        lines += [f"## {title}", "", "| | |", "| --- | --- |"]
        for good, line in _guarded(check):
            broken += not good
            print_out(f"  {'ok ' if good else 'BAD'} {line}")
            lines.append(f"| {'ok' if good else '**BAD**'} | {line.replace('|', '/')} |")
        lines.append("")
    lines.append(f"{broken} bad." if broken else "Nothing is bad.")
    write_text(out, "\n".join(lines) + "\n")
    print_out(f"written to '{out}'")
    return 2 if broken else 0


def _guarded(check: Callable[[], Lines]) -> Lines:
    """Return the lines of a check; any exception becomes a bad line."""
    try:
        yield from check()
    except Exception as error:  # The report contains it.
        yield False, _sentence(error)


def _sentence(error: Exception) -> str:
    """Return an error's type and the first line of its message, if it has one."""
    first_line = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


# ---------------------------------------------------------------- checks


def _machine() -> Lines:
    import torch

    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        major, minor = torch.cuda.get_device_capability(index)
        yield (
            True,
            f"cuda:{index} {torch.cuda.get_device_name(index)}, compute capability "
            f"{major}.{minor}, {free / 2**30:.1f} of {total / 2**30:.1f} GB free",
        )
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    yield True, f"clframe {__version__}, {versions}"
    yield True, f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
    yield (
        True,
        f"TF32: {torch.backends.cudnn.allow_tf32} in convolutions, matrix products "
        f"'{torch.get_float32_matmul_precision()}'",
    )
    yield True, f"deterministic algorithms: {torch.are_deterministic_algorithms_enabled()}"


def _methods() -> Lines:
    """Run every method on the CPU and on the GPU."""
    from clframe.core.registry import discover
    from clframe.strategies import known_strategies
    from clframe.testing import toy_run, toy_stream

    registry = discover()
    for name, strategy in known_strategies(registry).items():
        if name in _MEASURES_ONLY:
            continue

        def plugins(chosen: Mapping[str, Any] = strategy.plugins) -> list[Any]:
            return [
                registry.build("plugin", plugin, {**settings, **_SMALL.get(plugin, {})})
                for plugin, settings in chosen.items()
            ]

        every = 1 if name == "best_checkpoint" else None
        for scenario in ("task", "domain", "class"):
            if any(scenario not in plugin.scenarios for plugin in plugins()):
                continue
            try:
                results = {
                    device: toy_run(
                        plugins(),
                        toy_stream(scenario),
                        accelerator=device,
                        check_val_every_n_epoch=every,
                    )[0].matrix.values
                    for device in ("cpu", "cuda")
                }
            except (
                Exception
            ) as error:  # Of any kind, so that the other methods are checked as well.
                yield False, f"{name} ({scenario}): {_sentence(error)}"
                continue
            apart = float(abs(results["cpu"] - results["cuda"]).mean())
            yield apart <= _FAR, f"{name} ({scenario}): mean accuracies {apart:.3f} apart"


def _resume() -> Lines:
    """Check that a run resumed at a step has the same bits, with random numbers from the GPU."""
    import torch

    from clframe.core.plugin import Plugin
    from clframe.plugins import Replay
    from clframe.testing import killed_run, toy_run, toy_stream

    options: dict[str, Any] = {"accelerator": "cuda", "deterministic": True}
    plugins: list[Plugin] = [Replay(size=20)]
    before = torch.are_deterministic_algorithms_enabled()
    try:
        whole, learner = toy_run(copy.deepcopy(plugins), toy_stream(), **options)
        in_parts, resumed = killed_run(plugins, toy_stream(), **options)
    finally:
        torch.use_deterministic_algorithms(before)
    state = resumed.state_dict()
    same = all(torch.equal(value, state[key]) for key, value in learner.state_dict().items())
    yield bool((whole.matrix.values == in_parts.matrix.values).all()), "resumed: the same matrix"
    yield same, "resumed: the same bits in all weights"


def _memory() -> Lines:
    """Compare data on the GPU with data in main memory (batches through pinned memory)."""
    from clframe.testing import toy_run, toy_stream

    there, _ = toy_run([], toy_stream(), accelerator="cuda")
    host, _ = toy_run([], toy_stream(), accelerator="cuda", device_memory=0)
    apart = float(abs(there.matrix.values - host.matrix.values).max())
    yield apart <= _FAR, f"data in main memory: accuracies {apart:.3f} apart"
    yield True, f"peak: {there.timing['peak_memory_bytes'] / 2**20:.0f} MB"


def _waits() -> Lines:
    """Count the synchronizations that torch sees in the steps of a run."""
    import torch

    from clframe.testing import toy_run, toy_stream

    counts = []
    for samples in (40, 440):
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                stream = toy_stream(n_experiences=1, samples=samples)
                toy_run([], stream, accelerator="cuda", max_epochs=1)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        counts.append(sum("synchroniz" in str(warning.message) for warning in seen))
    # Fifty more steps: an epoch and an evaluation may wait a few times, a step may not.
    each = (counts[1] - counts[0]) / 50
    yield each < 0.5, f"{each:g} synchronizations a step (naive)"


def _speed() -> Lines:
    """Measure steps of the default perceptron on both devices."""
    from clframe.testing import prepare, run_built, toy_stream

    for device in ("cpu", "cuda"):
        stream = toy_stream(n_experiences=1, samples=2000, features=784)
        built = prepare(stream, trainer={"max_epochs": 3, "batch_size": 128, "accelerator": device})
        started = time.perf_counter()
        result = run_built(built)
        rate = result.timing["samples_per_second"]
        yield (
            True,
            f"{device}: {rate:.0f} samples a second ({time.perf_counter() - started:.1f} s)",
        )


def _options() -> Lines:
    """Check options that only a GPU has, or that differ there."""
    from clframe.testing import toy_run, toy_stream

    for options in (
        {"precision": "bf16-mixed"},
        {"precision": "16-mixed"},
        {"compile": True},
        {"cuda_graphs": True},
        {"channels_last": True},
    ):
        setting = " ".join(f"trainer.{key}={value}" for key, value in options.items())
        try:
            result, _ = toy_run([], toy_stream("task"), accelerator="cuda", **options)
        except Exception as error:  # Of any kind, so that the other options are checked as well.
            yield False, f"{setting}: {_sentence(error)}"
            continue
        learned = float(result.matrix.values[-1].mean())
        yield learned > 0.6, f"{setting}: accuracy {learned:.2f} after all tasks"


def _several() -> Lines:
    """Run on two GPUs, which communicate through NCCL."""
    import torch

    if torch.cuda.device_count() < 2:
        yield True, "one GPU, so NCCL cannot be checked here"
        return
    yield _run_command(f"{ON_TWO} trainer.accelerator=cuda")


def _run_command(arguments: str) -> tuple[bool, str]:
    """Run a command of clframe in its own process; return whether it succeeds."""
    done = subprocess.run(
        [sys.executable, "-m", "clframe", *arguments.split()], capture_output=True, text=True
    )
    last_line = (done.stderr.strip().splitlines() or [""])[-1] if done.returncode else ""
    return done.returncode == 0, f"clframe {arguments}: exit {done.returncode} {last_line}".rstrip()


CHECKS: dict[str, Callable[[], Lines]] = {
    "machine": _machine,
    "methods": _methods,
    "resume": _resume,
    "memory": _memory,
    "waits": _waits,
    "speed": _speed,
    "options": _options,
    "several GPUs": _several,
}
