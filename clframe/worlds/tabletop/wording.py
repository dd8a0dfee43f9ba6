"""The same instruction in other words, by rule: synonyms, another order, a polite frame.

Nothing here changes what is asked for. Of the changes that an instruction allows, a level takes a
share: 0 none of them, 1 all.
"""

from __future__ import annotations

import itertools
import math
import re
import zlib

import numpy as np

# Longer ones first where one holds another.
_SYNONYMS = {
    "pick up": "grasp",
    "turn on": "switch on",
    "turn off": "switch off",
    "on top of": "onto",
    "to the front of": "in front of",
    "wine bottle": "bottle of wine",
    "cream cheese box": "box of soft cheese",
    "cream cheese": "soft cheese",
    "moka pots": "coffee makers",
    "moka pot": "coffee maker",
    "frying pan": "skillet",
    "chocolate pudding": "chocolate dessert",
    "alphabet soup": "letter soup",
    "salad dressing": "dressing for salad",
    "orange juice": "juice of oranges",
    "bbq sauce": "barbecue sauce",
    "put": "set",
    "place": "put",
    "open": "pull open",
    "close": "shut",
    "push": "slide",
    "stack": "pile",
    "bowl": "dish",
    "plate": "platter",
    "cabinet": "cupboard",
    "stove": "cooker",
    "mug": "cup",
    "basket": "hamper",
    "rack": "stand",
    "book": "volume",
    "microwave": "microwave oven",
    "caddy": "organizer",
    "compartment": "section",
    "middle": "center",
    "bottom": "lowest",
    "top": "uppermost",
    "black": "dark",
    "tray": "salver",
    "ketchup": "tomato ketchup",
    "next to": "beside",
}
_FRAMES = ("please {}", "now {}", "next, {}", "{}, please")
_KNOWN = re.compile(rf"\b({'|'.join(_SYNONYMS)})\b")
_MOVE = re.compile(
    r"^(put|place|push) (the .+?) (on top of|on|in|to the front of|under) (the (?:(?! and ).)+)$"
)


def paraphrase(text: str, level: float) -> str:
    """An instruction in other words; always the same for the same text and level.

    >>> paraphrase("turn on the stove", 0.0), paraphrase("turn on the stove", 1.0)
    ('turn on the stove', 'next, switch on the cooker')
    >>> paraphrase("put the bowl on the plate", 1.0)
    'next, on the platter set the dish'
    """
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    words = len(_KNOWN.findall(text))
    moves = _MOVE.match(text) is not None
    wanted = math.ceil(level * (words + moves + 1))
    # First synonyms, then the order, then the frame.
    replaced = set(rng.permutation(words)[:wanted].tolist())
    frame = _FRAMES[rng.integers(len(_FRAMES))]
    if moves and wanted > words:
        # Words keep their numbers only where all are replaced, as they are here.
        text = _MOVE.sub(r"\3 \4 \1 \2", text)
    count = itertools.count()
    text = _KNOWN.sub(lambda m: _SYNONYMS[m[0]] if next(count) in replaced else m[0], text)
    return frame.format(text) if wanted == words + moves + 1 else text
