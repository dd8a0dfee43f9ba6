"""Freeze a network except its head and inserts, and save it without the frozen weights.

A saved state holds the trainable weights and a digest of the others. A checkpoint of a tuned ViT-B
is therefore as small as its adapters, and loading it with other frozen weights raises an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clframe.core.protocols import head_of
from clframe.errors import SettingError

DIGEST = "frozen_digest"


def tune(model: nn.Module, insert: Callable[[], Iterable[Tensor]]) -> None:
    """Freeze a model except its ``head``, add modules, and do not save frozen weights.

    Args:
        model: The model to freeze.
        insert: Adds trainable modules to the model, and returns tensors of the model that will
            change without an optimizer.
    """
    own = {id(tensor) for tensor in model.state_dict(keep_vars=True).values()}
    model.requires_grad_(False)
    head = head_of(model)
    if head is not None:
        head.requires_grad_(True)
    own -= {id(tensor) for tensor in insert()}
    frozen = {
        name: tensor
        for name, tensor in model.state_dict(keep_vars=True).items()
        if id(tensor) in own and not tensor.requires_grad
    }
    save_digest_only(model, frozen)


def digest_of(tensors: dict[str, Tensor]) -> str:
    """Return a hash of the tensors' names and values."""
    total = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors.items():
        total.update(name.encode())
        value = tensor.detach().cpu().contiguous()
        total.update(np.ascontiguousarray(value.flatten().view(torch.uint8).numpy()).data)
    return total.hexdigest()


def save_digest_only(model: nn.Module, frozen: dict[str, Tensor]) -> None:
    """Replace some tensors of a model with a digest in its saved states."""
    names = tuple(frozen)
    digest = digest_of(frozen)
    model.register_buffer(DIGEST, torch.tensor(list(bytes.fromhex(digest)), dtype=torch.uint8))

    def leave_out(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        for name in names:
            state.pop(prefix + name, None)

    def fill_in(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        stored = state.get(prefix + DIGEST)
        if stored is not None and bytes(stored.tolist()).hex() != digest:
            raise SettingError(
                "the saved state was tuned on other frozen weights "
                f"({bytes(stored.tolist()).hex()}) than this model's ({digest}); load the same "
                "ones (model.weights, model.pretrained, pretrain)"
            )
        live = {
            **dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers(remove_duplicate=False)),
        }
        for name in names:
            state[prefix + name] = live[name].detach()

    model.register_state_dict_post_hook(leave_out)
    model.register_load_state_dict_pre_hook(fill_in)


def hold_norms(model: nn.Module) -> None:
    """Put frozen norms with running statistics into evaluation mode, so that they do not change."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            own = list(module.parameters(recurse=False))
            if not any(p.requires_grad for p in own):
                module.eval()
