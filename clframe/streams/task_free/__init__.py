"""Another stream without hard boundaries: blurred, drifting, repeated, few, unequal, noisy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable

    from clframe.core.registry import Registry
    from clframe.core.stream import Stream


@hookimpl
def register(registry: Registry) -> None:
    """Register the streams; they look up their base stream in the same registry."""
    # Imported here, because worker processes import this package without torch.
    from clframe.streams.task_free.blurry import i_blurry, si_blurry
    from clframe.streams.task_free.few_shot import few_shot
    from clframe.streams.task_free.gradual import gradual
    from clframe.streams.task_free.long_tailed import long_tailed
    from clframe.streams.task_free.noisy_labels import noisy_labels
    from clframe.streams.task_free.repetition import repetition

    factories: tuple[tuple[Callable[..., Stream], str], ...] = (
        (i_blurry, "another stream with some classes in one experience, others blurred over all"),
        (si_blurry, "the same with all numbers random: stochastic i-Blurry"),
        (gradual, "another stream whose experiences blend into each other linearly"),
        (repetition, "another stream's classes, which recur with a probability"),
        (few_shot, "a base session of many samples, then sessions of N classes with K samples"),
        (long_tailed, "another stream with exponentially fewer samples from class to class"),
        (noisy_labels, "another stream with some of its training labels wrong"),
    )
    for factory, summary in factories:
        registry.add("stream", factory.__name__, factory, summary)
