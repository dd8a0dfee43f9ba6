"""Made-up folders of OpenLORIS-Object, of a few real frames each."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SAMPLE = Path(__file__).parents[2] / "data" / "openloris"
INSTANCES = ("bottle_01", "bowl_02", "cup_01", "paper_cutter_03")
VIEWS = ("001.jpg", "004.jpg", "007.jpg")
FACTORS = ("illumination", "occlusion", "pixel", "clutter")


@dataclass
class Maker:
    """Writes frames where a layout wants them; one frame a split unless said otherwise."""

    root: Path

    def frame(self, path: str, instance: str, view: int) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SAMPLE / instance / VIEWS[view % 3], place)
        return place

    def depth(self, path: str, millimeters: int) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((60, 106), millimeters, np.uint16)).save(place)
        return place

    def mask(self, path: str) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        values = np.zeros((60, 106), np.uint8)
        values[:30] = 255
        Image.fromarray(values).save(place)
        return place

    def distributed(
        self,
        factors: Sequence[str] = ("illumination",),
        segments: Sequence[int] = range(1, 10),
        instances: Sequence[str] = INSTANCES,
        splits: Sequence[str] = ("train", "validation", "test"),
        trees: bool = False,
        form: str = "{split}/{factor}/segment{number}/{instance}/{view}",
    ) -> Path:
        """Layout A, or B with another form; two training frames, one of each other split."""
        for factor in factors:
            for number in segments:
                for instance in instances:
                    for split in splits:
                        for view in range(2 if split == "train" else 1):
                            path = form.format(
                                split=split,
                                factor=factor,
                                number=number,
                                instance=instance,
                                view=f"frame{view + 9}",
                            )
                            self.frame(f"{path}.jpg", instance, view + number)
                            if trees:
                                self.depth(f"depth/{path}.png", 100 * number)
                                self.mask(f"mask/{path}.png")
        return self.root

    def benchmark(self, **settings: object) -> Path:
        """Layout B."""
        form = "{factor}/{split}/task{number}/{instance}/{view}"
        return self.distributed(form=form, **settings)  # type: ignore[arg-type]

    def challenge(self, batches: int = 12, splits: Sequence[str] = ("train", "test")) -> Path:
        """Layout C."""
        for split in splits:
            for number in range(1, batches + 1):
                folder = f"{split}/batch{number}"
                rows = []
                for label, instance in ((0, "bottle_01"), (5, "bowl_02")):
                    name = f"{label:03d}.jpg"
                    self.frame(f"{folder}/{name}", instance, number)
                    rows.append([len(rows), name, label])
                with (self.root / folder / "label.csv").open("w", newline="") as file:
                    csv.writer(file).writerows([["", "file name", "label"], *rows])
        return self.root

    def listed(self, group: str = "iros", batches: int = 12) -> Path:
        """Layout D: frames as in A, but in folders of their own, and lists of them."""
        folder = self.root / "batches_filelists" / "domain" / group
        folder.mkdir(parents=True)
        tests = []
        for number in range(batches):
            lines = []
            for label, instance in ((0, "bottle_01"), (5, "bowl_02")):
                place = f"{group}/set{number}/{instance}"
                for view in range(2):
                    self.frame(f"train/{place}/{view}.jpg", instance, view)
                    lines.append(f"train/{place}/{view}.jpg {label}")
                self.frame(f"test/{place}/2.jpg", instance, 2)
                tests.append(f"test/{place}/2.jpg {label}")
            (folder / f"train_batch_{number:02d}.txt").write_text("\n".join(lines) + "\n")
        (folder / "test.txt").write_text("\n".join(tests) + "\n")
        (folder / "LUP.pkl").write_bytes(b"cos\nsystem\n(S'touch pickled'\ntR.")
        return self.root


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "official")


@pytest.fixture
def makers(tmp_path: Path) -> Callable[[str], Maker]:
    """Several folders in one test."""
    return lambda name: Maker(tmp_path / name)
