from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
import torch

from clframe import Learner, Plugin, PluginError, Step, Term, hookimpl
from clframe.core.plugin import Plugins, check_composition
from clframe.testing import check_plugin, interrupted_run, toy_run, toy_stream


def test_a_hook_named_method_without_the_marker_is_refused() -> None:
    with pytest.raises(PluginError, match=r"Silent\.penalty is named like a hook but lacks"):

        class Silent(Plugin):
            def penalty(self) -> None: ...


def test_a_misspelt_hook_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PluginError, match="did you mean 'after_experience'"):

        class Misspelt(Plugin):
            @hookimpl
            def after_experiense(self) -> None: ...


def test_an_argument_the_hook_does_not_give_is_refused() -> None:
    with pytest.raises(PluginError, match="asks for banana, which that hook does not give"):

        class Asking(Plugin):
            @hookimpl
            def penalty(self, banana: int) -> None: ...


class First(Plugin):
    roles = ("weight penalty",)

    @hookimpl
    def penalty(self) -> torch.Tensor:
        return torch.tensor(1.0)


class Second(Plugin):
    @hookimpl
    def penalty(self) -> torch.Tensor:
        return torch.tensor(2.0)


class Last(Plugin):
    @hookimpl(trylast=True)
    def penalty(self) -> torch.Tensor:
        return torch.tensor(3.0)


def test_the_written_order_is_the_order_of_the_calls() -> None:
    plugins = Plugins([Last(), First(), Second()])
    results = plugins.hook.penalty(learner=None, step=None)
    assert [float(r) for r in results] == [1.0, 2.0, 3.0]


def test_hooks_that_nobody_has_are_known_to_be_empty() -> None:
    plugins = Plugins([First()])
    assert plugins.implements("penalty")
    assert not plugins.implements("after_step")


def test_two_managers_share_nothing() -> None:
    one, two = Plugins([First()]), Plugins([First(), Second()])
    assert len(one.hook.penalty(learner=None, step=None)) == 1
    assert len(two.hook.penalty(learner=None, step=None)) == 2


class Loner(Plugin):
    excludes: ClassVar[Mapping[str, str]] = {"weight penalty": "it is alone"}


class Needy(Plugin):
    needs = ("first",)


class TaskOnly(Plugin):
    scenarios = ("task",)


def test_compositions_that_cannot_work_are_refused_naming_both() -> None:
    stream = toy_stream("class")
    with pytest.raises(PluginError, match="'loner' cannot be combined with 'first'"):
        check_composition([First(), Loner()], stream)
    with pytest.raises(PluginError, match="'needy' needs plugin 'first'"):
        check_composition([Needy()], stream)
    with pytest.raises(PluginError, match="'first' is given twice"):
        check_composition([First(), First()], stream)
    with pytest.raises(PluginError, match="works in the task scenario"):
        check_composition([TaskOnly()], stream)
    check_composition([First(), Needy()], stream)


class Weighted(Plugin):
    """Returns the task loss itself as a term: the weighted mean must not change."""

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Term:
        return Term(learner.part_loss(step.outputs[0], step.batch), weight=3.0)


def test_terms_take_part_in_a_weighted_mean() -> None:
    plain, _ = toy_run([], toy_stream())
    weighted, _ = toy_run([Weighted()], toy_stream())
    assert plain.matrix.values == pytest.approx(weighted.matrix.values, abs=1e-6)


class Forgetful(Plugin):
    """Changes its behavior by a counter that it does not save."""

    def __init__(self) -> None:
        self.experiences = 0

    @hookimpl
    def after_experience(self) -> None:
        self.experiences += 1

    @hookimpl
    def penalty(self, learner: Learner) -> torch.Tensor:
        squares: Any = sum(p.square().sum() for p in learner.parameters())
        return 0.5 * self.experiences * squares


class Careful(Forgetful):
    state = ("experiences",)


def test_check_plugin_finds_state_that_is_not_saved() -> None:
    with pytest.raises(AssertionError, match="does not continue from its saved state"):
        check_plugin(Forgetful())
    check_plugin(Careful())


def test_check_plugin_finds_foreign_randomness() -> None:
    import secrets

    class Dice(Plugin):
        @hookimpl
        def after_backward(self, learner: Learner) -> None:
            for parameter in learner.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(secrets.randbelow(1000) / 100 - 5)

    with pytest.raises(AssertionError, match="gives another matrix the second time"):
        check_plugin(Dice())


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_a_run_stopped_after_every_experience_ends_the_same(scenario: Any) -> None:
    stream = toy_stream(scenario)
    whole, _ = toy_run([], stream)
    parts = interrupted_run([], stream)
    assert (whole.matrix.values == parts.matrix.values).all()
