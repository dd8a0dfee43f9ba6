"""Write configs/experiment/three_scenarios/*.yaml: the split-MNIST protocol of van de Ven & Tolias.

    python scripts/make_three_scenarios.py

The settings are those of "Three scenarios for continual learning" (2019) and, for replay, A-GEM and
iCaRL, the budget of 100 samples a class of "Three types of incremental learning" (2022).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent.parent / "configs" / "experiment" / "three_scenarios"
SCENARIOS = ("task", "domain", "class")

PROTOCOL = """\
# @package _global_
# The split-MNIST protocol of van de Ven & Tolias, "Three scenarios for continual learning" (2019):
# five pairs of digits in an order drawn from the seed, 2,000 steps of 128 samples each, Adam with a
# learning rate of 0.001 whose state is kept, an MLP of two layers of 400, pixels in 0..1.
stream:
  n_experiences: 5
  class_order: shuffled
model:
  hidden: [400, 400]
optimizer:
  lr: 0.001
  fused: true # the same Adam in one pass over the parameters
trainer:
  max_epochs: null
  max_steps: 2000
  batch_size: 128
  drop_last: true
"""

TITLES = {
    "none": "No measure against forgetting",
    "joint": "All data at once",
    "ewc": "Elastic weight consolidation",
    "online_ewc": "Online elastic weight consolidation",
    "si": "Synaptic intelligence",
    "lwf": "Learning without forgetting",
    "dgr": "Deep generative replay",
    "dgr_distill": "Deep generative replay with distillation",
    "rtf": "Replay through feedback",
    "er": "Experience replay, 100 samples a class",
    "agem": "A-GEM, 100 samples a class",
    "icarl": "iCaRL, 100 samples a class",
}
STRATEGY = {"none": "naive", "joint": "multitask"}

# Strengths found by grid search in the 2019 paper, by scenario (task, domain, class).
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "ewc": tuple({"ewc": {"weight": w, "fisher": "predicted"}} for w in (1e7, 1e6, 1e8)),
    "online_ewc": tuple(
        {"ewc": {"weight": w, "gamma": g, "fisher": "predicted"}}
        for w, g in ((1e8, 0.8), (1e8, 0.7), (1e9, 0.8))
    ),
    "si": tuple({"si": {"c": c, "damping": 0.1}} for c in (50.0, 500.0, 0.5)),
    "agem": ({"agem": {"per_class": 100}},) * 3,
    "icarl": ({"icarl": {"per_class": 100}},) * 3,
}


def text(method: str, scenario: str) -> str:
    """One experiment."""
    settings = SETTINGS.get(method, ({}, {}, {}))[SCENARIOS.index(scenario)]
    lines = [
        "# @package _global_",
        f"# {TITLES[method]} on split MNIST, {scenario}-incremental.",
        "defaults:",
        "  - /experiment/three_scenarios/_protocol@_global_",
        f"  - override /strategy: {STRATEGY.get(method, method)}",
        f"scenario: {scenario}",
    ]
    if settings:
        lines.append(yaml.safe_dump({"strategy": settings}, sort_keys=False).rstrip())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "_protocol.yaml").write_text(PROTOCOL)
    for name in TITLES:
        for kind in SCENARIOS:
            if name == "icarl" and kind != "class":
                continue  # its nearest-mean classifier is about telling all classes apart
            (FOLDER / f"{name}_{kind}.yaml").write_text(text(name, kind))
