"""Estimate the time left for a stream from its past.

Learning is counted in steps if their number is known beforehand, so growing data (cumulative
learning) counts from the beginning of an experience. Evaluation is counted in tasks; each row of
the matrix measures a known number. The cost of a step and of a task comes from the past, with more
weight on recent values, or follows a line if it clearly grows.
"""

from __future__ import annotations

from collections.abc import Sequence

_CLEAR = 0.8
"""The share of the variance that a line must explain to be used."""
_GROWS = 1.5
"""Two step counts, which are exact, are taken to grow from this ratio on."""
_PAST = 20
"""Experiences that are kept, so that the cost does not grow with the stream."""
_TRUSTED = 0.1
"""The share of an experience after which only its own pace counts."""


class StreamClock:
    """Clock of a stream: records the time of experiences and rows, and estimates the rest.

    All times are seconds of one clock that never goes back.

    Args:
        tasks: Number of tasks measured after each experience, in order.
        now: Time at which the clock starts.
        index: Number of experiences learned before.
    """

    def __init__(self, tasks: Sequence[int], now: float, index: int = 0) -> None:
        self.tasks = list(tasks)
        self.index = index
        """The experience that is being learned, or comes next."""
        self.learning = True
        """Whether it is being learned; otherwise the experience before it is being evaluated."""
        self._seconds: list[float] = []
        self._steps: list[int] = []
        self._first_plans: list[int] = []
        self._per_task: list[float] = []
        self._tail = 0.0
        self._since = now
        self._begin()

    def _begin(self) -> None:
        """Reset the counts for the next experience."""
        self._first_plan = self._before = 0
        self._plan: int | None = None
        self._taken = 0
        self._first_word: tuple[float, int] | None = None
        self._last_word = self._since
        self._share = 0.0

    # ------------------------------------------------------------ events

    def remember(
        self, seconds: float | None, steps: int, per_task: float | None, plan: int | None = None
    ) -> None:
        """Add an experience that was learned before the clock started."""
        if seconds is not None and steps:
            self._seconds.append(seconds)
            self._steps.append(steps)
            self._first_plans.append(plan or steps)
        if per_task is not None:
            self._per_task.append(per_task)
        self._forget()

    def _forget(self) -> None:
        for past in (self._seconds, self._steps, self._first_plans, self._per_task):
            del past[:-_PAST]

    def step(self, now: float, taken: int, planned: int | None) -> None:
        """Count steps of the current call of the loop."""
        if self._plan is not None and (taken < self._taken or planned != self._plan):
            self._before += self._plan  # another call of the loop
            self._first_word = None
        self._plan, self._taken, self._last_word = planned, taken, now
        self._first_plan = self._first_plan or planned or 0
        if self._first_word is None:
            self._first_word = (now, taken)

    def learned(self, now: float) -> None:
        """End the learning of the experience; its evaluation begins."""
        self._seconds.append(now - self._since)
        self._steps.append(self._before + (self._plan or 0))
        self._first_plans.append(self._first_plan)
        self._forget()
        self._tail = now - self._last_word
        self.index += 1
        self.learning, self._since = False, now
        self._begin()

    def evaluating(self, share: float) -> None:
        """Set the share of a row's tasks that has been measured."""
        self.learning, self._share = False, share

    def evaluated(self, now: float, tasks: int) -> None:
        """End a row of this number of tasks; the next experience begins."""
        self._per_task.append((now - self._since) / max(tasks, 1))
        self._forget()
        self.learning, self._since = True, now
        self._begin()

    # ------------------------------------------------------------ estimates

    def left(self, now: float) -> float | None:
        """Return the seconds until the end of the stream; None if nothing is known yet."""
        spent = now - self._since
        if not self.learning:
            return (
                self._left_of_row(spent) + (self._left_after(None) or 0.0) if self._known else None
            )
        if self.index >= len(self.tasks):
            return 0.0
        expected = self._expected(now)
        if expected is None:
            return None
        rest = self._left_after(expected)
        return None if rest is None else max(0.0, expected - spent) + rest

    @property
    def _known(self) -> bool:
        return bool(self._seconds) or self.index >= len(self.tasks)

    def _left_of_row(self, spent: float) -> float:
        """Return the seconds until the row is measured."""
        row = max(self.index - 1, 0)
        if self._share > 0:
            return spent / self._share - spent
        expected = following(self._per_task, 1)[0] * self.tasks[row] if self._per_task else 0.0
        return max(0.0, expected - spent)

    def _expected(self, now: float) -> float | None:
        """Return the total seconds that the current experience will take."""
        work = self._work()
        past = self._paces()
        if not work:
            return following(self._seconds, 1)[0] if self._seconds else None
        estimate = following(past, 1)[0] * work if past else None
        if self._first_word is None or self._taken <= self._first_word[1]:
            return estimate
        begun, first = self._first_word
        observed = self._taken - first
        pace = (self._last_word - begun) / observed
        tail = self._tail if past else 0.0
        measured = (begun - self._since) + pace * max(0, work - self._before - first) + tail
        if estimate is None:
            return measured
        trust = min(1.0, observed / max(_TRUSTED * work, 1.0))
        return trust * measured + (1 - trust) * estimate

    def _work(self) -> int:
        """Return the steps of the current experience, including future calls of the loop."""
        if self._plan is None:
            return 0
        planned = self._before + self._plan
        pairs = [(s, p) for s, p in zip(self._steps, self._first_plans, strict=True) if p]
        if pairs:
            steps, plan = pairs[-1]
            return max(planned, round(self._first_plan * steps / plan))
        return planned

    def _paces(self) -> list[float]:
        """Return seconds per step of past experiences, including all other work."""
        pairs = zip(self._seconds, self._steps, strict=True)
        return [seconds / steps for seconds, steps in pairs if steps]

    def _left_after(self, expected: float | None) -> float | None:
        """Return the seconds of all rows and experiences after the current one.

        Args:
            expected: Seconds of the current experience; None while a row is measured.
        """
        coming = len(self.tasks) - self.index - (expected is not None)
        seconds, steps = list(self._seconds), list(self._steps)
        if expected is not None:
            seconds.append(expected)
            steps.append(self._work())
        if not seconds:
            return None if coming else 0.0
        total = 0.0
        if all(steps):
            paces = [a / b for a, b in zip(seconds, steps, strict=True)]
            work = following([float(n) for n in steps], coming, exact=True)
            total += sum(a * b for a, b in zip(following(paces, coming), work, strict=True))
        else:
            total += sum(following(seconds, coming))
        rows = self.tasks[len(self.tasks) - coming - (expected is not None) :]
        if self._per_task:
            costs = following(self._per_task, len(rows))
            total += sum(cost * tasks for cost, tasks in zip(costs, rows, strict=True))
        return total


def following(values: Sequence[float], count: int, exact: bool = False) -> list[float]:
    """Continue a sequence: by the mean of the newest values, or along a line if they fit one.

    >>> following([2.0, 2.0, 2.0], 2), following([10.0, 20.0, 30.0], 2)
    ([2.0, 2.0], [40.0, 50.0])

    Args:
        values: The past values, at least one.
        count: Number of values to return.
        exact: Whether the values are without noise, so that two are enough to see growth.
    """
    n = len(values)
    mean = sum(values) / n
    middle = (n - 1) / 2
    spread = sum((i - middle) ** 2 for i in range(n))
    slope = sum((i - middle) * v for i, v in enumerate(values)) / spread if n > 1 else 0.0
    variance = sum((v - mean) ** 2 for v in values)
    explained = slope**2 * spread / variance if variance > 0 else 0.0
    grows = n == 2 and exact and values[0] > 0 and values[1] >= _GROWS * values[0]
    steep = abs(slope) * (n - 1) >= 0.2 * abs(mean)
    if grows or (n > 2 and explained >= _CLEAR and steep):
        least = min(values) / 2
        return [max(least, mean + slope * (n - middle + ahead)) for ahead in range(count)]
    weights = [0.5 ** (n - 1 - i) for i in range(n)]
    newest = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    return [newest] * count


def duration(seconds: float) -> str:
    """Return seconds as text with a sensible precision.

    >>> duration(8.4), duration(75), duration(5000), duration(200_000)
    ('8 s', '1 min 15 s', '1 h 23 min', '2 d 7 h')
    """
    whole = round(seconds)
    for size, name, part, part_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // part} {part_name}"
    return f"{whole} s"
