"""All published layouts by stream name."""

from __future__ import annotations

from clframe.streams.datasets import clear, core50, cub200, domainnet, imagenet_r, tiny_imagenet
from clframe.streams.datasets.folder_layout import Layout

_MODULES = (clear, core50, cub200, domainnet, imagenet_r, tiny_imagenet)


def layouts() -> dict[str, Layout]:
    """Return the layout of each stream.

    >>> layouts()["cub200"].stream
    'cub200'
    """
    return {module.LAYOUT.stream: module.LAYOUT for module in _MODULES}
