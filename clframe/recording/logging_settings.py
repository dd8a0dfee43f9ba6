"""Settings of what a run records besides its results: the config group ``logging``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clframe.utils.setting_checks import at_least


@dataclass(frozen=True)
class LoggingSettings:
    """Settings of what a run records besides its results: the config group ``logging``.

    Args:
        log_every_n_steps: Log the loss (``train/loss_step``), the learning rate and every plugin's
            term of the loss (``terms/NAME``) every n steps. What plugins log in their steps is
            logged in the same steps. None logs the means of the loss and the terms once per epoch,
            and everything that plugins log.
        log_grad_norm: Log the norm of all gradients before clipping, ``train/grad_norm``, in the
            logged steps (in all steps if ``log_every_n_steps`` is None).
        videos: Record an episode of each task learned so far after each experience, as ``gif`` or
            ``mp4`` in the run folder. For streams of robots only.
        sample_images: Keep a strip of n training images of each experience, scaled down, in the run
            folder for the report. 0 for none. Inputs that are not images are left out. For a stream
            with more than 20 experiences, 20 evenly spaced experiences are kept.
    """

    log_every_n_steps: int | None = None
    log_grad_norm: bool = False
    videos: Literal["gif", "mp4"] | None = None
    sample_images: int = 8

    def __post_init__(self) -> None:
        at_least(self.log_every_n_steps, 1, "logging.log_every_n_steps")
        at_least(self.sample_images, 0, "logging.sample_images")
