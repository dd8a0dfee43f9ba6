"""``clframe doctor --gpu``: a sentence where there is no GPU, a report where there is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from clframe import Plugin, Step, hookimpl, strategies, testing
from clframe.cli import _doctor_gpu
from clframe.cli.main import main
from clframe.config.compose import compose
from clframe.core.stream import Stream
from clframe.core.trainer import TrainerSettings
from clframe.testing import toy_run
from tests.helpers import virtual_device


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


def test_a_report_without_what_is_compiled_or_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    left_out = ("methods", "options", "speed")
    chosen = {title: check for title, check in _doctor_gpu.CHECKS.items() if title not in left_out}
    monkeypatch.setattr(_doctor_gpu, "CHECKS", chosen)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with virtual_device.virtual_card():
        assert main(["doctor", "--gpu", "--out", str(tmp_path / "report.md")]) == 0
    report = (tmp_path / "report.md").read_text()
    assert "BAD" not in capfd.readouterr().out
    assert "virtual card" in report
    assert "resumed: the same bits in all weights" in report
    assert "data in main memory: accuracies 0.000 apart" in report
    assert "| ok | 0 synchronizations a step (naive) |" in report
    assert report.endswith("Nothing is bad.\n")
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.slow
def test_the_report_of_a_virtual_gpu(  # the methods have a test of their own
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    chosen = {title: check for title, check in _doctor_gpu.CHECKS.items() if title != "methods"}
    monkeypatch.setattr(_doctor_gpu, "CHECKS", chosen)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with virtual_device.virtual_card():
        assert main(["doctor", "--gpu", "--out", str(tmp_path / "report.md")]) == 0
    report = (tmp_path / "report.md").read_text()
    assert "BAD" not in capfd.readouterr().out
    assert "virtual card" in report
    assert "resumed: the same bits in all weights" in report
    assert "data in main memory: accuracies 0.000 apart" in report
    assert "| ok | 0 synchronizations a step (naive) |" in report
    assert len(re.findall(r"\| ok \| (cpu|cuda): \d+ samples a second", report)) == 2
    for option in (
        "precision=bf16-mixed",
        "precision=16-mixed",
        "compile=True",
        "cuda_graphs=True",
    ):
        assert f"| ok | trainer.{option}: accuracy" in report
    assert report.endswith("Nothing is bad.\n")
    assert not torch.are_deterministic_algorithms_enabled()


def test_what_fails_is_bad_and_the_rest_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops() -> _doctor_gpu.Lines:
        yield True, "so far"
        raise RuntimeError("CUDA error: no kernel image is available\nmore")

    monkeypatch.setattr(
        _doctor_gpu, "CHECKS", {"first": stops, "second": _doctor_gpu.CHECKS["machine"]}
    )
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    with virtual_device.virtual_card():
        assert _doctor_gpu.main(tmp_path / "report.md") == 2
    report = (tmp_path / "report.md").read_text()
    assert "| **BAD** | RuntimeError: CUDA error: no kernel image is available |" in report
    assert "compute capability" in report
    assert "1 bad." in report


def test_methods_are_compared_between_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that stops on the GPU is named; the others are compared."""
    known = strategies.known_strategies

    def two(registry: object) -> object:
        return {name: known(registry)[name] for name in ("naive", "packnet")}  # type: ignore[arg-type]

    def stops(plugins: list[object], stream: object, **options: object) -> object:
        if plugins and options["accelerator"] == "cuda":
            raise TypeError("can't convert cuda:0 device type tensor to numpy\nmore")
        return toy_run(plugins, stream, max_epochs=1, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(strategies, "known_strategies", two)
    monkeypatch.setattr(testing, "toy_run", stops)
    with virtual_device.virtual_card(own_generator=False):
        lines = list(_doctor_gpu.CHECKS["methods"]())
    assert lines == [
        (True, "naive (task): mean accuracies 0.000 apart"),
        (True, "naive (domain): mean accuracies 0.000 apart"),
        (True, "naive (class): mean accuracies 0.000 apart"),
        (False, "packnet (task): TypeError: can't convert cuda:0 device type tensor to numpy"),
    ]


class Curious(Plugin):
    """Looks at the loss in every step."""

    @hookimpl
    def after_step(self, step: Step) -> None:
        self.loss = float(step.loss.detach())  # type: ignore[union-attr]


def test_steps_that_wait_are_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    def curious(plugins: list[Plugin], stream: Stream, **options: object) -> object:
        return toy_run([*plugins, Curious()], stream, **options)

    monkeypatch.setattr(testing, "toy_run", curious)
    with virtual_device.virtual_card():
        assert list(_doctor_gpu.CHECKS["waits"]()) == [(False, "1 synchronizations a step (naive)")]


def test_an_option_that_stops_is_bad_and_the_others_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stops(plugins: list[Plugin], stream: Stream, **options: object) -> object:
        if options.get("cuda_graphs"):
            raise AssertionError
        return toy_run(plugins, stream, accelerator="cpu")

    monkeypatch.setattr(testing, "toy_run", stops)
    lines = list(_doctor_gpu.CHECKS["options"]())
    assert [good for good, _ in lines] == [True, True, True, False, True]
    assert lines[3][1] == "trainer.cuda_graphs=True: AssertionError"


def test_the_command_for_two_gpus_is_understood() -> None:
    trainer = compose([*_doctor_gpu.ON_TWO.split()[1:], "trainer.accelerator=cuda"]).trainer
    settings = TrainerSettings(**trainer)
    assert (settings.devices, settings.strategy, settings.max_steps) == (2, "ddp", 20)


def test_a_command_that_fails_is_bad_with_its_last_line(quick_python: None) -> None:
    good, line = _doctor_gpu._run_command("fit strategy=erx")
    assert not good
    assert line.startswith("clframe fit strategy=erx: exit 2 ")
    assert "'erx'" in line
    assert _doctor_gpu._run_command("--help") == (True, "clframe --help: exit 0")
