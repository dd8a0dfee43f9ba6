"""LoRA in the file layout of the library peft: a JSON config, and pairs in safetensors.

Names in the file are those of a timm network with its head (``base_model.model.blocks.0.attn.qkv.
lora_A.weight``), so that ``PeftModel.from_pretrained(timm.create_model(...), folder)`` finds them.
Other networks keep their names in clframe. The head is stored as ``modules_to_save``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clframe.core.protocols import features_of, head_of
from clframe.errors import SettingError
from clframe.models.tuning.inserts import inserts_of
from clframe.models.tuning.lora import LoRA
from clframe.models.weights import read_weights
from clframe.utils.files import write_bytes, write_json

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
_BEFORE = "base_model.model."


def save(model: nn.Module, folder: Path, slot: int = 0) -> None:
    """Write a model's pairs and its head.

    Args:
        model: A model with LoRA.
        folder: The folder to write to; it is created if necessary.
        slot: The number of the pairs' slot.
    """
    from safetensors.torch import save as to_bytes

    pairs = _pairs(model)
    start = _start(model)
    tensors: dict[str, Tensor] = {}
    for name, pair in pairs.items():
        named = _BEFORE + name.removeprefix(start)
        tensors[f"{named}.lora_A.weight"] = pair.A[slot].weight  # type: ignore[assignment]
        tensors[f"{named}.lora_B.weight"] = pair.B[slot].weight  # type: ignore[assignment]
    head = head_of(model)
    if head is not None:
        for name, value in head.state_dict().items():
            tensors[f"{_BEFORE}head.{name}"] = value
    content = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    first = next(iter(pairs.values()))
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / WEIGHTS, to_bytes(content, metadata={"format": "pt"}))
    write_json(folder / CONFIG, _config(first, [n.removeprefix(start) for n in pairs], head))


def _config(pair: LoRA, targets: list[str], head: Any) -> dict[str, Any]:
    return {
        "base_model_name_or_path": None,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": pair.scale * pair.rank,
        "lora_dropout": pair.dropout.p,
        "modules_to_save": None if head is None else ["head"],
        "peft_type": "LORA",
        "r": pair.rank,
        "target_modules": targets,
        "task_type": None,
    }


def load(model: nn.Module, folder: Path, slot: int = 0) -> None:
    """Load a folder's pairs, and its head if the shape matches, into a model.

    Raises:
        SettingError: The folder holds something else, or another network's pairs.
    """
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingError(
            f"lora.start: '{folder}' has no {CONFIG} in the format of the library peft "
            f"({type(error).__name__}: {error})"
        ) from error
    stored = read_weights(folder / WEIGHTS, "lora.start")
    pairs = _pairs(model)
    start = _start(model)
    for name, pair in pairs.items():
        if (pair.rank, pair.scale) != (rank, alpha / rank):
            raise SettingError(
                f"lora.start: '{folder}' has lora.rank={rank} and lora.alpha={alpha:g}; set these"
            )
        for key, layer in (("lora_A", pair.A[slot]), ("lora_B", pair.B[slot])):
            full = f"{_BEFORE}{name.removeprefix(start)}.{key}.weight"
            weight: Tensor = layer.weight  # type: ignore[assignment]
            value = stored.pop(full, None)
            if value is None or value.shape != weight.shape:
                problem = "missing" if value is None else f"{list(value.shape)}"
                raise SettingError(
                    f"lora.start: '{full}' is {problem} in '{folder}' and {list(weight.shape)} here"
                )
            with torch.no_grad():
                weight.copy_(value)
    _load_head(model, stored, folder)


def _load_head(model: nn.Module, stored: dict[str, Tensor], folder: Path) -> None:
    head = head_of(model)
    own = {} if head is None else {f"{_BEFORE}head.{n}": v for n, v in head.state_dict().items()}
    for name, value in stored.items():
        if name not in own or own[name].shape != value.shape:
            shape = list(own[name].shape) if name in own else "not"
            raise SettingError(
                f"lora.start: '{name}' ({list(value.shape)}) of '{folder}' is {shape} in this model"
            )
        with torch.no_grad():
            own[name].copy_(value)


def _pairs(model: nn.Module) -> dict[str, LoRA]:
    return {name: each for name, each in inserts_of(model).items() if isinstance(each, LoRA)}


def _start(model: nn.Module) -> str:
    """Return the prefix of a timm network's names in our models, which timm does not use."""
    body = features_of(model)
    if body is None:
        return ""
    for name, module in body.named_modules():
        if hasattr(module, "pretrained_cfg") or type(module).__module__.startswith("timm."):
            return f"features.{name}." if name else "features."
    return ""
