"""Plugins clean up once, however a run ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clframe
from clframe import Learner, Plugin, SettingError, hookimpl
from clframe.testing import prepare, run_built, toy_stream


class Tidy(Plugin):
    """Notes how the run ended."""

    def __init__(self, name: str = "tidy", problem: Exception | None = None) -> None:
        self.name = name
        self.problem = problem
        self.ends: list[BaseException | None] = []

    @hookimpl
    def teardown(self, learner: Learner, error: BaseException | None) -> None:
        """Note it, and fail if that was asked for."""
        self.ends.append(error)
        if self.problem is not None:
            raise self.problem


class Broken(Plugin):
    """Ends the run at a hook."""

    def __init__(self, at: str, error: BaseException) -> None:
        self.at = at
        self.error = error

    def _end(self, at: str) -> None:
        if at == self.at:
            raise self.error

    @hookimpl
    def configure(self) -> None:
        """End it before anything is learned."""
        self._end("configure")

    @hookimpl
    def after_step(self) -> None:
        """End it in the midst of learning."""
        self._end("after_step")

    @hookimpl
    def after_evaluation(self, row: str) -> None:
        """End it after the last row."""
        if row == "exp2":
            self._end("after_evaluation")

    @hookimpl
    def after_run(self) -> None:
        """End it when everything is written."""
        self._end("after_run")


def fit(*plugins: Plugin, **values: Any) -> clframe.Result:
    quiet = {"run_dir": False, "progress": False, "max_epochs": 1}
    return clframe.fit(toy_stream(), list(plugins), **{**quiet, **values})


def test_after_success_there_is_no_error(tmp_path: Path) -> None:
    tidy = Tidy()
    fit(tidy, run_dir=tmp_path / "run")
    assert tidy.ends == [None]


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("at", ["configure", "after_step", "after_evaluation", "after_run"])
@pytest.mark.parametrize("error", [SettingError("no more"), ValueError("no"), KeyboardInterrupt()])
def test_the_error_that_ended_the_run_is_given(
    at: str, error: BaseException, folder: bool, tmp_path: Path
) -> None:
    first, last = Tidy("first"), Tidy("last")
    with pytest.raises(type(error)) as caught:
        fit(first, Broken(at, error), last, run_dir=tmp_path / "run" if folder else False)
    assert caught.value is error
    assert first.ends == last.ends == [error]


def test_the_lock_is_free_and_nothing_is_left_of_a_run_that_never_began(tmp_path: Path) -> None:
    tidy = Tidy()
    with pytest.raises(ValueError, match="never"):
        fit(tidy, Broken("configure", ValueError("never")), run_dir=tmp_path / "deep" / "run")
    assert len(tidy.ends) == 1
    assert not (tmp_path / "deep").exists()
    fit(Tidy(), run_dir=tmp_path / "deep" / "run")


def test_every_plugin_cleans_up_even_if_another_fails_to() -> None:
    plugins = [Tidy("one"), Tidy("two", ValueError("two")), Tidy("three", ValueError("three"))]
    last = Tidy("four")
    with pytest.raises(ValueError, match="two"):  # the first one's
        fit(*plugins, last)
    assert all(plugin.ends == [None] for plugin in (*plugins, last))


def test_the_runs_own_error_goes_before_that_of_cleaning_up() -> None:
    error = SettingError("the run's own")
    one, two = Tidy("one", ValueError("one")), Tidy("two")
    with pytest.raises(SettingError, match="the run's own"):
        fit(one, Broken("after_step", error), two)
    assert one.ends == two.ends == [error]


def test_it_comes_after_the_results_are_written(tmp_path: Path) -> None:
    class Looks(Plugin):
        """Looks at the folder."""

        there = False

        @hookimpl
        def teardown(self) -> None:
            """Whether the results are there."""
            self.there = (tmp_path / "run/results.json").exists()

    looks = Looks()
    fit(looks, run_dir=tmp_path / "run")
    assert looks.there


def test_a_learner_is_torn_down_once_per_run() -> None:
    tidy = Tidy()
    built = prepare(toy_stream(), tidy, max_epochs=1)
    run_built(built)
    assert tidy.ends == [None]
