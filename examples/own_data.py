"""Your own arrays as a stream: a matrix, and a model that predicts.

python examples/own_data.py
"""

from __future__ import annotations

import torch

import clframe


def main(max_epochs: int = 5) -> clframe.Result:
    """Learn six classes of made-up measurements, two at a time, with a memory of old samples."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(600) % 6
    x = torch.randn(600, 16, generator=generator) + 3 * torch.eye(6, 16)[y]

    names = ["ant", "bee", "cat", "dog", "elk", "fox"]
    stream = clframe.stream_from((x, y), n_experiences=3, class_names=names)
    result = clframe.fit(stream, "er", max_epochs=max_epochs, run_dir=False, progress=False)
    print(result)

    named = result.model(x[:4]).argmax(dim=1)
    print("the first four samples are", [names[i] for i in named.tolist()])
    return result


if __name__ == "__main__":
    main()
