"""Time left: against streams whose durations are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from clframe.utils.eta import StreamClock, following

N = 10


def simulate(
    steps: Sequence[int],
    pace: Callable[[int], float],
    tasks: Sequence[int],
    per_task: float,
    after: float = 0.0,
    told: bool = True,
) -> dict[tuple[str, int], tuple[float | None, float]]:
    """Estimates and what was really left, in the middle of each experience and of each row.

    Args:
        steps: Of each experience.
        pace: Seconds per step in each.
        tasks: Measured after each.
        per_task: Seconds of each.
        after: Seconds after the steps, such as a Fisher estimate.
        told: Whether the steps are known at all.
    """
    learning = [steps[i] * pace(i) + after for i in range(N)]
    rows = [tasks[i] * per_task for i in range(N)]
    found: dict[tuple[str, int], tuple[float | None, float]] = {}
    now = 100.0
    clock = StreamClock(tasks, now)
    clock.evaluating(0)
    now += len(tasks) * per_task
    clock.evaluated(now, len(tasks))
    for i in range(N):
        rest = sum(learning[i + 1 :]) + sum(rows[i + 1 :])
        for step in range(1, steps[i] // 2 + 1):
            if told:
                clock.step(now + step * pace(i), step, steps[i])
        now += steps[i] // 2 * pace(i)
        found["learning", i] = (
            clock.left(now),
            learning[i] - steps[i] // 2 * pace(i) + rows[i] + rest,
        )
        if told:
            clock.step(now + (steps[i] - steps[i] // 2) * pace(i), steps[i], steps[i])
        now += learning[i] - steps[i] // 2 * pace(i)
        clock.learned(now)
        clock.evaluating(0.5)
        found["row", i] = clock.left(now + rows[i] / 2), rows[i] / 2 + rest
        now += rows[i]
        clock.evaluated(now, tasks[i])
    assert clock.left(now) == 0
    return found


@pytest.mark.parametrize(
    ("steps", "pace", "tasks", "after", "bound", "since"),
    [
        # The same all the time: right from the middle of the first experience on.
        ([40] * N, lambda i: 0.5, [N] * N, 0.0, 0.01, 0),
        # A Fisher estimate after each: not known in the first, known after it.
        ([40] * N, lambda i: 0.5, [N] * N, 5.0, 0.05, 1),
        # Cumulative data, known when the second experience begins.
        ([40 * (i + 1) for i in range(N)], lambda i: 0.5, [N] * N, 0.0, 0.02, 1),
        # Only learned tasks are measured: that grows, and is known from the beginning.
        ([40] * N, lambda i: 0.5, list(range(1, N + 1)), 0.0, 0.01, 0),
        # A step takes longer with every experience (one gradient per past task).
        ([40] * N, lambda i: 0.5 + 0.2 * i, [N] * N, 0.0, 0.05, 2),
        # The first experience is cheaper: nothing of the past to be kept.
        ([40] * N, lambda i: 0.5 if i == 0 else 1.0, [N] * N, 0.0, 0.25, 1),
        # A full row every other experience.
        ([40] * N, lambda i: 0.5, [1, N] * (N // 2), 0.0, 0.01, 0),
    ],
)
def test_the_estimate_against_known_durations(
    steps: list[int],
    pace: Callable[[int], float],
    tasks: list[int],
    after: float,
    bound: float,
    since: int,
) -> None:
    found = simulate(steps, pace, tasks, 2.0, after)
    for (phase, index), (estimate, true) in found.items():
        if index >= since:
            assert estimate == pytest.approx(true, rel=bound, abs=2.1), (phase, index)


def test_without_steps_the_past_experiences_count() -> None:
    found = simulate([40] * N, lambda i: 0.5, [N] * N, 2.0, told=False)
    assert found["learning", 0][0] is None
    for (phase, index), (estimate, true) in found.items():
        if index > 0:
            assert estimate == pytest.approx(true, rel=0.01), (phase, index)


def test_several_calls_of_the_loop_in_an_experience() -> None:
    """PackNet trains 30 steps, prunes, and trains 10 more; from the second on that is known."""
    clock, now = StreamClock([1] * 4, 0.0), 0.0
    clock.evaluated(now, 1)
    for index in range(4):
        for planned in (30, 10):
            for step in range(1, planned + 1):
                now += 1.0
                clock.step(now, step, planned)
                if index == 1 and planned == 30 and step == 15:
                    assert clock.left(now) == pytest.approx(25 + 80, abs=1)
        clock.learned(now)
        clock.evaluated(now, 1)


def test_a_resumed_run_takes_over_its_past() -> None:
    clock = StreamClock([2] * 4, 0.0, index=2)
    assert clock.left(0.0) is None
    clock.remember(20.0, 40, 1.0)
    clock.remember(20.0, 40, 1.0)
    clock.step(1.0, 20, 40)  # it was stopped in the middle of the third
    clock.step(6.0, 30, 40)
    assert clock.left(6.0) == pytest.approx(5 + 2 + 20 + 2, abs=6)


def test_noise_is_not_a_trend() -> None:
    assert following([10, 14], 2) == pytest.approx([12.7, 12.7], abs=0.1)
    assert following([10, 12, 9, 11, 10], 1)[0] == pytest.approx(10.4, abs=0.3)
    assert min(following([9, 6, 3], 5)) >= 1.5  # never to nothing
