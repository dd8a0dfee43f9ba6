"""``clframe fit seeds=0,1,2``: several seeds as one batched model."""

from __future__ import annotations

from collections.abc import Sequence

from clframe.config.compose import compose
from clframe.errors import SettingError
from clframe.sweep.expand import expand_ranges


def run_seeds(overrides: Sequence[str], seeds: str) -> int:
    """Run several seeds at once: ``seeds=0,1,2``, ``seeds=[0,1,2]`` or ``seeds=0..2``."""
    listed = expand_ranges(f"seeds={seeds.strip().strip('[]')}").removeprefix("seeds=")
    words = [word.strip() for word in listed.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise SettingError(f"seeds must be a list such as seeds=0,1,2 or seeds=0..2, got '{seeds}'")
    if any(word.startswith("seed=") for word in overrides):
        raise SettingError("seed and seeds cannot both be given; leave one of them out")
    config = compose(overrides)
    from clframe.cli._show_result import show_seeds
    from clframe.sweep.seeds import fit_seeds

    show_seeds(fit_seeds(config, [int(word) for word in words]))
    return 0
