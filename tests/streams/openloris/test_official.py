"""Streams of official frames: labels, modalities, damaged images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import clframe
from clframe.data.concat import join
from clframe.data.dataset import TensorData
from clframe.errors import DataError, SettingError
from clframe.testing import check_stream
from clframe.worlds.objects import catalog
from clframe.worlds.objects.frames.official import decode

NAMES = catalog.instances()
FOUR = ("bottle_01", "bowl_02", "cup_01", "paper_cutter_03")


def stream(root: Path, kind: str = "illumination", **settings: Any) -> Any:
    return clframe.stream(f"openloris_{kind}", folder=str(root), size=16, **settings)


def inputs(data: Any) -> torch.Tensor:
    batch = next(iter(data.batches(torch.arange(len(data)), len(data))))
    assert isinstance(batch.x, torch.Tensor)
    return batch.x


def test_a_factor_has_nine_tasks_and_the_official_head(maker: Any) -> None:
    official = stream(maker.distributed())
    check_stream(official)
    assert len(official) == len(official.tasks) == 9
    assert official.scenario == "domain"
    assert official.n_outputs == 121
    assert official.input_shape == (3, 16, 16)
    assert [t.name for t in official.tasks][2:5] == ["strong-3", "normal-1", "normal-2"]
    assert official.tasks[8].info["content"] == "weak"
    assert "as distributed; 4 of 121 instances, 144 images at 16x16" in official.source
    labels = [NAMES.index(name) for name in FOUR]
    assert official.experiences[0].data.labels.tolist() == sorted(labels * 2)
    assert official.tasks[0].data.labels.tolist() == labels


def test_pixels_are_those_of_the_file(maker: Any) -> None:
    root = maker.distributed(segments=[1])
    official = stream(root)
    x = inputs(official.tasks[0].data)
    with Image.open(root / "test/illumination/segment1/cup_01/frame9.jpg") as image:
        expected = np.asarray(image.resize((16, 16), Image.Resampling.BILINEAR))
    place = official.tasks[0].data.labels.tolist().index(NAMES.index("cup_01"))
    assert torch.equal(
        x[place], torch.from_numpy(expected.transpose(2, 0, 1).copy()).float() / 255.0
    )


def test_the_benchmark_folder_gives_the_same_samples(makers: Any) -> None:
    a = stream(makers("a").distributed())
    b = stream(makers("b").benchmark())
    for one, other in zip([*a.experiences, *a.tasks], [*b.experiences, *b.tasks], strict=True):
        assert torch.equal(one.data.labels, other.data.labels)
        assert torch.equal(inputs(one.data), inputs(other.data))


def test_all_experiences_share_one_source(maker: Any) -> None:
    official = stream(maker.distributed())
    parts = [experience.data for experience in official]
    together = join(parts)
    assert isinstance(together, TensorData)
    assert len({id(part.source) for part in parts}) == 1
    assert len(together) == 9 * 8


def test_sequence_puts_the_segments_of_a_level_together(maker: Any) -> None:
    factors = ("illumination", "occlusion", "pixel", "clutter")
    official = stream(maker.distributed(factors=factors), "sequence")
    check_stream(official)
    assert len(official) == 12
    assert [task.name for task in official.tasks][::4] == [
        "illumination-1",
        "occlusion-2",
        "pixel-3",
    ]
    assert official.tasks[4].info["segments"] == ["occlusion-4", "occlusion-5", "occlusion-6"]
    assert len(official.experiences[4].data) == 3 * 4 * 2
    assert len(official.tasks[4].data) == 3 * 4


def test_mixture_of_factor_folders_deals_every_segment_once(maker: Any) -> None:
    factors = ("illumination", "occlusion", "pixel", "clutter")
    root = maker.distributed(factors=factors, instances=("cup_01",))
    official = stream(root, "mixture")
    dealt = [task.info["segments"] for task in official.tasks]
    assert len(dealt) == 12
    assert len({name for batch in dealt for name in batch}) == 36
    for batch in dealt:
        parts = [name.rsplit("-", 1) for name in batch]
        assert len({(f, catalog.level_of(int(n))) for f, n in parts}) in (2, 3)
    assert dealt == [task.info["segments"] for task in stream(root, "mixture").tasks]
    assert dealt != [task.info["segments"] for task in stream(root, "mixture", seed=1).tasks]


@pytest.mark.parametrize("layout", ["challenge", "listed"])
def test_mixture_of_the_challenge(maker: Any, layout: str) -> None:
    official = stream(getattr(maker, layout)(), "mixture", present_only=True)
    check_stream(official)
    assert [task.name for task in official.tasks] == [f"batch-{n}" for n in range(1, 13)]
    assert official.n_outputs == 2
    assert set(official.tasks[0].data.labels.tolist()) == {0, 1}


def test_categories_and_the_instances_that_are_there(maker: Any) -> None:
    root = maker.distributed(segments=[1])
    by_category = stream(root, target="category")
    assert by_category.n_outputs == 40
    expected = [catalog.CATEGORIES.index(catalog.category_of(name)) for name in FOUR]
    assert by_category.tasks[0].data.labels.tolist() == expected
    present = stream(root, present_only=True)
    assert present.n_outputs == 4
    assert present.tasks[0].data.labels.tolist() == [0, 1, 2, 3]
    edition = stream(root, n_instances=69)
    assert edition.n_outputs == 69
    few = stream(root, n_instances=10)
    assert few.n_outputs == 10
    assert few.tasks[0].data.labels.tolist() == [0, 5]


def test_depth_as_a_fourth_channel_and_alone(maker: Any) -> None:
    root = maker.distributed(trees=True)
    both = stream(root, modality="rgbd", depth_range=0.5)
    check_stream(both)
    assert both.input_shape == (4, 16, 16)
    color = inputs(stream(root).tasks[1].data)
    x = inputs(both.tasks[1].data)
    assert torch.equal(x[:, :3], color)
    assert torch.allclose(x[:, 3], torch.tensor(0.4))  # 200 mm of 500
    alone = stream(root, modality="depth", depth_range=0.5)
    check_stream(alone)
    assert alone.input_shape == (1, 16, 16)
    assert bool((inputs(alone.tasks[8].data) == 1.0).all())  # 900 mm are beyond the range


def test_a_mask_blacks_out_the_rest(maker: Any) -> None:
    root = maker.distributed(segments=[1], trees=True)
    x = inputs(stream(root, masked=True).tasks[0].data)
    plain = inputs(stream(root).tasks[0].data)
    assert torch.equal(x[:, :, :8], plain[:, :, :8])
    assert bool((x[:, :, 8:] == 0).all())


def test_depth_that_is_not_there_is_said(maker: Any) -> None:
    root = maker.distributed(segments=[1])
    with pytest.raises(DataError, match="holds no depth images: expected a folder 'depth'"):
        stream(root, modality="rgbd")


def test_a_single_missing_depth_image_is_named(maker: Any) -> None:
    root = maker.distributed(segments=[1], trees=True)
    gone = root / "depth/test/illumination/segment1/cup_01/frame9.png"
    gone.unlink()
    with pytest.raises(DataError, match=f"'{gone}' is not there"):
        stream(root, modality="rgbd").tasks[0].data  # noqa: B018
    assert len(stream(root).tasks[0].data) == 4
    assert len(stream(root, modality="rgbd", bad_images="skip").tasks[0].data) == 3


def test_depth_of_eight_bits_is_refused(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "d.png")
    with pytest.raises(DataError, match="must be a 16-bit PNG of millimeters"):
        decode(tmp_path / "d.png", "depth", 4)


def damage(path: Path, kind: str) -> None:
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:1500])
    elif kind == "foreign":
        path.write_text("<html>404 not found</html>")
    else:
        path.write_bytes(b"")


@pytest.mark.parametrize("kind", ["truncated", "foreign", "empty"])
def test_a_damaged_image_is_named_or_skipped(
    maker: Any, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    root = maker.distributed(segments=[1, 2])
    path = root / "train/illumination/segment2/bowl_02/frame10.jpg"
    healthy = path.read_bytes()
    damage(path, kind)
    for _ in range(2):  # the second time from the cache
        with pytest.raises(
            DataError, match=r"image '.*segment2/bowl_02/frame10.jpg' cannot be rea"
        ):
            stream(root).experiences[0].data  # noqa: B018
    capfd.readouterr()
    for _ in range(2):
        official = stream(root, bad_images="skip")
        assert len(official.experiences[0].data) == 8
        assert len(official.experiences[1].data) == 7
        assert "1 images are left out" in capfd.readouterr().err
    path.write_bytes(healthy)
    assert len(stream(root).experiences[1].data) == 8


def test_a_listed_image_that_is_not_there_is_named(maker: Any) -> None:
    root = maker.challenge(batches=2)
    (root / "train/batch2/005.jpg").unlink()
    with pytest.raises(DataError, match=r"image '.*train/batch2/005.jpg' is not there"):
        stream(root, "mixture").experiences[0].data  # noqa: B018
    skipping = stream(root, "mixture", bad_images="skip")
    assert len(skipping.experiences[1].data) == 1


def test_without_test_images_frames_are_split_here(maker: Any) -> None:
    for view in range(10):
        maker.frame(f"train/pixel/segment1/cup_01/{view}.jpg", "cup_01", view)
    official = stream(maker.root, "pixel")
    assert "pixel split 8:1:1 here" in official.source
    assert len(official.experiences[0].data) == 8
    assert len(official.tasks[0].data) == 1
    assert len(stream(maker.root, "pixel", evaluate_on="validation").tasks[0].data) == 1


def test_validation_may_be_missing_until_asked_for(maker: Any) -> None:
    root = maker.distributed(segments=[1], splits=("train", "test"))
    assert len(stream(root).tasks[0].data) == 4
    with pytest.raises(DataError, match="'strong-1' has no validation images"):
        stream(root, evaluate_on="validation").tasks[0].data  # noqa: B018


def test_fewer_frames_are_spread_over_the_clip(maker: Any) -> None:
    for view in range(10):
        maker.frame(f"train/pixel/segment1/cup_01/{view}.jpg", "cup_01", view)
    official = stream(maker.root, "pixel", frames=5)
    assert len(official.experiences[0].data) == 3


def test_missing_segments_make_a_shorter_stream_and_are_said(
    maker: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    root = maker.distributed(segments=[1, 2, 9])
    assert [task.name for task in stream(root).tasks] == ["strong-1", "strong-2", "weak-3"]
    assert "has 3 of 9 tasks" in capfd.readouterr().err
    with pytest.raises(DataError, match=r"'openloris_clutter': .* only illumination"):
        stream(root, "clutter")


def test_official_is_found_in_the_data_folder(maker: Any, tmp_path: Path) -> None:
    maker.distributed(segments=[1])
    maker.root.rename(tmp_path / "OpenLORIS-Object")
    official = clframe.stream("openloris_illumination", data_dir=tmp_path, size=16)
    assert official.source.startswith("OpenLORIS-Object from")
    assert len(official.tasks[0].data) == 4
    # The cache is beside the frames and is not taken for frames.
    inside = clframe.stream("openloris_illumination", data_dir=tmp_path / "OpenLORIS-Object")
    assert len(inside.tasks[0].data) == 4
    assert len(clframe.stream("openloris_illumination", data_dir=inside_dir(inside)).tasks) == 1


def inside_dir(official: Any) -> Path:
    return Path(official.source.split("'")[1])


def test_what_cannot_be_asked_for(maker: Any, tmp_path: Path) -> None:
    root = maker.distributed(segments=[1], instances=("cup_01",))
    with pytest.raises(DataError, match="there is no OpenLORIS-Object in"):
        clframe.stream("openloris_pixel", source="official", data_dir=tmp_path / "none")
    with pytest.raises(SettingError, match="is for official frames"):
        stream(root, source="rendered")
    with pytest.raises(SettingError, match="n_instances must be between 2 and 121"):
        stream(root, n_instances=1)
    with pytest.raises(SettingError, match="depth_range must be above 0"):
        stream(root, depth_range=0.0)
    with pytest.raises(SettingError, match=r"modality.* must be one of rgb, rgbd, depth"):
        stream(root, modality="thermal")
    with pytest.raises(SettingError, match="its own scenario"):
        stream(root, scenario="class")
    with pytest.raises(DataError, match="holds none of the 4 instances"):
        stream(root, n_instances=4)
