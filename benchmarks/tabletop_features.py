"""What the frozen encoder of tabletop images saves, and what its features tell.

    python benchmarks/tabletop_features.py step [--rounds 20]
    python benchmarks/tabletop_features.py probe --data-dir FOLDER [--demos 40] [--weights FILE]

``step`` is the CPU time of a training step of ``resnet_t`` small (16 windows of 5 steps, two
cameras of 64 pixels) with its own ResNets, with the patchify stem and with cached features, taking
turns.
``probe`` reads places of things off the features of tabletop_goal's demonstrations, a suite whose
scene the encoder has not seen: ridge regression and a small perceptron are fitted on three quarters
of the demonstrations and measured on the others, in centimeters. Uses one core.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clframe.data.observations import TASK, ObservationLayout
from clframe.models.libero.augment import Augment
from clframe.models.libero.frozen_reader import WEIGHTS, FrozenEncoder
from clframe.models.libero_policies import libero_policy
from clframe.robot.demonstrations import read
from clframe.worlds.tabletop.observation import HAND_SIZE, OBJECT_SIZE, suite_layout

CAMERAS = ("agentview_rgb", "wrist_rgb")
WINDOWS, STEPS = 16, 5


def batch(features: int) -> dict[str, Tensor]:
    """Return a batch of windows with images, or with a number of features of four views of them."""
    shape = (WINDOWS, STEPS, 3, 64, 64)
    seen = (
        torch.rand(WINDOWS, STEPS, 4, features).half()
        if features
        else torch.randint(0, 256, shape, dtype=torch.uint8)
    )
    parts = {"hand": torch.randn(WINDOWS, STEPS, 15), "gripper": torch.randn(WINDOWS, STEPS, 3)}
    return {**dict.fromkeys(CAMERAS, seen), **parts, TASK: torch.randn(WINDOWS, 10)}


def step(rounds: int) -> None:
    """Print milliseconds of a training step."""

    class Given:
        name = "given"
        layout = ObservationLayout(CAMERAS, 64, {"hand": 15, "gripper": 3}, 10)

    stream: Any = Given()
    kinds: dict[str, dict[str, Any]] = {
        "encoder=trained": {},
        "stem=patch": {"stem": "patch"},
        "encoder=frozen": {"encoder": "frozen"},
    }
    trained, times = {}, {}
    for kind, settings in kinds.items():
        torch.manual_seed(0)
        policy: Any = libero_policy("resnet_t", stream, 7, "small", STEPS, **settings).train()
        reader: Any = policy.features.encode.reader
        width = reader.encoder.width if kind == "encoder=frozen" else 0
        trained[kind] = (policy, torch.optim.AdamW(policy.parameters()), batch(width))
        times[kind] = [0.0] * rounds
    actions = torch.rand(WINDOWS, STEPS, 7) * 2 - 1
    for number in range(rounds):
        for kind, (policy, optimizer, x) in trained.items():
            start = time.process_time()
            optimizer.zero_grad()
            policy.action_loss(policy(x), actions).backward()
            optimizer.step()
            times[kind][number] = 1000 * (time.process_time() - start)
    first = float(np.median(times["encoder=trained"]))
    for kind, spent in times.items():
        middle = float(np.median(spent))
        print(f"{kind:16} {middle:7.1f} ms a step, {first / middle:5.1f} times")


def probe(data_dir: Path, demos: int, weights: Path) -> None:
    """Print errors in centimeters of places that are read off features."""
    encoder = FrozenEncoder(weights, 1, Augment(0.0, 0), None)
    layout = suite_layout("tabletop_goal")
    for path in sorted(data_dir.glob("demos/tabletop_goal-*agentview-wrist-64*/*.hdf5")):
        episodes = read(path, demos, ("state", *CAMERAS))
        features, states = [], []
        for episode in episodes:
            seen = [
                encoder.encode(
                    torch.from_numpy(episode.observations[name]), name, torch.device("cpu")
                )
                for name in CAMERAS
            ]
            states.append(torch.from_numpy(episode.observations["state"]))
            features.append(torch.cat([*(one[:, 0].float() for one in seen)], 1))
        cut = 3 * len(episodes) // 4
        print(f"{path.stem}: {cut} demonstrations fitted, {len(episodes) - cut} measured")
        x = [torch.cat([f, s[:, :9]], 1) for f, s in zip(features, states, strict=True)]
        for number, name in enumerate(layout.objects):
            at = HAND_SIZE + OBJECT_SIZE * number + 1
            y = [s[:, at : at + 3] for s in states]
            sides = (torch.cat(x[:cut]), torch.cat(y[:cut]), torch.cat(x[cut:]), torch.cat(y[cut:]))
            still = (sides[3] - sides[1].mean(0)).norm(dim=1).mean() * 100
            linear, small = ridge(*sides), perceptron(*sides)
            print(f"    {name:24} mean {still:.2f}, linear {linear:.2f}, perceptron {small:.2f} cm")


def ridge(x: Tensor, y: Tensor, new: Tensor, truth: Tensor) -> float:
    """Mean distance in centimeters of a linear map, fitted by ridge regression."""
    middle, spread = x.mean(0), x.std(0) + 1e-3
    a = torch.cat([(x - middle) / spread, torch.ones(len(x), 1)], 1).double()
    b = torch.cat([(new - middle) / spread, torch.ones(len(new), 1)], 1).double()
    gram = a.T @ a + 10.0 * torch.eye(a.shape[1], dtype=torch.float64)
    found = b @ torch.linalg.solve(gram, a.T @ y.double())
    return float((found - truth).norm(dim=1).mean() * 100)


def perceptron(x: Tensor, y: Tensor, new: Tensor, truth: Tensor) -> float:
    """The same of a perceptron with one layer of 128, trained for 1,500 steps."""
    torch.manual_seed(0)
    middle, spread = x.mean(0), x.std(0) + 0.05
    net = nn.Sequential(nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, 3))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=1e-2)
    a, b, center = (x - middle) / spread, (new - middle) / spread, y.mean(0)
    for _ in range(1500):
        chosen = torch.randint(len(a), (128,))
        loss = ((net(a[chosen]) - (y[chosen] - center) * 10) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return float((net(b) / 10 + center - truth).norm(dim=1).mean() * 100)


def main() -> None:
    """Run the part that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("step", "probe"))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--data-dir", type=Path, default=Path("data"))
    parser.add_argument("--demos", type=int, default=40)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.part == "step":
        step(given.rounds)
    else:
        probe(given.data_dir, given.demos, given.weights)


if __name__ == "__main__":
    main()
