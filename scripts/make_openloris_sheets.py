"""Make the contact sheets of the rendered OpenLORIS objects in docs/.

docs/openloris_objects.png shows all 121 instances at level 1, docs/openloris_factors.png the four
factors at their three levels. Run it from the top of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from clframe.worlds.objects import catalog
from clframe.worlds.objects.rendered import RenderSettings, render_segment

DOCS = Path(__file__).parent.parent / "docs"
SIZE, GAP, LINE = 112, 3, 13


def image(factor: str, segment: int, instance: str, size: int = SIZE) -> Image.Image:
    """The middle frame of an instance in a segment, larger than the stream's but the same scene."""
    settings = RenderSettings(size=size, frames=3, samples=2)
    rgb = render_segment(factor, segment, [instance], settings).rgb[1]
    return Image.fromarray(np.ascontiguousarray(rgb.transpose(1, 2, 0)))


def sheet(tiles: Sequence[tuple[str, Image.Image]], columns: int) -> Image.Image:
    """Images in rows, each with its name below."""
    rows = -(-len(tiles) // columns)
    whole = Image.new("RGB", (columns * (SIZE + GAP), rows * (SIZE + LINE)), "white")
    pen = ImageDraw.Draw(whole)
    for k, (name, tile) in enumerate(tiles):
        x, y = k % columns * (SIZE + GAP), k // columns * (SIZE + LINE)
        whole.paste(tile, (x, y))
        pen.text((x + 1, y + SIZE), name, fill="black")
    return whole


def save(whole: Image.Image, path: Path) -> None:
    """Store a sheet in steps of 8 of 256, which take half the room, and say how large it is."""
    Image.fromarray(np.asarray(whole) // 8 * 8 + 4).save(path, optimize=True)
    print(f"{path.name}: {whole.width} x {whole.height}, {path.stat().st_size / 1e6:.1f} MB")


def main() -> None:
    """Make both sheets."""
    objects = [(name, image("illumination", 2, name)) for name in catalog.instances()]
    save(sheet(objects, 11), DOCS / "openloris_objects.png")
    tiles = []
    for factor in catalog.FACTORS:
        for name in ("cup_01", "scissors_01", "toy_03", "headphone_03"):
            for level in (1, 2, 3):
                words = f"{factor[:5]}. {catalog.LEVELS[factor][level - 1]}"
                tiles.append((words, image(factor, 3 * level - 1, name)))
    save(sheet(tiles, 12), DOCS / "openloris_factors.png")


if __name__ == "__main__":
    main()
