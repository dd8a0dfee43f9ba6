"""The images of a video: cameras side by side with a caption, and several episodes as a grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

ImageArray = NDArray[np.uint8]

LARGE, SMALL = 256, 160
"""Pixels of the first camera's image, and of the others' next to it."""
TILE = 112
"""Pixels of an episode's image in a grid."""
_BAR, _LABEL = 44, 25
_PAPER, _INK, _FAINT = (22, 26, 32), (236, 239, 242), (156, 166, 176)
_GOOD, _BAD = (98, 208, 128), (240, 128, 104)


@dataclass(frozen=True)
class Shot:
    """The cameras' images after a step.

    Args:
        views: Images by camera name, the most important first.
        step: The step's number in the episode, from 1.
        success: Whether the goal holds or has held.
        ended: Whether this is the last step.
    """

    views: Mapping[str, ImageArray]
    step: int
    success: bool
    ended: bool = False

    @property
    def status(self) -> tuple[str, tuple[int, int, int]]:
        """The episode's status as text, and its color."""
        if self.success:
            return "goal reached", _GOOD
        return ("goal not reached", _BAD) if self.ended else ("", _FAINT)


@cache
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def fitted(words: str, size: int, width: float) -> str:
    """Shorten a text with an ellipsis until it fits into a width."""
    font = _font(size)
    if font.getlength(words) <= width:
        return words
    while words and font.getlength(words + "…") > width:
        words = words[:-1]
    return words.rstrip() + "…"


def lines(words: str, size: int, width: float) -> list[str]:
    """Break a text between words into at most two lines.

    >>> lines("put the bowl on the plate", 9, 80)
    ['put the bowl on', 'the plate']
    """
    font = _font(size)
    words_of_text = words.split(" ")
    first = max(
        (
            n
            for n in range(1, len(words_of_text) + 1)
            if font.getlength(" ".join(words_of_text[:n])) <= width
        ),
        default=len(words_of_text),
    )
    broken = [" ".join(words_of_text[:first]), " ".join(words_of_text[first:])]
    return [fitted(line, size, width) for line in broken if line]


def captioned(shot: Shot, task: str, actor: str, rate: float) -> ImageArray:
    """Draw all cameras of a step, the first one large, with the task and the actor below.

    Args:
        shot: The step.
        task: The task's instruction or name.
        actor: Describes the actor.
        rate: Steps per second.
    """
    from PIL import Image, ImageDraw

    first, *others = (_scaled(view) for view in shot.views.values())
    side = SMALL if others else 0
    height, width = first.shape[0], first.shape[1] + side
    canvas = Image.new("RGB", (width, height + _BAR), _PAPER)
    canvas.paste(Image.fromarray(first), (0, 0))
    draw: Any = ImageDraw.Draw(canvas)
    clock = f"step {shot.step}   {shot.step / rate:.2f} s"
    status, color = shot.status
    if others:
        top = 0
        for view in others:
            image = Image.fromarray(view).resize((side, side * view.shape[0] // view.shape[1]))
            canvas.paste(image, (first.shape[1], top))
            top += image.height
        left = first.shape[1] + 10
        draw.text((left, top + 14), clock, _INK, _font(14))
        draw.text((left, top + 38), status, color, _font(15))
    else:
        draw.text((width - 8, height + 24), clock, _FAINT, _font(11), anchor="ra")
        if status:
            draw.rectangle((0, 0, width - 1, height - 1), outline=color, width=3)
    draw.text((8, height + 5), fitted(task, 13, width - 16), _INK, _font(13))
    room = width - 16 - (0 if others else _font(11).getlength(clock) + 10)
    draw.text((8, height + 24), fitted(actor, 11, room), _FAINT, _font(11))
    return np.asarray(canvas)


def _scaled(view: ImageArray) -> ImageArray:
    """Enlarge a small image by a whole number, so that the caption fits."""
    times = max(1, LARGE // view.shape[1])
    return np.ascontiguousarray(view.repeat(times, 0).repeat(times, 1))


def grid(episodes: Mapping[str, Sequence[Shot]], title: str, rate: float) -> list[ImageArray]:
    """Show several episodes at the same time; an ended one keeps its last image.

    Args:
        episodes: Episodes by task name.
        title: The title above the grid.
        rate: Steps per second.
    """
    length = max(map(len, episodes.values()))
    longest = next(shots for shots in episodes.values() if len(shots) == length)
    return [
        _grid_image(
            {name: shots[min(number, len(shots) - 1)] for name, shots in episodes.items()},
            title,
            longest[number].step,
            rate,
        )
        for number in range(length)
    ]


def _grid_image(shots: Mapping[str, Shot], title: str, step: int, rate: float) -> ImageArray:
    from PIL import Image, ImageDraw

    columns = max(3, math.ceil(math.sqrt(len(shots))))
    rows = math.ceil(len(shots) / columns)
    head, gap = 22, 4
    width, height = columns * (TILE + gap) + gap, head + rows * (TILE + _LABEL + gap)
    canvas = Image.new("RGB", (width, height), _PAPER)
    draw: Any = ImageDraw.Draw(canvas)
    clock = f"{step / rate:.1f} s"
    room = width - 2 * gap - _font(11).getlength(clock) - 8
    draw.text((gap, 5), fitted(title, 11, room), _INK, _font(11))
    draw.text((width - gap, 5), clock, _FAINT, _font(11), anchor="ra")
    for position, (name, shot) in enumerate(shots.items()):
        left = gap + position % columns * (TILE + gap)
        top = head + position // columns * (TILE + _LABEL + gap)
        view = Image.fromarray(next(iter(shot.views.values())))
        canvas.paste(view.resize((TILE, TILE)), (left, top))
        _, color = shot.status
        if shot.success or shot.ended:
            box = (left, top, left + TILE - 1, top + TILE - 1)
            draw.rectangle(box, outline=color, width=2)
        for line, line_text in enumerate(lines(name.replace("_", " "), 9, TILE)):
            corner = (left, top + TILE + 2 + 11 * line)
            draw.text(corner, line_text, color if shot.ended else _FAINT, _font(9))
    return np.asarray(canvas)
