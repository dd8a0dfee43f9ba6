"""The state of every random generator of a run, as tensors and plain values, and back again."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def capture(generator: torch.Generator, device: torch.device) -> dict[str, Any]:
    """The state of all generators that a run draws from.

    Args:
        generator: The learner's own.
        device: The run's.
    """
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    plain_keys = torch.from_numpy(np.asarray(keys).astype(np.int64))
    return {
        "torch": torch.get_rng_state(),
        "device": device.type,
        "learner": generator.get_state(),
        # Of the run's own GPU alone: to ask the others would take memory on each of them.
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "python": [version, torch.tensor(internal, dtype=torch.int64), gauss],
        "numpy": [str(name), plain_keys, int(position), int(has_gauss), float(cached)],
    }


def restore(saved: dict[str, Any], generator: torch.Generator, device: torch.device) -> None:
    """Make all generators continue where :func:`capture` found them."""
    torch.set_rng_state(saved["torch"].cpu())
    # The generators of another kind of device have other states, which this one cannot take up.
    if saved["device"] == device.type:
        generator.set_state(saved["learner"].cpu())
        if device.type == "cuda":
            torch.cuda.set_rng_state(saved["cuda"].cpu(), device)
    version, internal, gauss = saved["python"]
    random.setstate((version, tuple(internal.tolist()), gauss))
    name, keys, position, has_gauss, cached = saved["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached))
