"""``clframe fit seeds=0,1,2``: train several seeds as one batched model."""

from __future__ import annotations

from collections.abc import Sequence

from clframe.config.compose import compose
from clframe.errors import SettingError
from clframe.sweep.expand import expand_ranges


def run_seeds(overrides: Sequence[str], seeds: str) -> int:
    """Run several seeds at once: ``seeds=0,1,2``, ``seeds=[0,1,2]`` or ``seeds=0..2``."""
    listed = expand_ranges(f"seeds={seeds.strip().strip('[]')}").removeprefix("seeds=")
    numbers = [number.strip() for number in listed.split(",") if number.strip()]
    if not numbers or not all(number.isdecimal() for number in numbers):
        raise SettingError(f"seeds must be a list such as seeds=0,1,2 or seeds=0..2, got '{seeds}'")
    if any(number.startswith("seed=") for number in overrides):
        raise SettingError("seed and seeds cannot both be given; leave one of them out")
    config = compose(overrides)
    from clframe.cli._show_result import show_seeds
    from clframe.sweep.seeds import fit_seeds

    show_seeds(fit_seeds(config, [int(number) for number in numbers]))
    return 0
