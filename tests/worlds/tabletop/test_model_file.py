"""The model that is written beside demonstrations."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from clframe.cli.main import main
from clframe.worlds.tabletop.env import make

h5py = pytest.importorskip("h5py", reason="demonstrations are HDF5 files")


def test_a_model_file_is_the_world_of_its_episode(tmp_path: Path) -> None:
    words = ["stream=tabletop_goal", "task=turn_on_the_stove", "n=1", f"data_dir={tmp_path}"]
    out = tmp_path / "stove.hdf5"
    assert main(["demos", "export", *words, "--to", "robomimic", "--out", str(out)]) == 0
    with h5py.File(out) as file:
        group = file["data/demo_0"]
        model = mujoco.MjModel.from_xml_string(group.attrs["model_file"])
        states, seed = np.asarray(group["states"]), int(group.attrs["seed"])
    assert 1 + model.nq + model.nv <= states.shape[1]
    env = make("tabletop_goal", "turn_on_the_stove")
    env.reset(seed=seed)
    env.restore(states[0])
    there = env.world.model
    for name in ("body_pos", "body_quat", "body_mass", "geom_size", "geom_pos", "jnt_range"):
        np.testing.assert_array_equal(getattr(model, name), getattr(there, name), name)
    env.reset(seed=seed + 1)
    assert (model.body_pos != env.world.model.body_pos).any()  # fixtures stand elsewhere
