"""``clframe doctor --gpu``: a sentence where there is no GPU, a report where there is one."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from clframe.cli import gpu
from clframe.cli.main import main
from clframe.testing import toy_run

VIRTUAL = runpy.run_path(str(Path(__file__).with_name("virtual.py")))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--gpu"]) == 2
    said = capfd.readouterr().err.strip()
    assert said.count("\n") == 0
    assert "torch finds none on this machine" in said
    assert list(tmp_path.iterdir()) == []


def test_the_report_of_a_virtual_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    chosen = ("machine", "resume", "memory", "several GPUs")
    monkeypatch.setattr(gpu, "CHECKS", {title: gpu.CHECKS[title] for title in chosen})
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with VIRTUAL["virtual_card"]():
        assert main(["doctor", "--gpu", "--out", str(tmp_path / "report.md")]) == 0
    report = (tmp_path / "report.md").read_text()
    assert "BAD" not in capfd.readouterr().out
    assert "virtual card" in report
    assert "resumed: the same bits in all weights" in report
    assert report.endswith("Nothing is bad.\n")
    assert not torch.are_deterministic_algorithms_enabled()


def test_what_fails_is_bad_and_the_rest_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops() -> gpu.Lines:
        yield True, "so far"
        raise RuntimeError("CUDA error: no kernel image is available\nmore")

    monkeypatch.setattr(gpu, "CHECKS", {"first": stops, "second": gpu.CHECKS["machine"]})
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with VIRTUAL["virtual_card"]():
        assert gpu.main(tmp_path / "report.md") == 2
    report = (tmp_path / "report.md").read_text()
    assert "| **BAD** | RuntimeError: CUDA error: no kernel image is available |" in report
    assert "compute capability" in report
    assert "1 bad." in report


def test_methods_are_compared_between_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that stops on the GPU is named; the others are compared."""
    import clframe.strategies as strategies
    import clframe.testing as testing

    known = strategies.known_strategies

    def two(registry: object) -> object:
        return {name: known(registry)[name] for name in ("naive", "packnet")}  # type: ignore[arg-type]

    def stops(plugins: list[object], stream: object, **options: object) -> object:
        if plugins and options["accelerator"] == "cuda":
            raise RuntimeError("Expected all tensors to be on the same device")
        return toy_run(plugins, stream, max_epochs=1, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(strategies, "known_strategies", two)
    monkeypatch.setattr(testing, "toy_run", stops)
    with VIRTUAL["virtual_card"](own_generator=False):
        lines = list(gpu.CHECKS["methods"]())
    assert lines == [
        (True, "naive (task): mean accuracies 0.000 apart"),
        (True, "naive (domain): mean accuracies 0.000 apart"),
        (True, "naive (class): mean accuracies 0.000 apart"),
        (False, "packnet (task): Expected all tensors to be on the same device"),
    ]
