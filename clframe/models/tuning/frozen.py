"""A network that is frozen but for its head and what is put into it, and saved without the rest.

A saved state holds what can change, and a digest in the place of what cannot: a checkpoint of a
tuned ViT-B is as small as its adapters, and is refused where the frozen weights are others.
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
    """Freeze a model but for its ``head``, put something in, and save no more what stays frozen.

    Args:
        model: Its own weights are the frozen ones.
        insert: Puts modules into the model, which are trained, and names tensors of the model that
            will be changed on the way although no optimizer does it.
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
    """Tells apart the values of tensors, by their names."""
    total = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors.items():
        total.update(name.encode())
        value = tensor.detach().cpu().contiguous()
        total.update(np.ascontiguousarray(value.flatten().view(torch.uint8).numpy()).data)
    return total.hexdigest()


def save_digest_only(model: nn.Module, frozen: dict[str, Tensor]) -> None:
    """Leave these of a model's tensors out of its saved states; a digest stands for them."""
    names = tuple(frozen)
    digest = digest_of(frozen)
    model.register_buffer(DIGEST, torch.tensor(list(bytes.fromhex(digest)), dtype=torch.uint8))

    def leave_out(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        for name in names:
            state.pop(prefix + name, None)

    def fill_in(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        kept = state.get(prefix + DIGEST)
        if kept is not None and bytes(kept.tolist()).hex() != digest:
            raise SettingError(
                f"what was saved was tuned on other frozen weights ({bytes(kept.tolist()).hex()}) "
                f"than the model has now ({digest}): give it the same ones (model.weights, "
                "model.pretrained, pretrain)"
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
    """Put frozen norms with running statistics into evaluation mode, so that these stay."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            own = list(module.parameters(recurse=False))
            if not any(p.requires_grad for p in own):
                module.eval()
