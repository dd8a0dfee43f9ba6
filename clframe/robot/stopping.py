"""Stop the episodes of a cell when the answer is decided, or cannot be decided any more."""

from __future__ import annotations

import math
from dataclasses import dataclass

from clframe.errors import SettingError
from clframe.utils.sequential_tests import ALPHA, check_alpha, confidence_sequence, log_e_rate


@dataclass(frozen=True)
class StopRule:
    """Checks after each of a task's episodes, in the order of their numbers, whether to stop.

    A test martingale tests the success rate against the threshold; the width is the width of a
    confidence sequence (:mod:`clframe.utils.sequential_tests`). Checking after every episode
    therefore keeps the stated error rate. The outcome uses the first episodes by number, so it does
    not depend on the order in which episodes end.

    Args:
        threshold: Stop when the success rate is above or below it.
        width: Stop when the confidence sequence is at most this wide.
        alpha: Largest probability of a wrong answer.

    >>> rule = StopRule(threshold=0.5)
    >>> rule.why(7, 7, 20), rule.why(8, 8, 20)
    (None, 'above 0.5')
    >>> rule.why(9, 18, 20)
    'hopeless'
    """

    threshold: float | None = None
    width: float | None = None
    alpha: float = ALPHA

    def why(self, successes: int, episodes: int, most: int) -> str | None:
        """Return why no more episodes are needed, or None if more are.

        Args:
            successes: Successes among the first episodes.
            episodes: Number of first episodes.
            most: Largest number of episodes.
        """
        if (answer := self._answer(successes, episodes)) is not None:
            return answer
        left = most - episodes
        # The extreme cases for either answer; any other rest lies between them.
        if left and not any(self._answer(successes + won, most) for won in (0, left)):
            return "hopeless"
        return None

    def _answer(self, successes: int, episodes: int) -> str | None:
        if self.threshold is not None:
            log_e = float(log_e_rate(successes, episodes, self.threshold))
            if log_e >= -math.log(self.alpha):
                side = "above" if successes > self.threshold * episodes else "below"
                return f"{side} {self.threshold:g}"
        if self.width is not None:
            low, high = confidence_sequence(successes, episodes, self.alpha)
            if high - low <= self.width:
                return f"within {self.width:g}"
        return None

    @classmethod
    def of(
        cls, threshold: float | None, width: float | None, alpha: float | None, episodes: int
    ) -> StopRule | None:
        """Return the rule of a stream's settings, or None if cells are not stopped.

        Raises:
            SettingError: A setting is out of range, lacks the setting it belongs to, or cannot be
                decided with this number of episodes.
        """
        if threshold is None and width is None:
            if alpha is not None:
                raise SettingError(
                    "stream.stop_alpha is the error rate of stream.stop_threshold and "
                    "stream.stop_width; set one of them"
                )
            return None
        for name, value in (("threshold", threshold), ("width", width)):
            if value is not None and not 0 < value < 1:
                raise SettingError(f"stream.stop_{name}={value:g} must be between 0 and 1")
        if alpha is not None:
            check_alpha(alpha, "stream.stop_alpha")
        rule = cls(threshold, width, ALPHA if alpha is None else alpha)
        if not any(rule._answer(k, episodes) for k in (0, episodes)):
            more = next(
                n for n in range(episodes, 100_000) if rule._answer(0, n) or rule._answer(n, n)
            )
            raise SettingError(
                f"{_asked(threshold, width)} cannot be decided by stream.eval_episodes={episodes} "
                f"at an error rate of {rule.alpha:g}; at least {more} are needed"
            )
        return rule


@dataclass(frozen=True, kw_only=True)
class StopSettings:
    """When a cell of the matrix uses fewer episodes than planned; by default it uses all.

    Args:
        stop_threshold: Stop a cell before ``eval_episodes`` as soon as it is decided whether its
            success rate is above or below this; None does not stop.
        stop_width: Also stop as soon as the success rate is known within this width.
        stop_alpha: Largest probability of a wrong answer; None for 0.05.
    """

    stop_threshold: float | None = None
    stop_width: float | None = None
    stop_alpha: float | None = None

    def stop_rule(self, episodes: int) -> StopRule | None:
        """Return the rule for at most this number of episodes; see :meth:`StopRule.of`."""
        return StopRule.of(self.stop_threshold, self.stop_width, self.stop_alpha, episodes)


def _asked(threshold: float | None, width: float | None) -> str:
    settings = {"threshold": threshold, "width": width}
    return " and ".join(f"stream.stop_{k}={v:g}" for k, v in settings.items() if v is not None)
