"""Tasks away from their demonstrations: the seven axes of LIBERO-plus, at levels from 0 to 1.

Fei et al., "LIBERO-Plus: In-depth Robustness Analysis of Vision-Language-Action Models", 2025. A
perturbation never changes what is asked for. Everything it draws follows from the seed of the
episode and the axis, so that a perturbed episode is the same for every policy; what the task draws
itself stays as it is. At level 0 nothing is drawn and nothing is done.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError, nearest
from clframe.worlds.perturbation import Perturbation
from clframe.worlds.tabletop.gripper import HAND
from clframe.worlds.tabletop.observation import FIXTURE_SIZE, HAND_SIZE, OBJECT_SIZE, Layout
from clframe.worlds.tabletop.poses import (
    matrix_of_rotvec,
    quat_of_matrix,
    rotate_z,
    rotvec_of_matrix,
)
from clframe.worlds.tabletop.world import MOVE, TURN, World

if TYPE_CHECKING:
    from clframe.worlds.render import Lighting
    from clframe.worlds.tabletop.cameras import Cameras

AXES = {
    "layout": "things start up to 6 cm, furniture up to 3 cm outside of where the task puts them",
    "camera": "the agent's camera goes 25 degrees around, 8 degrees up or down, 15 % nearer or off",
    "start": "the hand starts 12 cm away, turned by 0.6 radians",
    "wording": "the instruction is phrased differently",
    "light": "the lamp is 60 % brighter or darker, 60 degrees around, tinted by 35 %",
    "texture": "floor, wall and table have 80 %, things 35 % of another color",
    "noise": "places are measured 5 mm wrong; images have grain of 30/255 and are blurred",
}
"""What each axis does at level 1."""
_SEEN = ("camera", "light", "texture")
_SPREAD = 0.06
_REDRAWN = 20
_AROUND, _TILT, _NEARER = np.radians(25.0), np.radians(8.0), 0.15
_OFF, _TWIST, _LEAD_STEPS = 0.12, 0.6, 30
_BRIGHTER, _LAMP_AROUND, _TINT = 0.6, np.radians(60.0), 0.35
_ROOM_SHARE, _THING_SHARE = 0.8, 0.35
_PLACE_ERROR, _TURN_ERROR, _NEARNESS_ERROR = 0.005, 0.03, 0.05
_GRAIN, _BLUR = 30.0, 1.0


def check(perturbation: Perturbation, cameras: Sequence[str]) -> None:
    """Refuse an axis that there is not, or that would make no difference.

    Raises:
        SettingError: With what would be right.
    """
    axis = perturbation.axis
    if axis not in AXES:
        raise SettingError(f"There is no perturbation '{axis}'; {nearest(axis, AXES)}")
    if axis in _SEEN and not cameras:
        raise SettingError(
            f"The perturbation '{axis}' makes no difference to a policy without cameras: set "
            "stream.cameras=[agentview,wrist], or leave it out."
        )
    if axis == "camera" and "agentview" not in cameras:
        raise SettingError(
            "The perturbation 'camera' moves the agent's camera, which the policy does not use: "
            "add agentview to stream.cameras, or leave it out."
        )


class Perturber:
    """Perturbs the episodes of one world.

    Args:
        perturbations: Each axis at most once; those of level 0 are left out.
        world: Which is changed.
        layout: Slots of the state.
    """

    def __init__(self, perturbations: Sequence[Perturbation], world: World, layout: Layout) -> None:
        self._levels = {p.axis: float(p.level) for p in perturbations if p.level > 0}
        if len({p.axis for p in perturbations}) < len(perturbations):
            raise SettingError("Each axis can be perturbed once only.")
        self._world = world
        self._errors = _errors(layout)
        self._noise = np.random.default_rng(0)
        self._lighting: Lighting | None = None
        model = world.model
        self._colors = np.array(model.geom_rgba)
        self._paintable = _paintable(world)
        camera = model.camera("agentview")
        self._camera = camera.id, np.array(camera.pos), np.array(camera.quat)

    def reset(self, rng: np.random.Generator, seed: int | None, start_noise: float) -> None:
        """Start an episode.

        Args:
            rng: The environment's own, for all that the task draws.
            seed: Of the episode; None draws one.
            start_noise: Of the task itself, see `World.reset`.
        """
        entropy = int(rng.integers(2**31)) if seed is None else seed
        chance = {
            axis: np.random.default_rng([zlib.crc32(axis.encode()), entropy])
            for axis in self._levels
        }
        for axis, change in (
            ("camera", self._move_camera),
            ("light", self._change_light),
            ("texture", self._paint),
        ):
            if axis in self._levels:
                change(chance[axis], self._levels[axis])
        if "layout" in self._levels:
            self._lay_out(rng, start_noise, self._levels["layout"])
        else:
            self._world.reset(rng, start_noise)
        if "start" in self._levels:
            self._lead_hand(chance["start"], self._levels["start"])
        if "noise" in self._levels:
            self._noise = chance["noise"]

    def _lay_out(self, rng: np.random.Generator, start_noise: float, level: float) -> None:
        """Draw a start state from widened rectangles in which nothing is done already."""
        for _ in range(_REDRAWN):
            self._world.reset(rng, start_noise, _SPREAD * level)
            if not self._world.satisfied():
                return
        self._world.reset(rng, start_noise)

    def _move_camera(self, rng: np.random.Generator, level: float) -> None:
        """Go around the point that the camera looks at, and nearer or further off."""
        number, position, quat = self._camera
        model, arena = self._world.model, self._world.plan.arena
        around, tilt, nearer = _signed(rng, level, 3) * [_AROUND, _TILT, _NEARER]
        target = np.array(arena.target)
        back = position - target
        right = np.cross([0.0, 0.0, 1.0], back)
        turn = rotate_z(around) @ matrix_of_rotvec(tilt * right / np.linalg.norm(right))
        model.cam_pos[number] = target + turn @ back * (1 + nearer)
        model.cam_quat[number] = quat_of_matrix(turn @ _matrix(quat))

    def _change_light(self, rng: np.random.Generator, level: float) -> None:
        from clframe.worlds.tabletop.cameras import LIGHTING

        lamp, *others = LIGHTING.lights
        brighter, around = _signed(rng, level, 2) * [_BRIGHTER, _LAMP_AROUND]
        tint = 1 + _TINT * level * rng.uniform(-1, 1, 3)
        position = rotate_z(around) @ np.array(lamp.position)
        moved = dataclasses.replace(
            lamp,
            position=tuple(position.tolist()),
            intensity=lamp.intensity * (1 + brighter),
            color=tuple((np.array(lamp.color) * tint).tolist()),
        )
        ambient = np.array(LIGHTING.ambient) * (1 + brighter / 2) * tint
        self._lighting = dataclasses.replace(
            LIGHTING, lights=(moved, *others), ambient=tuple(ambient.tolist())
        )

    def _paint(self, rng: np.random.Generator, level: float) -> None:
        """Mix the color of each thing with another; all geoms of a thing with the same one."""
        rgba = self._world.model.geom_rgba
        for geoms, share in self._paintable:
            other = rng.uniform(0, 1, 3)
            mixed = self._colors[geoms, :3] * (1 - share * level) + other * (share * level)
            rgba[geoms, :3] = mixed

    def _lead_hand(self, rng: np.random.Generator, level: float) -> None:
        """Lead the hand by actions to another place before the episode begins."""
        world = self._world
        away = rng.normal(size=3) * [1.0, 1.0, 0.6]
        twist = float(_signed(rng, level, 1)[0]) * _TWIST
        here, turned = world.aim
        goal = here + _OFF * level * away / np.linalg.norm(away)
        wanted = rotate_z(twist) @ turned
        for _ in range(_LEAD_STEPS):
            aim, now = world.aim
            move = (goal - aim) / MOVE
            turn = rotvec_of_matrix(wanted @ now.T) / TURN
            world.step(np.clip(np.concatenate([move, turn, [-1.0]]), -1.0, 1.0))
            if np.linalg.norm(world.position(HAND) - goal) < 0.005 and abs(turn).max() < 0.02:
                break

    def dress(self, images: Cameras) -> None:
        """Let images show this episode's light and colors."""
        if self._lighting is not None:
            images.lighting = self._lighting
        if {"texture", "camera"} & set(self._levels):
            images.refresh()

    def observe(self, seen: dict[str, Any]) -> dict[str, Any]:
        """An observation as bad sensors would have it; depth is left alone."""
        level = self._levels.get("noise")
        if level is None:
            return seen
        noisy = dict(seen)
        for name, value in seen.items():
            if name == "state":
                error = self._noise.standard_normal(len(value)) * self._errors * level
                # What is zero is not there.
                noisy[name] = np.where(value == 0, value, value + error).astype(np.float32)
            elif name.endswith("_rgb"):
                noisy[name] = _grainy(value, self._noise, level)
        return noisy


def _signed(rng: np.random.Generator, level: float, n: int) -> NDArray[np.float64]:
    """Numbers of either sign whose size is between half the level and the level."""
    return np.asarray(level * rng.uniform(0.5, 1.0, n) * rng.choice([-1.0, 1.0], n))


def _matrix(quat: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rotation matrix of a quaternion with the real part first."""
    import mujoco

    found = np.zeros(9)
    mujoco.mju_quat2Mat(found, quat)
    return found.reshape(3, 3)


def _paintable(world: World) -> list[tuple[NDArray[np.intp], float]]:
    """The geoms of each thing that is painted, and how much of another color it takes at most.

    Neither the robot nor lamps, which glow by themselves.
    """
    plan = world.plan
    lamps = {f"{n}:{a.lamp}" for n, a in plan.fixtures.items() if a.lamp is not None}
    owners: dict[str, list[int]] = {}
    for geom in range(world.model.ngeom):
        name = world.model.geom(geom).name
        owner = name.partition(":")[0].partition("/")[0]
        if name not in lamps:
            owners.setdefault(owner, []).append(geom)
    room = ("floor", "wall", plan.workspace)
    shares = dict.fromkeys(room, _ROOM_SHARE)
    shares |= dict.fromkeys((*plan.fixtures, *plan.objects), _THING_SHARE)
    return [(np.array(owners[n]), share) for n, share in shares.items() if n in owners]


def _errors(layout: Layout) -> NDArray[np.float64]:
    """Standard errors of the state's numbers at level 1; what is not measured has none."""
    place, turn, near = (_PLACE_ERROR,), (_TURN_ERROR,), (_NEARNESS_ERROR,)
    hand = [*place * 3, *turn * 6, 0.0, *(0.0,) * 8]
    arm = [*turn * 7, 0.0, 0.0] if layout.robot == "arm" else []
    thing = [0.0, *place * 3, *near * 3, *turn * 6]
    fixture = [0.0, *place * 3, *turn * 2, *(0.0, *near * 3) * 3]
    assert (len(hand), len(thing), len(fixture)) == (HAND_SIZE, OBJECT_SIZE, FIXTURE_SIZE)
    assert len(hand + arm) == layout.robot_size
    return np.array(hand + arm + thing * len(layout.objects) + fixture * len(layout.fixtures))


def _grainy(image: NDArray[np.uint8], rng: np.random.Generator, level: float) -> NDArray[np.uint8]:
    """An image with blur, which grows with its size, and grain."""
    sigma = _BLUR * level * image.shape[0] / 64
    reach = max(1, round(3 * sigma))
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    weights /= weights.sum()
    blurred = image.astype(np.float64)
    for axis in (0, 1):
        edges = [(reach, reach) if axis == a else (0, 0) for a in range(3)]
        padded = np.pad(blurred, edges, mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(weights), axis=axis)
        blurred = windows @ weights
    grain = rng.standard_normal(image.shape) * (_GRAIN * level)
    return np.clip(np.rint(blurred + grain), 0, 255).astype(np.uint8)
