"""Settings that several factories share: fields of a dataclass, each set by its name."""

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clframe.core.registry import Registry, discover
from clframe.errors import SettingError
from clframe.robot.stream import ImitationSettings
from clframe.streams.libero.stream import LiberoSettings
from clframe.streams.point_robot import point_robot
from clframe.utils import setting_checks


@dataclass(frozen=True)
class Shared:
    width: int = 4
    height: float = 3.0
    fixed: int = field(default=7, init=False)


HIGH, PLAIN = Shared(height=2.0), Shared()


def make(doors: int = 1, shared: Shared = HIGH, name: str = "x") -> Any:
    return doors, shared, name


def test_fields_are_settings_in_the_place_of_the_parameter() -> None:
    assert setting_checks.defaults(make) == {"doors": 1, "width": 4, "height": 2.0, "name": "x"}
    assert list(setting_checks.defaults(make)) == ["doors", "width", "height", "name"]
    assert setting_checks.accepts(make, "width")
    assert not setting_checks.accepts(make, "shared")
    assert not setting_checks.accepts(make, "fixed")
    assert setting_checks.check(make, {"height": 5}, "a house") == {"height": 5.0}
    with pytest.raises(SettingError, match="a house: 'width' must be a whole number, got 'x'"):
        setting_checks.check(make, {"width": "x"}, "a house")
    with pytest.raises(SettingError, match=r"unknown setting 'widht' for a house.*'width'"):
        setting_checks.check(make, {"widht": 1}, "a house")


def test_the_registry_packs_them_again() -> None:
    registry = Registry()
    registry.add("model", "house", make)
    registry.add("model", "hut", functools.partial(make, shared=Shared(width=1)))
    assert registry.build("model", "house", {}) == (1, Shared(height=2.0), "x")
    assert registry.build("model", "house", {"width": 9}) == (1, Shared(9, 2.0), "x")
    assert registry.build("model", "house", {"doors": 2}, width=8) == (2, Shared(8, 2.0), "x")
    assert registry.build("model", "hut", {"height": 6.0}) == (1, Shared(1, 6.0), "x")


def test_one_name_cannot_be_two_settings() -> None:
    def twice(width: int = 1, shared: Shared = PLAIN) -> None: ...

    with pytest.raises(TypeError, match="'width'"):
        setting_checks.defaults(twice)


def test_robot_streams_have_defaults_of_their_own(tmp_path: Path) -> None:
    registry = discover()
    shared = setting_checks.defaults(ImitationSettings)
    for name, overrides in {
        "tabletop_goal": {},
        "metaworld_cw10": {},
        "point_robot": {"num_demos": 40, "horizon": 40, "num_envs": 20, "num_workers": 0},
        "libero_goal": {"horizon": 600, "task_input": "language", "num_envs": 4},
    }.items():
        defaults = setting_checks.defaults(registry.get("stream", name).factory)
        expected = {**shared, **overrides}
        if name == "libero_goal":
            del expected["goal_seed"]
        assert {key: defaults[key] for key in expected} == expected
    assert "goal_seed" not in setting_checks.defaults(registry.get("stream", "libero_goal").factory)
    assert LiberoSettings().goal_seed == 0

    built = registry.build("stream", "point_robot", {"eval_episodes": 3}, data_dir=tmp_path)
    called = point_robot(tmp_path, imitation=ImitationSettings(eval_episodes=3, horizon=40))
    assert built.tasks[0].evaluation.episodes == 3
    assert built.tasks[0].info["num_demos"] == 40
    assert called.tasks[0].evaluation.horizon == 40
    assert called.tasks[0].info["num_demos"] == 50


@pytest.mark.parametrize(
    ("value", "annotation", "sentence"),
    [
        (float("inf"), float, "must be finite, got inf"),
        (float("nan"), float | None, "must be finite, got nan"),
        ([0.1, float("-inf")], tuple[float, ...], "must be finite, got -inf"),
        (2**63, int, "at most 64 bits"),
        (10**500, float, "at most 64 bits"),
        ([10**30], list[int], "at most 64 bits"),
    ],
)
def test_numbers_that_no_setting_can_be(value: Any, annotation: Any, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        setting_checks.convert(value, annotation, "odd")
    assert setting_checks.convert(2**63 - 1, int, "large") == 2**63 - 1
