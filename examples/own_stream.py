"""Your own stream: shapes in small images, with more noise in each experience.

clframe fit plugin_path=examples/own_stream.py stream=noisy_shapes strategy=er
python examples/own_stream.py
"""

import functools

import torch

import clframe
from clframe import Experience, Registry, SettingError, Stream, Task, TensorData, hookimpl

CROSS = torch.maximum(torch.eye(6), torch.eye(6).flip(0))
SQUARE = torch.ones(6, 6)
FRAME = SQUARE - torch.nn.functional.pad(torch.ones(4, 4), (1, 1, 1, 1))
STRIPES = torch.tensor([1.0, 0.0]).repeat(3).expand(6, 6)
SHAPES = torch.stack([CROSS, SQUARE, FRAME, STRIPES])


@functools.cache  # drawn on first use, and the same images each time
def images(samples: int, noise: float, task: int, seed: int) -> TensorData:
    """Draw shapes at random positions in 16x16 images, and add noise."""
    generator = torch.Generator().manual_seed(seed)
    x = noise * torch.randn(samples, 1, 16, 16, generator=generator)
    y = torch.randint(len(SHAPES), (samples,), generator=generator)
    corners = torch.randint(11, (samples, 2), generator=generator).tolist()
    for image, label, (row, column) in zip(x, y, corners, strict=True):
        image[0, row : row + 6, column : column + 6] += SHAPES[label]
    return TensorData(x, y, task, transform=lambda x, task: x)  # keep the floats unchanged


def noisy_shapes(levels: int = 4, noise: float = 1.0, samples: int = 400, seed: int = 0) -> Stream:
    """Four shapes in small images, with more noise in each experience.

    Args:
        levels: Number of experiences.
        noise: Standard deviation in the last experience; the first has none.
        samples: Training images per experience; the test set has half as many.
        seed: The seed of the images; the run's seed by default.
    """
    if levels < 2:
        raise SettingError(f"stream.levels={levels} must be at least 2")
    tasks, experiences = [], []
    for index in range(levels):
        level = noise * index / (levels - 1)
        train = functools.partial(images, samples, level, index, 1000 * seed + 2 * index)
        test = functools.partial(images, samples // 2, level, index, 1000 * seed + 2 * index + 1)
        task = Task(index, f"noise{level:.2f}", (0, 1, 2, 3), test, info={"noise": level})
        tasks.append(task)
        experiences.append(Experience(index, task.name, (task,), train))
    source = f"drawn shapes, {samples} images in each experience"
    return Stream("noisy_shapes", "domain", experiences, tasks, (1, 16, 16), 4, source, seed)


@hookimpl
def register(registry: Registry) -> None:
    """Register the stream, with a suitable model and budget."""
    defaults = {"model": {"name": "cnn"}, "trainer": {"max_epochs": 5}}
    registry.add("stream", "noisy_shapes", noisy_shapes, **defaults)


def main(max_epochs: int = 5, samples: int = 400) -> clframe.Result:
    """Learn the stream."""
    result = clframe.fit(
        noisy_shapes(samples=samples),
        model="cnn",
        max_epochs=max_epochs,
        run_dir=False,
        progress=False,
    )
    print(result)
    return result


if __name__ == "__main__":
    main()
