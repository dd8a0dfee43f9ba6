"""The 121 objects: all there, of plausible size, each different, each a valid model."""

from __future__ import annotations

import numpy as np
import pytest

from clframe.errors import DataError
from clframe.worlds.objects import catalog
from clframe.worlds.objects.models import _MAKERS, attach, build, meshes


def test_there_is_a_maker_for_each_category() -> None:
    assert tuple(sorted(_MAKERS)) == tuple(sorted(catalog.CATEGORIES))


def test_all_instances_build_rest_on_the_ground_and_compile_together() -> None:
    import mujoco

    spec = mujoco.MjSpec()
    count = 0
    for name in catalog.instances():
        thing = build(name)
        count += len(thing.solids)
        assert abs(thing.low[2]) < 1e-9, name
        assert np.allclose((thing.low + thing.high)[:2], 0, atol=1e-3), name
        assert 0.03 < np.linalg.norm(thing.high - thing.low) < 1.5, name
        attach(spec, spec.worldbody.add_body(name=name), thing.solids, f"{name}-")
    model = spec.compile()
    assert model.ngeom == count
    assert count / 121 < 10  # rays cost by the geom
    assert model.nmeshface / 121 < 400


def test_instances_of_a_category_differ_in_shape_and_color() -> None:
    for category in catalog.CATEGORIES:
        family = [n for n in catalog.instances() if catalog.category_of(n) == category]
        colors = [tuple(sorted({solid.color for solid in build(n).solids})) for n in family]
        assert len(set(colors)) == len(family), category
    shapes = {tuple((build(n).high - build(n).low).round(4)) for n in catalog.instances()}
    assert len(shapes) > 110


def test_an_unknown_instance_is_named() -> None:
    with pytest.raises(DataError, match="no instance 'cup_09'; did you mean 'cup_"):
        build("cup_09")


def _volume(mesh: meshes.Mesh) -> float:
    a, b, c = (mesh[0][mesh[1][:, k]] for k in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


@pytest.mark.parametrize(
    ("mesh", "volume"),
    [
        (meshes.lathe([(0, 0), (1, 0), (1, 2), (0, 2)], 64), 2 * np.pi),
        (meshes.cut([(0, 0), (2, 0), (2, 2), (1, 2), (1, 1), (0, 1)], 0.5), 1.5),
        (meshes.sweep(np.array([[0, 0, 0], [0, 0, 3.0]]), 1.0, 64), 3 * np.pi),
        (meshes.sweep(meshes.arc(3.0, 0, 360, 97)[:-1], 1.0, 48, close=True), 6 * np.pi**2),
        (
            meshes.loft([meshes.arc(1, 0, 360, 65)[:-1] + np.array([0, 0, z]) for z in (0, 1)]),
            np.pi,
        ),
    ],
    ids=["lathe", "cut", "rod", "torus", "loft"],
)
def test_meshes_are_closed_and_wound_outwards(mesh: meshes.Mesh, volume: float) -> None:
    assert _volume(mesh) == pytest.approx(volume, rel=0.02)
    edges = np.sort(np.concatenate([mesh[1][:, [0, 1]], mesh[1][:, [1, 2]], mesh[1][:, [2, 0]]]), 1)
    _, uses = np.unique(edges, axis=0, return_counts=True)
    assert (uses == 2).all()
