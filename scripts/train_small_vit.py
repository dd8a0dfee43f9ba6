"""Train the small vision transformer that ``model=vit_tiny model.weights=fashion`` starts from.

    python scripts/train_small_vit.py --data-dir DIR --out FILE [--epochs 3] [--seed 0]

DIR holds Fashion-MNIST (``FashionMNIST/raw``; MIT licence, Zalando SE). Every image comes in one of
four rotations, moved by up to two pixels, and the network has to tell the forty pairs of class and
rotation apart: that asks more of its features than ten classes of clothes do. Of digits it sees
none. The weights are written as halves in safetensors, without the head. Uses one core, some four
minutes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from clframe.models.vit_tiny import make_vit
from clframe.streams.images.image_arrays import read_idx
from clframe.utils.files import write_bytes

SHAPE = (1, 28, 28)
SHIFT = 2
BATCH = 128


def read(data_dir: Path, part: str) -> tuple[Tensor, Tensor]:
    """Images as bytes and labels of one of the two parts."""
    folder = data_dir / "FashionMNIST" / "raw"
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz", 3)
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 1)
    return torch.tensor(images)[:, None], torch.tensor(labels).long()


def views(images: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Images turned by a multiple of 90 degrees and moved, and the number of class and turn."""
    turns = torch.randint(4, (len(images),), generator=generator)
    x = images.float() / 255.0
    x = torch.where((turns >= 2)[:, None, None, None], x.flip((2, 3)), x)
    x = torch.where((turns % 2 == 1)[:, None, None, None], x.rot90(1, (2, 3)), x)
    side = SHAPE[1]
    padded = functional.pad(x, (SHIFT,) * 4)
    down, right = torch.randint(2 * SHIFT + 1, (2, len(x), 1), generator=generator)
    rows = (down + torch.arange(side))[:, None, :, None]
    columns = (right + torch.arange(side))[:, None, None, :]
    moved = padded[torch.arange(len(x))[:, None, None, None], 0, rows, columns]
    return moved, 4 * labels + turns


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of test images, each turned and moved, whose class and turn are told."""
    generator = torch.Generator().manual_seed(1)
    right = 0
    for x, y in zip(images.split(1000), labels.split(1000), strict=True):
        turned, target = views(x, y, generator)
        right += int((network(turned).argmax(1) == target).sum())
    return right / len(labels)


def main() -> None:
    """Train, test, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    generator = torch.Generator().manual_seed(arguments.seed)
    images, labels = read(arguments.data_dir, "train")
    test_images, test_labels = read(arguments.data_dir, "t10k")
    body = make_vit(SHAPE)
    network = nn.Sequential(body, nn.Linear(64, 40))
    optimizer = torch.optim.AdamW(network.parameters(), arguments.lr, weight_decay=0.05)
    steps = arguments.epochs * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, arguments.lr, total_steps=steps, pct_start=0.15
    )
    started = time.process_time()
    for epoch in range(arguments.epochs):
        order = torch.randperm(len(images), generator=generator)
        for chosen in order[: len(images) // BATCH * BATCH].split(BATCH):
            x, y = views(images[chosen], labels[chosen], generator)
            loss = functional.cross_entropy(network(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        tested = accuracy(network.eval(), test_images, test_labels)
        network.train()
        seconds = time.process_time() - started
        print(f"epoch {epoch + 1}: {100 * tested:.2f} % of test images, {seconds:.0f} CPU seconds")
    weights = {name: value.half().contiguous() for name, value in body.state_dict().items()}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(arguments.out, save(weights, metadata={"data": "Fashion-MNIST, MIT licence"}))
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
