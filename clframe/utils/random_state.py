"""Capture and restore all random generators of a run, as tensors and plain values."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def capture(generator: torch.Generator, device: torch.device) -> dict[str, Any]:
    """Return the state of all generators that a run uses.

    Args:
        generator: The learner's own generator.
        device: The run's device.
    """
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    plain_keys = torch.from_numpy(np.asarray(keys).astype(np.int64))
    return {
        "torch": torch.get_rng_state(),
        "device": device.type,
        "learner": generator.get_state(),
        # Only of the run's own GPU, because querying the others would take memory on each.
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "python": [version, torch.tensor(internal, dtype=torch.int64), gauss],
        "numpy": [str(name), plain_keys, int(position), int(has_gauss), float(cached)],
    }


def restore(saved: dict[str, Any], generator: torch.Generator, device: torch.device) -> None:
    """Restore all generators to a state from :func:`capture`."""
    torch.set_rng_state(saved["torch"].cpu())
    # Generators of another kind of device have other states, which this one cannot use.
    if saved["device"] == device.type:
        generator.set_state(saved["learner"].cpu())
        if device.type == "cuda":
            torch.cuda.set_rng_state(saved["cuda"].cpu(), device)
    version, internal, gauss = saved["python"]
    random.setstate((version, tuple(internal.tolist()), gauss))
    name, keys, position, has_gauss, cached = saved["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached))
