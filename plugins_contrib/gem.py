"""GEM: no step may raise the loss on the stored samples of any past task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clframe import Capabilities, Plugin, hookimpl
from clframe.data.buffer import Buffer
from clframe.utils.setting_checks import check_at_least

from ._gradients import gradients, learned_now

if TYPE_CHECKING:
    from clframe import Data, Learner, Stream


class GEM(Plugin):
    """GEM: projection onto gradients that do not oppose any past task's gradient.

    With g the step's gradient and the rows of G those of the past tasks' samples: if G g has a
    negative entry, g becomes G'v + g, where v solves the dual of eq. 11 of the paper,
    min over v >= margin of v'(GG' + eps I)v / 2 + (G g)'v.

    This method needs one more backward pass per past task in each step, so its time grows with
    their number. It also waits for the device, because the small quadratic program is solved on the
    host. ``agem`` does neither.

    Args:
        per_task: Samples kept of each task, drawn uniformly.
        margin: Lower bound of the dual variables: how strongly to favor the past (the paper's
            "memory strength").
        eps: Constant added to the diagonal for a unique solution.
    """

    name = "gem"
    paper = "Lopez-Paz & Ranzato, Gradient Episodic Memory for Continual Learning, 2017"
    roles = ("gradient",)
    capabilities = Capabilities(needs_boundaries=True)
    state = ("buffer",)

    def __init__(self, per_task: int = 256, margin: float = 0.5, eps: float = 1e-3) -> None:
        self.per_task = per_task
        self.margin = margin
        self.eps = eps
        check_at_least(self, self.name, per_task=1, margin=0, eps=0)
        self.buffer: Buffer
        self._tasks: list[Tensor] = []

    @hookimpl
    def configure(self, stream: Stream) -> None:
        """Create the buffer."""
        size = self.per_task * len(stream.tasks)
        self.buffer = Buffer(size, "class_balanced", per_group=self.per_task)

    @hookimpl
    def before_experience(self) -> None:
        """Look up once where each past task is in the buffer."""
        self._tasks = []
        if len(self.buffer):
            tasks = self.buffer.column("tasks")
            self._tasks = [(tasks == task).nonzero().squeeze(1) for task in tasks.unique()]

    @hookimpl
    def after_backward(self, learner: Learner) -> None:
        """Project the gradient if it would harm a past task."""
        if not self._tasks:
            return
        parameters = learned_now(learner)
        rows = [
            flat(gradients(learner, self.buffer.batch(learner, positions), parameters))
            for positions in self._tasks
        ]
        past = torch.stack(rows)
        current = flat([p.grad for p in parameters if p.grad is not None])
        along = (past @ current).double().cpu().numpy()
        if (along >= 0).all():
            return
        gram = (past @ past.T).double().cpu().numpy() + self.eps * np.eye(len(past))
        weights = solve_dual(gram, along, self.margin)
        fixed = current + past.T @ torch.from_numpy(weights).to(past)
        pieces = fixed.split([p.numel() for p in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            assert parameter.grad is not None
            parameter.grad.copy_(piece.view_as(parameter))

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Store samples of the experience's tasks."""
        self.buffer.add(data, learner.generator, data.tasks)


def flat(tensors: list[Tensor]) -> Tensor:
    """Return all tensors as one vector."""
    return torch.cat([tensor.flatten() for tensor in tensors])


def solve_dual(
    gram: NDArray[np.float64], linear: NDArray[np.float64], margin: float
) -> NDArray[np.float64]:
    """Return the v >= margin that minimizes v' gram v / 2 + linear' v, for positive definite gram.

    The active-set method of Lawson & Hanson ("Solving Least Squares Problems", 1974), exact after
    finitely many small solves: variables leave the bound one at a time, and return to it if
    the solution over the free ones would cross it.

    >>> solve_dual(np.eye(2), np.array([-3.0, 1.0]), 0.0).tolist()
    [3.0, 0.0]
    """
    # With u = v - margin the bound is zero.
    slope = linear + margin * gram.sum(1)
    u: NDArray[np.float64] = np.zeros_like(slope)
    free = np.zeros(len(u), dtype=bool)
    tolerance = 1e-12 * max(1.0, float(np.abs(slope).max()))
    for _ in range(3 * len(u) + 10):
        descent = np.where(free, -np.inf, -(gram @ u + slope))
        if descent.max() <= tolerance:
            break
        free[descent.argmax()] = True
        while True:
            target = np.zeros_like(u)
            target[free] = np.linalg.solve(gram[np.ix_(free, free)], -slope[free])
            crossing = free & (target <= 0)
            if not crossing.any():
                u = target
                break
            reach = np.where(crossing, u / np.where(crossing, u - target, 1.0), np.inf)
            u = u + reach.min() * (target - u)
            # The variable that stops the move is set to its bound, despite rounding.
            free &= u > 0
            free[reach.argmin()] = False
            u[~free] = 0.0
    u += margin
    return u
