"""Random states with labelled images, and the training of the encoder on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("mujoco")

from clframe.models.libero.keypoints import CELLS, read
from clframe.worlds.tabletop.compiler import ROBOTS, RobotKind
from clframe.worlds.tabletop.scenes import Scene, mixed_problems, point_names
from clframe.worlds.tabletop.suites import tasks
from clframe.worlds.tabletop.world import World
from scripts import train_tabletop_encoder


@pytest.mark.parametrize("robot", ROBOTS)
def test_labels_are_where_things_are_seen(robot: RobotKind) -> None:
    problem = tasks("tabletop_goal")[0].problem
    names = point_names([problem])
    assert {"hand", "plate:0", "wooden_cabinet/top_drawer"} <= {*names}
    scene = Scene(World(problem, robot=robot), names)
    rng = np.random.default_rng(0)
    model = scene.world.model
    checked = 0
    for number in range(6):
        scene.draw(rng, start=number % 2 == 0)
        rgb, labels = scene.take("agentview")
        again, same = scene.take("agentview")
        np.testing.assert_array_equal(rgb, again)
        np.testing.assert_array_equal(labels.across, same.across)
        geom = scene.last.geom
        for name, thing in (("cream_cheese:0", "cream_cheese_1"), ("plate:0", "plate_1")):
            body = scene.world.bodies[thing]
            seen = np.isin(geom, np.flatnonzero(model.geom_bodyid == body))
            at = names.index(name)
            assert bool(labels.seen[at]) == (seen.sum() >= 3)
            if seen.sum() > 8:  # the middle of what is seen is near the label
                rows, columns = np.nonzero(seen)
                place = ((labels.across[at] + 1) * 32 - 0.5, (labels.down[at] + 1) * 32 - 0.5)
                assert np.hypot(columns.mean() - place[0], rows.mean() - place[1]) < 4
                checked += 1
    assert checked >= 4


def test_mixtures_can_be_drawn_and_seen() -> None:
    problems = [task.problem for task in tasks("tabletop_90")[::15]]
    names = point_names(problems)
    rng = np.random.default_rng(0)
    for problem in mixed_problems(problems, 3, rng):
        scene = Scene(World(problem), names, mixed=True)
        for start in (True, False):
            scene.draw(rng, start)
            image, labels = scene.take("agentview")
            assert image.std() > 10
            assert labels.seen.sum() >= 2
            assert np.isfinite([labels.across, labels.down, labels.depth]).all()


def test_targets_of_the_maps_have_the_place_as_their_mean() -> None:
    across, down = torch.tensor([[0.3, -0.77]]), torch.tensor([[-0.1, 0.5]])
    shares = train_tabletop_encoder.target_maps(across, down).unflatten(2, (CELLS, CELLS))
    middles = (torch.arange(CELLS) + 0.5) * 2 / CELLS - 1
    torch.testing.assert_close(shares.sum((2, 3)), torch.ones(1, 2))
    torch.testing.assert_close(shares.sum(2) @ middles, across)
    torch.testing.assert_close(shares.sum(3) @ middles, down)


def test_the_script_trains_an_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "net.npz"
    settings = [
        "--suite",
        "tabletop_goal",
        "--states",
        "24",
        "--mixtures",
        "2",
        "--epochs",
        "2",
        "--batch",
        "8",
    ]
    monkeypatch.setattr("sys.argv", ["train_tabletop_encoder.py", "--out", str(out), *settings])
    threads = torch.get_num_threads()
    train_tabletop_encoder.main()
    torch.set_num_threads(threads)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    losses = [float(line.split("training loss ")[1].split(",")[0]) for line in lines]
    assert losses[1] < losses[0]
    assert "akita_black_bowl:0" in read(out)[0].names
