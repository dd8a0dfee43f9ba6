"""Batch normalization over the global batch when several processes share it.

``nn.SyncBatchNorm`` runs only on GPUs, and would count the rows that a rank repeats when a batch
does not divide evenly. Outside the shared pass (evaluation and plugins' own passes, which all ranks
make alike) the layers are unchanged.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

if TYPE_CHECKING:
    from clframe.distributed.ranks import Ranks


def sync_batchnorm(model: nn.Module, ranks: Ranks) -> None:
    """Make every batch normalization of a model use the statistics of all ranks' rows."""
    for module in model.modules():
        if isinstance(module, _BatchNorm) and not isinstance(module, nn.SyncBatchNorm):
            module.forward = functools.partial(_forward, module, ranks)  # type: ignore[method-assign]


def _forward(module: _BatchNorm, ranks: Ranks, x: Tensor) -> Tensor:
    use_running = not module.training and module.track_running_stats
    if ranks.valid_mask is None or use_running:
        return type(module).forward(module, x)
    shape = [1, -1, *[1] * (x.dim() - 2)]
    over = [0, *range(2, x.dim())]
    valid = ranks.valid_mask.view(-1, *[1] * (x.dim() - 1))
    wide = x.float()
    total = ranks.global_rows * x[0, 0].numel()
    mean = _Sum.apply((wide * valid).sum(over)) / total
    centered = wide - mean.view(shape)
    variance = _Sum.apply((centered.square() * valid).sum(over)) / total
    if module.training and module.running_mean is not None:
        unbiased = variance.detach() * (total / max(total - 1, 1))
        _update_running_stats(module, mean.detach(), unbiased)
    y: Tensor = centered * (variance + module.eps).rsqrt().view(shape)
    if module.affine:
        y = y * module.weight.view(shape) + module.bias.view(shape)
    return y.to(x.dtype)


def _update_running_stats(module: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Update the running statistics as the layer itself does."""
    assert module.num_batches_tracked is not None  # It exists whenever running_mean does.
    module.num_batches_tracked.add_(1)
    share = module.momentum
    if share is None:
        share = 1.0 / float(module.num_batches_tracked)
    with torch.no_grad():
        for running, now in ((module.running_mean, mean), (module.running_var, variance)):
            running.lerp_(now.to(running.dtype), share)  # type: ignore[union-attr]


class _Sum(torch.autograd.Function):
    """Sum over ranks. Each rank's loss depends on it, so gradients add up as well."""

    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        total = local.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total
