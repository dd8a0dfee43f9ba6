from __future__ import annotations

import numpy as np
import pytest
import torch

from clframe.core.losses import distillation_loss, soft_targets


def test_distillation_is_the_cross_entropy_of_softened_outputs() -> None:
    rng = np.random.default_rng(0)
    student, teacher, temperature = rng.normal(size=(5, 4)), rng.normal(size=(5, 4)), 2.0

    def softened(row: np.ndarray) -> np.ndarray:
        raised = np.exp(row / temperature)
        return np.asarray(raised / raised.sum())

    expected = np.mean(
        [-(softened(t) * np.log(softened(s))).sum() for s, t in zip(student, teacher, strict=True)]
    )
    targets = soft_targets(torch.tensor(teacher), temperature)
    value = distillation_loss(torch.tensor(student), targets, temperature)
    assert float(value) == pytest.approx(temperature**2 * expected, rel=1e-12)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_shut_outputs_have_no_part(temperature: float) -> None:
    masked = torch.finfo(torch.float32).min
    student = torch.tensor([[0.3, -1.0, masked]], requires_grad=True)
    targets = soft_targets(torch.tensor([[1.0, 0.2, masked]]), temperature)
    value = distillation_loss(student, targets, temperature)
    value.backward()
    alone = distillation_loss(student[:, :2], targets[:, :2], temperature)
    assert float(targets[0, 2]) == 0.0
    assert float(value.detach()) == pytest.approx(float(alone.detach()))
    assert student.grad is not None
    assert torch.isfinite(student.grad).all()
    assert float(student.grad[0, 2]) == 0.0


def test_new_classes_are_pushed_down_by_a_teacher_that_does_not_know_them() -> None:
    student = torch.zeros(1, 3, requires_grad=True)
    distillation_loss(student, torch.tensor([[0.5, 0.5, 0.0]]), 2.0).backward()
    assert student.grad is not None
    # T^2 * (softmax - target) / T
    assert student.grad[0].tolist() == pytest.approx([2 * (1 / 3 - 0.5)] * 2 + [2 / 3])
