"""From a task description to a MuJoCo model: the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any, Literal
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from clframe.errors import nearest
from clframe.worlds.bddl import BDDLError, Problem, Region
from clframe.worlds.tabletop.arm import add_arm
from clframe.worlds.tabletop.assets import ARENAS, Arena, Asset, Geom, Part, find
from clframe.worlds.tabletop.gripper import SEEN_ONLY, add_gripper

AGENT_CAMERA = "agentview"
ROBOTS = ("hand", "arm")
RobotKind = Literal["hand", "arm"]
"""A hand that floats, or one at the end of an arm."""
TIMESTEP = 0.005
"""Seconds of one physics step; ten make one step of the environment (20 Hz)."""

# Which sort touches which: what stands still, what moves on joints, what is free, the hand. Parts
# of a fixture do not touch the fixture, and things that stand still do not touch each other.
_STANDING = {"contype": "1", "conaffinity": "0"}
_HINGED = {"contype": "2", "conaffinity": "0"}
_FREE = {"contype": "4", "conaffinity": "7"}


@dataclass(frozen=True)
class Blueprint:
    """A problem together with the models of everything in it.

    Attributes:
        problem: The task description.
        arena: The workspace.
        workspace: The workspace's instance name.
        fixtures: Instance -> asset of what stands still.
        objects: Instance -> asset of what can be moved.
        regions: Full name -> region, those of undeclared targets left out.
    """

    problem: Problem
    arena: Arena
    workspace: str
    fixtures: dict[str, Asset]
    objects: dict[str, Asset]
    regions: dict[str, Region]

    def asset(self, name: str) -> Asset:
        """The asset of a fixture or an object."""
        return self.objects[name] if name in self.objects else self.fixtures[name]


def blueprint(problem: Problem) -> Blueprint:
    """Look up every category of a problem.

    Raises:
        BDDLError: If the problem is not in LIBERO's dialect, has no workspace or more than one, or
            names something that there is no model of.
    """
    if not problem.libero:
        raise BDDLError(
            f"The problem {problem.name!r} names no fixtures and regions, so there is nothing to "
            "build; tabletop tasks are written in LIBERO's dialect (domain robosuite)."
        )
    places = [name for name, kind in problem.fixtures.items() if kind in ARENAS]
    if len(places) != 1:
        raise BDDLError(
            f"A tabletop task needs exactly one workspace among its fixtures, one of "
            f"{', '.join(ARENAS)}, not {len(places)}."
        )
    (workspace,) = places
    fixtures = {
        name: find(name, kind, fixture=True)
        for name, kind in problem.fixtures.items()
        if name != workspace
    }
    objects = {name: find(name, kind, fixture=False) for name, kind in problem.objects.items()}
    targets = {workspace, *fixtures, *objects}
    regions = {r.full_name: r for r in problem.regions if r.target in targets}
    plan = Blueprint(
        problem, ARENAS[problem.fixtures[workspace]], workspace, fixtures, objects, regions
    )
    for region in regions.values():
        _check_region(plan, region)
    return plan


def _check_region(plan: Blueprint, region: Region) -> None:
    """A rectangle must be on the workspace, any other region a place of its target's model."""
    at = (region.at.line, region.at.column)
    if region.ranges:
        if region.target != plan.workspace:
            raise BDDLError(
                f"The region {region.full_name} is a rectangle, which only the workspace "
                f"{plan.workspace} has.",
                *at,
            )
        x, y = plan.arena.half
        for x0, y0, x1, y1 in region.ranges:
            if x0 < -x or y0 < -y or x1 > x or y1 > y:
                raise BDDLError(
                    f"The region {region.full_name} cannot be reached: it is outside the "
                    f"workspace {plan.workspace}, which goes from ({-x:g}, {-y:g}) to "
                    f"({x:g}, {y:g}).",
                    *at,
                )
    elif region.target != plan.workspace:
        places = plan.asset(region.target).places
        if region.name not in places:
            raise BDDLError(
                f"The model of {region.target} has no place {region.name!r}; "
                f"{nearest(region.name, places)}",
                *at,
            )


def to_mjcf(plan: Blueprint, robot: RobotKind = "hand") -> str:
    """The model as MJCF text. Poses at the start are the compiler's rest poses, not yet sampled."""
    root = Element("mujoco", {"model": plan.problem.name})
    SubElement(root, "compiler", {"angle": "radian", "eulerseq": "XYZ", "autolimits": "true"})
    option = {
        "timestep": f"{TIMESTEP:g}",
        "integrator": "implicitfast",
        "cone": "elliptic",
        "impratio": "5",
        "iterations": "30",
        "ls_iterations": "20",
        "tolerance": "1e-7",
    }
    SubElement(root, "option", option)
    default = SubElement(root, "default")
    SubElement(default, "geom", {"friction": "0.8 0.005 0.0001", "solref": "0.012 1"})
    world = SubElement(root, "worldbody")
    _add_room(world, plan)
    _add_camera(world, plan.arena)
    for name, asset in plan.fixtures.items():
        body = SubElement(world, "body", {"name": name})
        _add_geoms(body, name, asset.geoms, _STANDING, 0.0)
        for part in asset.parts:
            _add_part(body, name, part)
    for number, (name, asset) in enumerate(plan.objects.items()):
        # Side by side in the air: only a place to compile at.
        body = SubElement(world, "body", {"name": name, "pos": f"{0.3 * number:g} 2 1"})
        SubElement(body, "freejoint", {"name": name})
        _add_geoms(body, name, asset.geoms, _FREE, asset.mass)
    if robot == "arm":
        add_arm(root, plan.arena.base, plan.arena.height)
    else:
        add_gripper(root)
    return tostring(root, encoding="unicode")


def compile_model(plan: Blueprint, robot: RobotKind = "hand") -> Any:
    """The compiled ``mujoco.MjModel``."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(to_mjcf(plan, robot))
    widen_bounds(model)
    # Newer versions always look for several points of contact between convex bodies. Older ones
    # must be asked to, or things that stand on each other rock for ever.
    several = getattr(mujoco.mjtEnableBit, "mjENBL_MULTICCD", None)
    if several is not None:
        model.opt.enableflags |= int(several)
    return model


def widen_bounds(model: Any) -> None:
    """Widen the boxes around bodies by which rays that are cast together pass over them.

    They do so by directions around a body's origin; what is not centered there, or seen from near,
    bulges out. Wider bounds make no difference to collisions.
    """
    bodies = np.flatnonzero(model.body_bvhadr >= 0)[1:]
    roots = model.body_bvhadr[bodies]
    bounds, off = model.bvh_aabb[roots], np.abs(model.body_ipos[bodies])
    model.bvh_aabb[roots, 3:] = 1.1 * bounds[:, 3:] + np.abs(bounds[:, :3]) + off + 0.01


def textures(plan: Blueprint) -> dict[str, str]:
    """Geom -> name of its procedural texture."""
    names = {"floor": "tiles" if plan.arena.height == 0 else "wood"}
    named = [(plan.workspace, plan.arena.geoms())]
    for name, asset in (plan.fixtures | plan.objects).items():
        named.append((name, asset.geoms))
        named.extend((f"{name}/{part.name}", part.geoms) for part in asset.parts)
    for owner, geoms in named:
        for number, geom in enumerate(geoms):
            if geom.texture is not None:
                names[f"{owner}:{number}"] = geom.texture
    return names


def _add_room(world: Element, plan: Blueprint) -> None:
    arena = plan.arena
    floor = {"name": "floor", "type": "plane", "size": "3 3 0.1", "pos": f"0 0 {-arena.height:g}"}
    SubElement(world, "geom", {**floor, "rgba": _rgba(arena.floor), **_STANDING})
    wall = {"name": "wall", "type": "plane", "size": "3 3 0.1", "pos": "-1.1 0 0"}
    SubElement(
        world, "geom", {**wall, "euler": f"0 {pi / 2:g} 0", "rgba": _rgba(arena.wall), **SEEN_ONLY}
    )
    _add_geoms(world, plan.workspace, arena.geoms(), _STANDING, 0.0)


def _add_camera(world: Element, arena: Arena) -> None:
    back = np.subtract(arena.camera, arena.target)
    back = back / np.linalg.norm(back)
    right = np.cross([0.0, 0.0, 1.0], back)
    right = right / np.linalg.norm(right)
    axes = (*right, *np.cross(back, right))
    SubElement(
        world,
        "camera",
        {
            "name": AGENT_CAMERA,
            "pos": _numbers(arena.camera),
            "xyaxes": _numbers(axes),
            "fovy": "42",
        },
    )


def _add_part(body: Element, owner: str, part: Part) -> None:
    name = f"{owner}/{part.name}"
    element = SubElement(body, "body", {"name": name, "pos": _numbers(part.pos)})
    joint = part.joint
    SubElement(
        element,
        "joint",
        {
            "name": name,
            "type": joint.kind,
            "axis": _numbers(joint.axis),
            "range": _numbers(joint.limits),
            "frictionloss": f"{joint.friction:g}",
            "damping": f"{joint.damping:g}",
            "armature": "0.001" if joint.kind == "hinge" else "0.05",
            "solreflimit": "0.01 1",
            "solimplimit": "0.98 0.99 0.001",
        },
    )
    _add_geoms(element, name, part.geoms, _HINGED, part.mass)


def _add_geoms(
    body: Element, owner: str, geoms: tuple[Geom, ...], collides: dict[str, str], mass: float
) -> None:
    volume = sum(_volume(geom) for geom in geoms if geom.solid)
    for number, geom in enumerate(geoms):
        attributes = {
            "name": f"{owner}:{number}",
            "type": geom.kind,
            "size": _numbers(geom.size),
            "pos": _numbers(geom.pos),
            "rgba": _rgba(geom.color),
        }
        if any(geom.euler):
            attributes["euler"] = _numbers(geom.euler)
        if geom.grip is not None:
            attributes["friction"] = f"{geom.grip:g} 0.02 0.0001"
        if not geom.solid:
            attributes |= SEEN_ONLY
        else:
            attributes |= collides
            if mass:
                attributes["mass"] = f"{mass * _volume(geom) / volume:g}"
        SubElement(body, "geom", attributes)


def _volume(geom: Geom) -> float:
    size = geom.size
    if geom.kind == "box":
        return 8 * size[0] * size[1] * size[2]
    if geom.kind == "cylinder":
        return 2 * pi * size[0] ** 2 * size[1]
    if geom.kind == "capsule":
        return pi * size[0] ** 2 * (2 * size[1] + 4 / 3 * size[0])
    if geom.kind == "sphere":
        return 4 / 3 * pi * size[0] ** 3
    return 4 / 3 * pi * size[0] * size[1] * size[2]


def _numbers(values: Any) -> str:
    return " ".join(f"{float(v):.6g}" for v in values)


def _rgba(color: tuple[float, float, float]) -> str:
    return _numbers((*color, 1.0))
