"""Write configs/experiment/openloris/*.yaml and configs/experiment/openloris_small/*.yaml.

    python scripts/make_openloris.py

``openloris`` holds the settings of the nine algorithms as the authors of OpenLORIS-Object run them
(She et al., ICRA 2020, and their benchmark code), for the official data. ``openloris_small`` is the
same grid in a size for a CPU: rendered data, a small network, fewer steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent / "configs" / "experiment"
FACTORS = ("illumination", "occlusion", "pixel", "clutter", "sequence")
TITLES = {
    "naive": "No measure against forgetting",
    "cumulative": "All data so far, for the same number of steps",
    "lwf": "Learning without forgetting",
    "ewc": "Elastic weight consolidation",
    "online_ewc": "Online elastic weight consolidation",
    "si": "Synaptic intelligence",
    "dgr": "Deep generative replay",
    "dgr_distill": "Deep generative replay with distillation",
    "rtf": "Replay through feedback (DGR feedback), one MLP for classifier and generator",
}

OFFICIAL = """\
# @package _global_
# OpenLORIS-Object as in the paper (She et al., ICRA 2020) and its code: 121 instances, 50x50 RGB in
# 0..1, VGG-16 with batch normalisation from scratch, Adam with a learning rate of 0.0001 whose
# state is kept, 3,000 steps of 32 samples a task, one head, no task label. Needs official data.
stream:
  source: official
  target: instance
  modality: rgb
  size: 50
optimizer:
  lr: 0.0001
trainer:
  max_epochs: null
  max_steps: 3000
  batch_size: 32
  drop_last: true
"""

SMALL = """\
# @package _global_
# OpenLORIS in a size for a CPU: rendered data of 121 instances, 32x32 RGB in 0..1, a small
# convolutional network, Adam with a learning rate of 0.001 whose state is kept, 200 steps of 32
# samples a task, one head, no task label. Strengths of penalties are the paper's.
stream:
  source: rendered
  target: instance
  modality: rgb
  size: 32
optimizer:
  lr: 0.001
  fused: true # the same Adam in one pass over the parameters
trainer:
  max_epochs: null
  max_steps: 200
  batch_size: 32
  drop_last: true
"""

VGG: dict[str, Any] = {"hidden": [4096, 4096], "dropout": 0.5}
MLP: dict[str, Any] = {"hidden": [400, 400]}
CNN: dict[str, Any] = {
    "channels": [16, 32, 64],
    "features": 256,
    "down": "stride",
    "norm": "batch",
}
VAE: dict[str, Any] = {"hidden": [400, 400], "latent": 100}

# The authors' settings. Fisher information: predicted labels, one sample at a time, all of the
# data. LwF: their README speaks of softened targets, which these are; the command they ship uses
# the old network's labels instead.
OFFICIAL_SETTINGS: dict[str, dict[str, Any]] = {
    "lwf": {"lwf": {"temperature": 2.0, "weighting": "van_de_ven"}},
    "ewc": {"ewc": {"weight": 5240.0, "fisher": "predicted"}},
    "online_ewc": {"ewc": {"weight": 5240.0, "gamma": 1.0, "fisher": "predicted"}},
    "si": {"si": {"c": 0.3, "damping": 0.2}},
    "dgr": {"generative_replay": {**VAE, "lr": 0.0001}},
    "dgr_distill": {"generative_replay": {**VAE, "lr": 0.0001}},
    "rtf": {"feedback_replay": VAE},
}

# The paper's strengths serve the small network too: of 5240, 100 and none for EWC on illumination
# (one seed) only the first changes what is kept. Generators learn as fast as the network.
SMALL_SETTINGS: dict[str, dict[str, Any]] = {
    **OFFICIAL_SETTINGS,
    "dgr": {"generative_replay": {**VAE, "lr": 0.001}},
    "dgr_distill": {"generative_replay": {**VAE, "lr": 0.001}},
}


def text(group: str, method: str, factor: str) -> str:
    """One experiment."""
    small = group == "openloris_small"
    mlp = method == "rtf"
    name, model = ("mlp", MLP) if mlp else ("cnn", CNN) if small else ("vgg", VGG)
    lines = [
        "# @package _global_",
        f"# {TITLES[method]}: OpenLORIS {factor}{', CPU-sized' if small else ''}.",
    ]
    lines += [
        "defaults:",
        f"  - /experiment/{group}/_protocol@_global_",
        f"  - override /stream: openloris_{factor}",
        f"  - override /strategy: {method}",
        f"  - override /model: {name}",
    ]
    settings = (SMALL_SETTINGS if small else OFFICIAL_SETTINGS).get(method, {})
    content: dict[str, Any] = {"model": model}
    if settings:
        content["strategy"] = settings
    lines.append(yaml.safe_dump(content, sort_keys=False).rstrip())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for folder, protocol in (("openloris", OFFICIAL), ("openloris_small", SMALL)):
        (ROOT / folder).mkdir(parents=True, exist_ok=True)
        (ROOT / folder / "_protocol.yaml").write_text(protocol)
        for each in TITLES:
            for kind in FACTORS:
                (ROOT / folder / f"{each}_{kind}.yaml").write_text(text(folder, each, kind))
