"""Train the encoder of tabletop images that ``model.encoder=frozen`` uses.

    python scripts/train_tabletop_encoder.py --out FILE [--states 12000] [--epochs 8]
        [--mixtures 300] [--images FILE] [--start FILE] [--suite tabletop_90] [--robots hand arm]

Renders random states of a suite's scenes, and of mixtures of their things, with both cameras (kept
in ``--images`` if given), and trains :class:`clframe.models.libero.keypoints.KeypointNet` to say
where things are in them. One state in twenty is left out of training and tells the error in
pixels. Uses one core.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clframe.models.libero.keypoints import CELLS, SIDE, KeypointNet, Points, read, to_bytes
from clframe.utils.files import write_bytes
from clframe.worlds.tabletop.cameras import CAMERAS
from clframe.worlds.tabletop.compiler import ROBOTS, RobotKind
from clframe.worlds.tabletop.scenes import Scene, mixed_problems, point_names
from clframe.worlds.tabletop.suites import tasks
from clframe.worlds.tabletop.world import World

PER_START = 4
"""States that are drawn from one start state."""
HELD_OUT = 20
SHIFT = 4
"""Pixels by which training images are moved each way."""


def render(
    suite: str, states: int, mixtures: int, robots: list[RobotKind], seed: int
) -> dict[str, Any]:
    """Cameras ``[states, cameras, side, side, 3]`` and labels ``[states, cameras, 4, points]``."""
    problems = [task.problem for task in tasks(suite)]
    names = point_names(problems)
    images = np.empty((states, len(CAMERAS), SIDE, SIDE, 3), np.uint8)
    labels = np.empty((states, len(CAMERAS), 4, len(names)), np.float32)
    rng = np.random.default_rng(seed)
    mixed = mixed_problems(problems, mixtures, rng)
    scenes = [
        (problem, problem in mixed, robot) for problem in problems + mixed for robot in robots
    ]
    shares = np.array_split(np.arange(states), len(scenes))
    for (problem, is_mixed, robot), share in zip(scenes, shares, strict=True):
        scene = Scene(World(problem, robot=robot), names, SIDE, is_mixed)
        for number, row in enumerate(share):
            scene.draw(rng, start=number % PER_START == 0)
            for place, camera in enumerate(CAMERAS):
                images[row, place], found = scene.take(camera)
                labels[row, place] = found.across, found.down, found.depth, found.seen
    return {"images": images, "labels": labels, "names": np.array(names)}


def moved(images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Cameras shifted and recolored at random, and their labels."""
    n = len(images)
    wide = functional.pad(images, [SHIFT] * 4, mode="replicate")
    shifts = torch.randint(0, 2 * SHIFT + 1, (n, 2), generator=generator)
    down = shifts[:, :1] + torch.arange(SIDE)
    right = shifts[:, 1:] + torch.arange(SIDE)
    rows = torch.arange(n)[:, None, None]
    cut = wide.permute(0, 2, 3, 1)[rows, down[:, :, None], right[:, None]].permute(0, 3, 1, 2)
    gain = 1 + 0.15 * torch.randn(n, 1, 1, 1, generator=generator)
    tint = 1 + 0.05 * torch.randn(n, 3, 1, 1, generator=generator)
    lift = 0.04 * torch.randn(n, 1, 1, 1, generator=generator)
    middle = cut.mean((1, 2, 3), keepdim=True)
    contrast = 1 + 0.1 * torch.randn(n, 1, 1, 1, generator=generator)
    cut = ((cut - middle) * contrast + middle) * gain * tint + lift
    labels = labels.clone()
    labels[:, 0] -= (shifts[:, 1:] - SHIFT) * 2 / SIDE
    labels[:, 1] -= (shifts[:, :1] - SHIFT) * 2 / SIDE
    return cut.clamp(0, 1), labels


def target_maps(across: Tensor, down: Tensor) -> Tensor:
    """Shares of the four cells around each place whose mean is the place, ``[..., cells]``."""
    shares = []
    for place in (down, across):
        cell = ((place + 1) * CELLS / 2 - 0.5).clamp(0, CELLS - 1)
        distance = (torch.arange(CELLS) - cell[..., None]).abs()
        shares.append((1 - distance).clamp(min=0))
    return (shares[0][..., :, None] * shares[1][..., None, :]).flatten(-2)


def loss_of(found: Points, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The loss and the mean distance in pixels of points that are seen."""
    across, down, depth, seen = labels.unbind(1)
    share = seen / seen.sum().clamp(min=1)
    limit = 1 - 1 / CELLS
    across, down = across.clamp(-limit, limit), down.clamp(-limit, limit)
    maps = -(target_maps(across, down) * found.maps.log_softmax(2)).sum(2)
    off = torch.stack([found.across - across, found.down - down])
    place = functional.smooth_l1_loss(off, torch.zeros_like(off), reduction="none", beta=0.03)
    far = (found.depth - depth).abs()
    present = functional.binary_cross_entropy_with_logits(found.seen, seen)
    loss = (share * (maps + 10 * place.sum(0) + 2 * far)).sum() + 20 * present
    pixels = (share * off.square().sum(0).sqrt()).sum() * SIDE / 2
    return loss, pixels


def train(
    kept: dict[str, Any], epochs: int, batch: int, rate: float, seed: int, start: Path | None
) -> tuple[KeypointNet, dict[str, Any]]:
    """The trained network and what it reaches on states that it has not seen."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    images = torch.from_numpy(kept["images"])
    labels = torch.from_numpy(kept["labels"])
    held = torch.arange(len(images)) % HELD_OUT == 0
    test = (images[held].flatten(0, 1), labels[held].flatten(0, 1))
    images, labels = images[~held].flatten(0, 1), labels[~held].flatten(0, 1)
    net = KeypointNet([str(name) for name in kept["names"]])
    if start is not None:
        net.load_state_dict(read(start)[0].state_dict())
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=1e-2)
    steps = epochs * (len(images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.15)
    result: dict[str, Any] = {}
    started = time.process_time()
    for epoch in range(epochs):
        net.train()
        order = torch.randperm(len(images), generator=generator)
        for chosen in order[: len(order) // batch * batch].split(batch):
            seen = images[chosen].permute(0, 3, 1, 2).float() / 255
            x, y = moved(seen, labels[chosen], generator)
            with torch.autocast("cpu", torch.bfloat16):
                found = net(x)
            loss, _ = loss_of(found, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        result = {**measure(net, *test), "cpu_seconds": round(time.process_time() - started)}
        print(f"epoch {epoch + 1}: training loss {loss.item():.3f}, unseen {result}", flush=True)
    return net.eval(), result


@torch.no_grad()
def measure(net: KeypointNet, images: Tensor, labels: Tensor) -> dict[str, float]:
    """Loss, pixels and centimeters of error, and the share of points rightly called seen."""
    net.eval()
    sums = torch.zeros(4)
    for x, y in zip(images.split(256), labels.split(256), strict=True):
        found = net(x.permute(0, 3, 1, 2).float() / 255)
        loss, pixels = loss_of(found, y)
        seen = y[:, 3] > 0
        depth = (found.depth - y[:, 2]).abs()[seen].mean() * 100
        right = ((found.seen > 0) == seen).float().mean()
        sums += torch.stack([loss, pixels, depth, right]) * len(x)
    loss, pixels, depth, right = (sums / len(images)).tolist()
    return {
        "loss": round(loss, 3),
        "pixels": round(pixels, 3),
        "depth_cm": round(depth, 2),
        "seen": round(right, 4),
    }


def main() -> None:
    """Render, train, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--suite", default="tabletop_90")
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=list(ROBOTS))
    parser.add_argument("--states", type=int, default=12_000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--mixtures", type=int, default=300)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--start", type=Path, help="weights to begin with")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.images is not None and given.images.exists():
        with np.load(given.images, allow_pickle=False) as file:
            kept = {name: file[name] for name in file.files}
    else:
        started = time.process_time()
        kept = render(given.suite, given.states, given.mixtures, given.robots, given.seed)
        print(f"{given.states} states rendered in {time.process_time() - started:.0f} s of CPU")
        if given.images is not None:
            np.savez(given.images, **kept)
    net, result = train(kept, given.epochs, given.batch, given.rate, given.seed, given.start)
    settings = {
        name: getattr(given, name) for name in ("suite", "robots", "mixtures", "epochs", "seed")
    }
    note = {**settings, "states": len(kept["images"]), "unseen": result}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(given.out, to_bytes(net, note))
    print(f"{given.out}: {given.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
