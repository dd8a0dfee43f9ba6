"""``clframe data check openloris DIR``."""

from __future__ import annotations

from typing import Any

import pytest

from clframe.cli.main import main


def check(root: Any, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["data", "check", "openloris", str(root)])
    captured = capfd.readouterr()
    return code, captured.out, captured.err


def test_a_good_folder(maker: Any, capfd: pytest.CaptureFixture[str]) -> None:
    root = maker.distributed(factors=("illumination", "clutter"), trees=True)
    code, out, err = check(root, capfd)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"OpenLORIS-Object in {root}: as distributed"
    (row,) = [line for line in lines if line.startswith("clutter") and "complex" in line][:1]
    fields = ["clutter", "3", "(complex)", "train", "7,8,9", "4", "4", "24", "24", "24"]
    assert row.split() == fields
    assert "instances: 4 of 121; all are from the challenge's edition" in out
    (row,) = [line for line in lines if line.startswith("paper_cutter")]
    assert row.split() == ["paper_cutter", "1/4", "72", "01", "02", "04"]
    (row,) = [line for line in lines if line.startswith("mouse")]
    assert row.split() == ["mouse", "0/1", "-", "all"]
    assert "missing factors: occlusion, pixel" in out
    assert "usable streams: openloris_illumination, openloris_clutter, openloris_mixture" in out


def test_gaps_are_listed(maker: Any, capfd: pytest.CaptureFixture[str]) -> None:
    maker.distributed(segments=[1, 2, 5], splits=("train",))
    for frame in (maker.root / "train/illumination/segment5/cup_01").iterdir():
        frame.unlink()
    maker.frame("train/illumination/segment1/teapot_01/1.jpg", "cup_01", 0)
    code, out, _ = check(maker.root, capfd)
    assert code == 0
    assert "illumination: missing segments 3, 4, 6, 7, 8, 9" in out
    assert "illumination: no test images; frames will be split 8:1:1 here" in out
    assert "illumination: missing instances in segment 5: cup_01" in out
    assert "left out: 1 images of instances that are not in the catalog (teapot_01)" in out


def test_challenge_with_missing_images(maker: Any, capfd: pytest.CaptureFixture[str]) -> None:
    root = maker.challenge(batches=2)
    (root / "test/batch2/000.jpg").unlink()
    code, out, _ = check(root, capfd)
    assert code == 0
    assert f"listed but not there: {root}/test/batch2/000.jpg" in out
    assert "usable streams: openloris_mixture" in out
    for image in root.rglob("*.jpg"):
        image.unlink()
    code, _, err = check(root, capfd)
    assert code == 2
    assert "no image that is listed in" in err


def test_what_is_refused(maker: Any, capfd: pytest.CaptureFixture[str]) -> None:
    maker.frame("photos/1.jpg", "cup_01", 0)
    code, out, err = check(maker.root, capfd)
    assert (code, out) == (2, "")
    assert "found photos/; expected" in err
    assert err.count("\n") == 1
    for words in ([], ["check"], ["check", "openlori", "."], ["show", "openloris", "."]):
        assert main(["data", *words]) == 2
    assert "did you mean 'openloris'?" in capfd.readouterr().err
