"""Options that make the model's pass faster: the same result, the same checkpoints."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clframe import SettingError
from clframe.core.learner import Learner
from clframe.core.trainer import TrainerSettings
from clframe.models.cnn import cnn
from clframe.testing import prepare, run_built, toy_stream
from clframe.training import compile as compiling
from clframe.training.compile import apply_options, parts_called

HAS_COMPILER = compiling._has_compiler()
COMPILER = pytest.mark.skipif(not HAS_COMPILER, reason="no C++ compiler here")


class Outcome(NamedTuple):
    matrix: np.ndarray
    state: dict[str, Tensor]
    learner: Learner


def outcome(strategy: Any, model: Any, stream: Any, folder: Any = False, **more: Any) -> Outcome:
    resumed = {"resume": folder, "resume_allow": ["trainer"]} if more.pop("resume", False) else {}
    prepared = prepare(
        stream,
        strategy,
        model,
        optimizer=more.pop("optimizer", {"name": "adam", "lr": 0.01}),
        run_dir=folder,
        trainer={"max_epochs": 2, "batch_size": 16, "accelerator": "cpu", **more},
        **resumed,
    )
    result = run_built(prepared)
    state = {k: v.detach().clone() for k, v in prepared.learner.state_dict().items()}
    return Outcome(result.matrix.values, state, prepared.learner)


def same(one: Outcome, other: Outcome) -> None:
    """Matrices equal, weights within 1e-4 of each other."""
    assert (one.matrix == other.matrix).all()
    assert one.matrix[-1].mean() > one.matrix[0].mean()
    assert list(one.state) == list(other.state)
    for key, value in one.state.items():
        assert torch.allclose(value.float(), other.state[key].float(), atol=1e-4, rtol=1e-4), key


# ------------------------------------------------------------ torch.compile

DROPOUT = {"name": "mlp", "hidden": [16], "dropout": 0.2}
EWC = {"ewc": {"weight": 10.0, "samples": 16, "fisher": "true"}, "lwf": {}}
"""Per-sample gradients by hooks, a teacher that is a copy, and random numbers in the model."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    folder = tmp_path_factory.mktemp("compiled") / "run"
    return outcome(EWC, DROPOUT, toy_stream("task"), folder, compile=True), folder


@COMPILER
@pytest.mark.slow
def test_a_compiled_model_gives_the_same_result(compiled: tuple[Outcome, Path]) -> None:
    same(outcome(EWC, DROPOUT, toy_stream("task")), compiled[0])


@COMPILER
@pytest.mark.slow
def test_a_compiled_model_was_compiled_and_its_copy_is_not(
    compiled: tuple[Outcome, Path],
) -> None:
    model = compiled[0].learner.model
    for part in parts_called(model):
        assert part._compiled_call_impl is not None
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 2
    assert not torch._dynamo.utils.counters["graph_break"]
    copied = copy.deepcopy(model)
    assert all(part._compiled_call_impl is None for part in copied.modules())


@COMPILER
@pytest.mark.slow
def test_checkpoints_load_across_the_option(compiled: tuple[Outcome, Path]) -> None:
    whole, folder = compiled
    state = outcome(EWC, DROPOUT, toy_stream("task"), folder, resume=True).state
    assert all(torch.equal(value, state[key]) for key, value in whole.state.items())


def test_without_a_compiler_it_is_said_at_the_start() -> None:
    # By torch's own means: pytest's monkeypatch deletes an attribute that is not in the object's
    # dictionary, and a deleted option is gone for every later test.
    without = torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)})
    said = pytest.raises(
        SettingError, match=r"trainer\.compile=true needs a working C\+\+ compiler"
    )
    with without, said:
        prepare("split_mnist", trainer={"compile": True, "accelerator": "cpu"})
    assert compiling._has_compiler() is HAS_COMPILER


def test_a_compiler_that_makes_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", lambda: "true")
    with pytest.raises(SettingError, match=r"needs a working C\+\+ compiler and found none"):
        prepare("split_mnist", trainer={"compile": True, "accelerator": "cpu"})


def test_what_cannot_be_compiled_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.exc import BackendCompilerFailed

    def broken(*_: Any, **__: Any) -> Any:
        def call(*_: Any) -> Any:
            raise BackendCompilerFailed(broken, ValueError("cannot"), None)

        return call

    monkeypatch.setattr(torch, "compile", broken)
    monkeypatch.setattr(compiling, "_has_compiler", lambda: True)
    with pytest.raises(SettingError, match=r"trainer\.compile=true: torch cannot compile Seq"):
        outcome("naive", DROPOUT, toy_stream(), compile=True)


def test_with_several_processes_it_is_refused() -> None:
    with pytest.raises(SettingError, match="works in one process"):
        compiling.check_options(TrainerSettings(compile=True), torch.device("cpu"), 2)


class Own(nn.Module):
    """A model with features that are a method."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.head = nn.Linear(3, 2)

    def features(self, x: Tensor) -> Tensor:
        return self.body(x).relu()


def test_the_parts_that_are_called_are_found() -> None:
    own, plain = Own(), nn.Sequential(nn.Linear(4, 2))
    assert parts_called(own) == [own.body]
    assert parts_called(plain) == [plain]


# ------------------------------------------------------------ CUDA graphs and layout


def test_cuda_graphs_need_cuda() -> None:
    with pytest.raises(SettingError, match=r"trainer\.cuda_graphs=true needs a CUDA device"):
        prepare("split_mnist", trainer={"cuda_graphs": True, "accelerator": "cpu"})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_cuda_graphs_give_the_same_result() -> None:
    runs = [
        outcome("naive", DROPOUT, toy_stream(), accelerator="cuda", cuda_graphs=value)
        for value in (False, True)
    ]
    assert np.allclose(runs[0].matrix, runs[1].matrix, atol=0.02)


CNN = {"name": "cnn", "channels": [4, 8], "features": 16}


@pytest.mark.parametrize(
    "strategy",
    [
        "naive",
        "si",
        # A penalty that does not diverge, so that rounding stays rounding.
        {"ewc": {"samples": 32, "weight": 1.0}},
        {"packnet": {"post_steps": 3}},
        "lwf",
        "replay",
    ],
    ids=str,
)
def test_channels_last_gives_the_same_result(strategy: Any) -> None:
    stream = {"name": "split_mnist", "n_experiences": 2, "scenario": "task"}
    few: dict[str, Any] = {"max_epochs": None, "max_steps": 6, "batch_size": 64}
    # Adam would make a large step of a gradient that is zero but for rounding.
    few["optimizer"] = {"name": "sgd", "lr": 0.01}
    plain = outcome(strategy, CNN, stream, **few)
    other = outcome(strategy, CNN, stream, channels_last=True, **few)
    weight = next(m for m in other.learner.model.modules() if isinstance(m, nn.Conv2d)).weight
    assert list(plain.state) == list(other.state)
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert (plain.matrix == other.matrix).all()
    for key, value in plain.state.items():
        assert torch.allclose(value.float(), other.state[key].float(), atol=1e-5, rtol=1e-4), key


def test_channels_last_is_the_same_function_with_batch_norm() -> None:
    """In 64 bits: torch's sums of batch norm in this layout have few digits in 32."""
    torch.manual_seed(0)
    one = cnn((3, 16, 16), 4, (4, 8), 16, norm="batch").double()
    other = copy.deepcopy(one)
    apply_options(other, TrainerSettings(channels_last=True))
    x, y = torch.randn(32, 3, 16, 16).double(), torch.arange(32) % 4
    for model in (one, other):
        nn.functional.cross_entropy(model(x), y).backward()
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.allclose(p.grad, q.grad, atol=1e-12, rtol=1e-9)  # type: ignore[arg-type]


def test_channels_last_survives_a_checkpoint(tmp_path: Path) -> None:
    stream = {"name": "split_mnist", "n_experiences": 2}
    few = {"max_epochs": None, "max_steps": 3, "batch_size": 64}
    whole = outcome("naive", CNN, stream, tmp_path / "run", channels_last=True, **few)
    state = outcome("naive", CNN, stream, tmp_path / "run", resume=True, **few).state
    assert all(torch.equal(value, state[key]) for key, value in whole.state.items())
