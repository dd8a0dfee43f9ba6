"""Open untrusted image files: known formats, regular files, and a bounded size."""

from __future__ import annotations

import contextlib
import functools
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from clframe.utils.regular import open_regular

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""Accepted formats; Pillow has more, one of which starts another program (PostScript)."""
MOST_PIXELS = 1 << 26
"""Maximum number of pixels; an image of 8192 x 8192 takes 200 MB."""
_BROKEN = (
    *(SyntaxError, TypeError, ValueError, LookupError, AttributeError, OverflowError),
    *(EOFError, MemoryError, struct.error, zlib.error, RuntimeError, AssertionError),
)


@functools.cache
def _formats() -> tuple[str, ...]:
    """Return the formats that this Pillow has; WebP may not be built in."""
    from PIL import Image

    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


@contextlib.contextmanager
def opened_image(source: str | Path | IO[bytes]) -> Iterator[Image]:
    """Open an image; raise every problem as an ``OSError``.

    Args:
        source: A path, or a file in memory.

    Raises:
        OSError: It is not an image of a known format, is too large, or is broken.
    """
    from PIL import Image, UnidentifiedImageError

    from clframe.errors import ClframeError

    with contextlib.ExitStack() as stack:
        try:
            if isinstance(source, str | Path):
                source = stack.enter_context(open_regular(source))
            image = stack.enter_context(Image.open(source, formats=_formats()))
            if image.width * image.height > MOST_PIXELS:
                size = f"{image.width} x {image.height}"
                raise OSError(f"it has {size} pixels, but at most {MOST_PIXELS:,} are read")
            yield image
        except ClframeError:
            raise
        except UnidentifiedImageError:
            raise OSError(f"it is not an image ({', '.join(FORMATS)} are read)") from None
        except (Image.DecompressionBombError, *_BROKEN) as error:
            raise OSError(str(error) or type(error).__name__) from error
