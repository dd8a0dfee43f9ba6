"""Rendered segments: the factors are what they say, and nothing else changes with them."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest

from clframe.errors import DataError, SettingError
from clframe.worlds.objects import catalog, factors
from clframe.worlds.objects.rendered import RenderSettings, render_segment, set_stage
from clframe.worlds.objects.segment import Segment

SOME = ("cup_01", "knife_01", "pencil_02", "toy_03", "glasses_02", "umbrella_01")
SETTINGS = RenderSettings(frames=3)


@cache
def segment(factor: str, number: int, names: tuple[str, ...] = SOME) -> Segment:
    return render_segment(factor, number, names, SETTINGS)


def sides(part: Segment) -> np.ndarray:
    assert part.box is not None
    return np.maximum(part.box[:, 2] - part.box[:, 0], part.box[:, 3] - part.box[:, 1])


def test_arrays_are_consistent() -> None:
    part = segment("clutter", 5)
    n, size = len(SOME) * SETTINGS.frames, SETTINGS.size
    assert part.rgb.shape == (n, 3, size, size)
    assert part.rgb.dtype == np.uint8
    assert part.mask is not None
    assert part.box is not None
    assert part.depth is not None
    assert part.depth.dtype == np.uint16
    labels = [catalog.instances().index(name) for name in SOME]
    assert part.instance.tolist() == np.repeat(labels, 3).tolist()
    assert part.frame.tolist() == [0, 1, 2] * len(SOME)
    for mask, (x0, y0, x1, y1), depth in zip(part.mask, part.box, part.depth, strict=True):
        assert mask[y0:y1, x0:x1].sum() == mask.sum() > 0
        assert mask[y0].any()
        assert mask[y1 - 1].any()
        assert mask[:, x0].any()
        assert mask[:, x1 - 1].any()
        # An object stands on the ground, so it is nearer than what is seen beside it.
        assert 100 < np.median(depth[mask == 1]) < 5000
        assert np.median(depth[mask == 1]) <= np.median(depth[:y0, :]) if y0 else True


def test_an_instance_is_the_same_in_any_company() -> None:
    alone = render_segment("occlusion", 8, ["knife_01"], SETTINGS)
    among = segment("occlusion", 8)
    for name, array in alone.arrays().items():
        assert np.array_equal(array, among.arrays()[name][3:6]), name


def test_another_seed_gives_another_room() -> None:
    other = render_segment("pixel", 1, ["cup_01"], RenderSettings(frames=3, seed=1))
    assert not np.array_equal(other.rgb, segment("pixel", 1).rgb[:3])


def test_frames_follow_each_other_smoothly() -> None:
    part = render_segment("illumination", 1, ["toy_03"], RenderSettings(frames=10))
    assert part.box is not None
    assert np.abs(np.diff(part.box.astype(int), axis=0)).max() <= 6
    gray = part.rgb.mean(axis=1)
    step = np.abs(np.diff(gray, axis=0)).mean()
    assert 0 < step < np.abs(gray[0] - gray[-1]).mean()


@pytest.mark.parametrize("view", [1, 3])
def test_illumination_changes_light_and_nothing_else(view: int) -> None:
    strong, normal, weak = (segment("illumination", view + 3 * k) for k in range(3))
    for other in (normal, weak):
        for name in ("mask", "box", "depth"):
            assert np.array_equal(strong.arrays()[name], other.arrays()[name]), name
    means = [part.rgb.reshape(len(part), -1).mean(axis=1) for part in (strong, normal, weak)]
    assert (means[0] > 1.25 * means[1]).all()
    assert (means[1] > 1.6 * means[2]).all()
    assert 100 < means[0].mean() < 190
    assert means[2].mean() > 15


def test_pixel_sizes_are_within_the_bounds_of_their_levels() -> None:
    large, small = factors.pixel_bounds(SETTINGS.size)
    for view in (1, 2, 3):
        assert sides(segment("pixel", view)).min() > large
        middle = sides(segment("pixel", view + 3))
        assert small < middle.min() <= middle.max() < large
        assert sides(segment("pixel", view + 6)).max() < small + 1  # whole pixels


@pytest.mark.parametrize("factor", ["illumination", "occlusion", "clutter"])
def test_the_object_is_large_unless_size_is_the_factor(factor: str) -> None:
    large, _ = factors.pixel_bounds(SETTINGS.size)
    assert sides(segment(factor, 1)).min() > large


@pytest.mark.parametrize("number", [1, 4, 5, 6, 7, 8, 9])
def test_occlusion_hides_its_share_of_the_object(number: int) -> None:
    wanted = factors.OCCLUDED[catalog.level_of(number) - 1]
    seen = segment("occlusion", number).mask
    assert seen is not None
    for k, name in enumerate(SOME):
        stage, shots, _ = set_stage("occlusion", number, name, SETTINGS)
        whole = np.array([len(stage.sight_lines(shot, SETTINGS.size)) for shot in shots])
        hidden = 1 - seen[3 * k : 3 * k + 3].sum(axis=(1, 2)) / whole
        assert hidden.mean() == pytest.approx(wanted, abs=factors.OCCLUSION_TOLERANCE), name
        assert np.abs(hidden - wanted).max() < 0.25, name


def test_without_its_occluder_an_object_is_where_it_was() -> None:
    free, hidden = segment("occlusion", 2).mask, segment("occlusion", 5).mask
    assert free is not None
    assert hidden is not None
    assert not (hidden & ~free).any()


@pytest.mark.parametrize("number", [4, 8, 9])
def test_clutter_surrounds_the_object_and_hides_nothing(number: int) -> None:
    free, full = segment("clutter", (number - 1) % 3 + 1), segment("clutter", number)
    assert np.array_equal(free.arrays()["mask"], full.arrays()["mask"])
    for name in SOME[:3]:
        stage, _, _ = set_stage("clutter", number, name, SETTINGS)
        assert stage.model.nmocap == factors.CLUTTER[catalog.level_of(number) - 1]
    assert full.mask is not None
    changed = np.abs(full.rgb.astype(int) - free.rgb).max(axis=1) > 40
    assert changed[full.mask == 0].mean() > (0.05 if number < 7 else 0.12)


def test_depth_noise_is_an_option() -> None:
    clean = segment("clutter", 1).depth
    noisy = render_segment("clutter", 1, SOME, RenderSettings(frames=3, depth_noise=True)).depth
    assert clean is not None
    assert noisy is not None
    both = (noisy > 0) & (clean < 3000)
    error = np.abs(noisy.astype(float) - clean)[both]
    assert 0 < np.median(error) < 20
    assert 0.005 < np.mean(noisy == 0) < 0.5


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"size": 4}, "size=4"), ({"frames": 0}, "frames=0"), ({"palette": "hom"}, "home")],
)
def test_settings_are_checked(settings: dict[str, int | str], word: str) -> None:
    with pytest.raises(SettingError, match=word):
        RenderSettings(**settings)  # type: ignore[arg-type]


def test_unknown_factors_segments_and_renderers_are_named() -> None:
    with pytest.raises(DataError, match="did you mean 'clutter'"):
        render_segment("cluter", 1, SOME, SETTINGS)
    with pytest.raises(DataError, match="not 10"):
        render_segment("clutter", 10, SOME, SETTINGS)
    with pytest.raises(SettingError, match="'vulkan'"):
        RenderSettings(renderer="vulkan")


def test_settings_travel_and_their_key_tells_them_apart() -> None:
    assert pickle.loads(pickle.dumps(SETTINGS)) == SETTINGS
    others = [RenderSettings(**{name: value}) for name, value in (
        ("size", 32), ("frames", 4), ("seed", 1), ("depth_noise", True),
        ("renderer", "gl"), ("samples", 2), ("palette", "mall"),
    )]  # fmt: skip
    assert len({settings.key() for settings in [RenderSettings(), *others]}) == 8


def test_colors_keep_their_hue_in_strong_light() -> None:
    part = render_segment("illumination", 2, ["toy_01", "plug_04", "notebook_03"], SETTINGS)
    assert part.mask is not None
    red, green, blue = part.rgb.transpose(1, 0, 2, 3)[:, part.mask == 1].astype(int)
    # Yellow and orange things: nowhere green, nowhere blue, however bright.
    assert (green > red + 40).mean() < 0.01
    assert (blue > red + 40).mean() < 0.01
