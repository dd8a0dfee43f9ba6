"""When the episodes of a cell are enough: what was asked is decided, or cannot be any more."""

from __future__ import annotations

import math
from dataclasses import dataclass

from clframe.errors import SettingError
from clframe.utils.sequential_tests import ALPHA, check_alpha, confidence_sequence, log_e_rate


@dataclass(frozen=True)
class StopRule:
    """Looks at a task's episodes in the order of their numbers, after each of them.

    The success rate is tested against the threshold by a test martingale, and its width is that of
    a confidence sequence (:mod:`clframe.utils.sequential_tests`). So looking after every episode
    leaves the error rate as stated. Whatever order episodes end in, the outcome is that of the
    first episodes by number.

    Args:
        threshold: Stop when the success rate is above or below it.
        width: Stop when the confidence sequence is at most so wide.
        alpha: Probability, at most, that an answer is false.

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
        """Why no more episodes are needed; None where they are.

        Args:
            successes: Among the first so many episodes.
            episodes: How many these are.
            most: Episodes at most.
        """
        if (answer := self._answer(successes, episodes)) is not None:
            return answer
        left = most - episodes
        # The best cases for either answer; any other rest is between them.
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
        """The rule of a stream's settings; None where cells are not stopped.

        Raises:
            SettingError: A setting is out of its range, is given without what it belongs to, or
                asks for what so many episodes can never decide.
        """
        if threshold is None and width is None:
            if alpha is not None:
                raise SettingError(
                    "stream.stop_alpha is the error rate of stream.stop_threshold and "
                    "stream.stop_width, and neither is given"
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
                f"at an error rate of {rule.alpha:g}: at least {more} are needed"
            )
        return rule


@dataclass(frozen=True, kw_only=True)
class StopSettings:
    """When a cell of the matrix takes fewer episodes than planned; all of them by default.

    Args:
        stop_threshold: A cell of the matrix takes fewer than ``eval_episodes`` where it is decided
            whether its success rate is above or below this; None does not ask.
        stop_width: Likewise where the success rate is known within so much.
        stop_alpha: Probability, at most, that such an answer is false; None for 0.05.
    """

    stop_threshold: float | None = None
    stop_width: float | None = None
    stop_alpha: float | None = None

    def stop_rule(self, episodes: int) -> StopRule | None:
        """The rule for so many episodes at most; see :meth:`StopRule.of`."""
        return StopRule.of(self.stop_threshold, self.stop_width, self.stop_alpha, episodes)


def _asked(threshold: float | None, width: float | None) -> str:
    given = {"threshold": threshold, "width": width}
    return " and ".join(f"stream.stop_{k}={v:g}" for k, v in given.items() if v is not None)
