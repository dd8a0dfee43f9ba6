"""Mixed precision: every strategy runs, and what is kept is in 32 bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightning.fabric.plugins.precision import MixedPrecision
from torch import Tensor
from torch.utils import _pytree as pytree

from clframe import Learner, Plugin, SettingError, hookimpl
from clframe.core.trainer import TrainerSettings
from clframe.plugins import SI
from clframe.run import run
from clframe.testing import prepare_toy, toy_stream
from clframe.training.engine import Engine

QUICK = ("composition", "dgr_task", "norms", "packnet_libero", "scr", "slda")
"""Cases with penalties, a generator, running statistics, masks and passes of their own."""


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_strategy_in_bf16(quick: bool, worker: Any) -> None:
    for case in QUICK if quick else worker.cases():
        end = worker.one(case, 1, precision="bf16-mixed")
        assert torch.tensor(end["matrix"]).isfinite().all(), case
        for path, leaf in pytree.tree_flatten_with_path([end["learner"], end["plugins"]])[0]:
            if isinstance(leaf, Tensor) and leaf.is_floating_point():
                where = f"{case}: {pytree.keystr(path)}"
                assert leaf.dtype in (torch.float32, torch.float64), where
                assert leaf.isfinite().all(), where


def test_bf16_learns_as_32_bits_do(worker: Any) -> None:
    for case in ("er", "ewc", "dgr"):
        half = torch.tensor(worker.one(case, 1, precision="bf16-mixed")["matrix"])
        full = torch.tensor(worker.one(case, 1)["matrix"])
        assert abs(float(half.mean() - full.mean())) < 0.05, case


@pytest.mark.parametrize("precision", ["bf16-true", "64-true", "16", "bf16-mixd"])
def test_precisions_that_cannot_work_are_refused(precision: str) -> None:
    with pytest.raises(SettingError, match="must be 32-true, bf16-mixed or 16-mixed"):
        TrainerSettings(precision=precision)


def test_16_bits_need_a_gpu() -> None:
    with pytest.raises(SettingError, match="16-mixed needs a GPU"):
        Engine(TrainerSettings(accelerator="cpu", precision="16-mixed"))


class _Half(MixedPrecision):
    """The precision of 16-mixed on the CPU, which Lightning offers on GPUs only."""

    def __init__(self, scale: float) -> None:
        super().__init__("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=scale))


class Look(Plugin):
    """Keeps the gradient's norm that plugins see, and says whether the step was taken."""

    def __init__(self) -> None:
        self.norms: list[float] = []
        self.moved: list[bool] = []
        self._before: Tensor

    @hookimpl
    def after_backward(self, learner: Learner) -> None:
        """Note what a plugin is shown."""
        gradients = [p.grad for p in learner.parameters() if p.grad is not None]
        self.norms.append(float(torch.nn.utils.get_total_norm(gradients)))
        self._before = learner.model.head.weight.detach().clone()  # type: ignore[union-attr, operator]

    @hookimpl
    def after_step(self, learner: Learner) -> None:
        """Note whether the optimizer moved."""
        self.moved.append(not torch.equal(learner.model.head.weight, self._before))  # type: ignore[union-attr, arg-type]


def _run(scale: float | None) -> tuple[Look, SI]:
    look, si = Look(), SI()
    prepared = prepare_toy([look, si], toy_stream("class"), max_epochs=1)
    engine = prepared.learner.engine
    if scale is not None:
        half = _Half(scale)
        engine.fabric.strategy.precision = engine.fabric._precision = half
        engine._plain = False
    run(prepared.learner, prepared.stream, "scaled")
    return look, si


def test_plugins_see_gradients_without_the_scale() -> None:
    scaled, _ = _run(1024.0)
    plain, _ = _run(None)
    assert all(scaled.moved)
    for ours, theirs in zip(scaled.norms, plain.norms, strict=True):
        assert ours == pytest.approx(theirs, rel=0.1, abs=0.01)


def test_a_step_that_overflows_leaves_no_trace() -> None:
    look, si = _run(2.0**24)
    lost = look.moved.index(True)
    assert lost > 0  # the scale was too large at first, so the scaler passed over steps
    assert look.norms[:lost] == [0.0] * lost
    for strength in si.quadratic.strength.values():
        assert strength.isfinite().all()
