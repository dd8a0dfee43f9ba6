"""When and on what tasks are evaluated: the config group ``evaluation``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clframe.errors import SettingError
from clframe.utils.setting_checks import at_least


@dataclass(frozen=True)
class EvaluationSettings:
    """When and on what tasks are evaluated: the config group ``evaluation``.

    Args:
        eval_batch_size: Samples per evaluation batch.
        evaluate_every: Evaluate past and future tasks after every n-th experience and at the end.
            The tasks just learned are evaluated after each experience. Other cells of the matrix
            stay unknown.
        evaluate_tasks: Evaluate ``all`` tasks, or only those ``learned`` so far (before learning,
            the first ones), as benchmarks with expensive evaluation do. The cells of later tasks
            stay unknown.
        evaluate_every_n_steps: Evaluate all tasks seen so far, including the current ones, every n
            steps of training (continual evaluation). None for never. It does not change training.
        evaluate_samples: How many samples of each task these evaluations use, drawn once. None for
            all.
        check_val_every_n_epoch: Evaluate the current tasks every n epochs. None for never.
    """

    eval_batch_size: int = 512
    evaluate_every: int = 1
    evaluate_tasks: Literal["all", "learned"] = "all"
    evaluate_every_n_steps: int | None = None
    evaluate_samples: int | None = None
    check_val_every_n_epoch: int | None = None

    def __post_init__(self) -> None:
        for name in (
            *("eval_batch_size", "evaluate_every", "evaluate_every_n_steps", "evaluate_samples"),
            "check_val_every_n_epoch",
        ):
            at_least(getattr(self, name), 1, f"evaluation.{name}")
        if self.evaluate_samples is not None and self.evaluate_every_n_steps is None:
            raise SettingError(
                f"evaluation.evaluate_samples={self.evaluate_samples} is for evaluations within "
                "training; also set evaluation.evaluate_every_n_steps, or remove it"
            )
