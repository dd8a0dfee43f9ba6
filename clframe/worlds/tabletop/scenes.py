"""Random states of tabletop scenes and where things are in their images.

What an encoder of images is trained on: the simulator knows the places that it is to find. Start
states alone would not do, for a policy sees things moved, held and half hidden by the hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import radians, tan

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.bddl import Leniency, Problem, parse
from clframe.worlds.render import Frame, Light, Lighting, RayCamera, Texture, View
from clframe.worlds.tabletop.assets import ARENAS
from clframe.worlds.tabletop.cameras import CAMERAS, PERIODS
from clframe.worlds.tabletop.compiler import blueprint, textures
from clframe.worlds.tabletop.gripper import HAND, HOME, LEFT, MAX_OPENING, RIGHT, pointing_down
from clframe.worlds.tabletop.poses import Matrix, Point, matrix_of_rotvec, quat_of_matrix, rotate_z
from clframe.worlds.tabletop.world import World

_LEAST_PIXELS = 3
"""Pixels of a thing from which it counts as seen."""
_TABLE = np.array([[-0.35, -0.42], [0.28, 0.42]])
"""Where things are put on the table."""
_ANCHORS = np.array(
    [[0.02, -0.26], [-0.28, -0.28], [-0.4, 0.2], [0.0, 0.3], [-0.25, 0.32], [-0.38, 0.0]]
)
"""Where furniture is put: at the sides of the table."""
_TRIES = 8
"""Poses of the hand that are drawn before it stays where episodes start."""
_APART = 0.07
"""Meters between the middles of things that are put down."""


@dataclass(frozen=True)
class Labels:
    """Where the named points are in an image: x to the right and y down, in -1..1; meters."""

    across: NDArray[np.float32]
    down: NDArray[np.float32]
    depth: NDArray[np.float32]
    seen: NDArray[np.bool_]


def point_names(problems: Iterable[Problem]) -> list[str]:
    """Names of the points of scenes: the hand, things by category and number, handles of parts.

    Things of one category are numbered from left to right as they are seen in an image.
    """
    most: Counter[str] = Counter()
    parts: set[str] = set()
    for problem in problems:
        plan = blueprint(problem)
        most |= Counter(_category(plan.problem, name) for name in (*plan.objects, *plan.fixtures))
        for name, asset in plan.fixtures.items():
            parts |= {f"{_category(problem, name)}/{part.name}" for part in asset.parts}
    things = [f"{name}:{k}" for name, count in sorted(most.items()) for k in range(count)]
    return [HAND, LEFT, RIGHT, *things, *sorted(parts)]


def _category(problem: Problem, name: str) -> str:
    return problem.objects[name] if name in problem.objects else problem.fixtures[name]


def mixed_problems(problems: Sequence[Problem], n: int, rng: np.random.Generator) -> list[Problem]:
    """Problems with things of others, drawn at random, on any table; they have no goal to reach.

    An encoder that has seen each thing in one scene only takes the scene for the thing.
    """
    most: Counter[str] = Counter()
    standing: set[str] = set()
    for problem in problems:
        plan = blueprint(problem)
        most |= Counter(problem.objects[name] for name in plan.objects)
        standing |= {problem.fixtures[name] for name in plan.fixtures}
    pool = [name for name, count in sorted(most.items()) for _ in range(count)]
    return [_mixed(pool, sorted(standing), rng) for _ in range(n)]


def _mixed(pool: list[str], standing: list[str], rng: np.random.Generator) -> Problem:
    fixtures = rng.choice(standing, min(len(standing), int(rng.integers(4))), replace=False)
    drawn = rng.choice(pool, min(len(pool), int(rng.integers(3, 7))), replace=False)
    objects = Counter(str(kind) for kind in drawn)
    table = str(rng.choice(list(ARENAS)))
    stand = [f"{kind}_1 - {kind}" for kind in fixtures]
    lie = [f"{kind}_{k + 1} - {kind}" for kind, count in objects.items() for k in range(count)]
    return parse(
        "(define (problem mixed) (:domain robosuite) (:language look)\n"
        "(:regions (anywhere (:target table_1) (:ranges ((-0.1 -0.1 0.1 0.1)))))\n"
        f"(:fixtures table_1 - {table}\n{chr(10).join(stand)})\n"
        f"(:objects {chr(10).join(lie)})\n"
        f"(:obj_of_interest {lie[0].split()[0]}) (:init)\n"
        f"(:goal (And (On {lie[0].split()[0]} table_1_anywhere))))",
        lenient=Leniency.ALL,
    )


class Scene:
    """A world whose state is drawn at random and whose images are labelled.

    Args:
        world: What is seen.
        names: As of :func:`point_names`.
        size: Pixels of an image's side.
        mixed: The problem says nothing of where things are (:func:`mixed_problems`): they may be
            anywhere.

    Attributes:
        last: The image that was taken last, with depth and geoms.
    """

    last: Frame

    def __init__(
        self, world: World, names: Sequence[str], size: int = 64, mixed: bool = False
    ) -> None:
        self.world, self.names, self.mixed = world, list(names), mixed
        self._patterns: dict[str | int, Texture] = {
            geom: Texture(pattern, period=PERIODS[pattern])
            for geom, pattern in textures(world.plan).items()
        }
        self._colors = np.array(world.model.geom_rgba)
        self._camera = RayCamera(world.model, size, size, 1, self._patterns)
        self._lighting = Lighting()
        self._fingers = [int(world.model.joint(name).qposadr[0]) for name in (LEFT, RIGHT)]

    # ------------------------------------------------------------------ states

    def draw(self, rng: np.random.Generator, start: bool) -> None:
        """Draw a state: from a start state of the task, or from the state as it is.

        Args:
            rng: Decides everything.
            start: Whether to begin with a start state of the task, which takes longer.
        """
        world = self.world
        if start and self.mixed:
            self._start(rng)
        elif start:
            world.reset(rng)
            self._rest = {name: world.position(name) for name in world.plan.objects}
            self._stand = {name: world.position(name) for name in world.plan.fixtures}
        for name in world.plan.fixtures:
            if rng.random() < 0.5:
                there = self._stand[name] + [*rng.uniform(-0.12, 0.12, 2), 0.0]
                world.model.body_pos[world.bodies[name]] = there
        for key, part in world.joints.items():
            low, high = part.spec.limits
            closed = 0.0 if low <= 0 <= high else low
            world.set_joint(key, rng.uniform(low, high) if rng.random() < 0.5 else closed)
        self._scatter(rng)
        world.look()
        hand, turn = self._place_hand(rng)
        if rng.random() < 0.25:  # something is held
            held = str(rng.choice(list(world.plan.objects)))
            offset = rng.normal(0, [0.03, 0.01, 0.02])
            tilt = matrix_of_rotvec(rng.normal(0, 0.15, 3)) @ rotate_z(rng.uniform(-3.2, 3.2))
            world.set_object(held, hand + turn @ offset, quat_of_matrix(tilt))
        world.look()
        self._recolor(rng)

    def _start(self, rng: np.random.Generator) -> None:
        """Put furniture to different sides of the table and all things on it."""
        world = self.world
        world.driver.go_home()
        anchors = rng.permutation(_ANCHORS)
        self._stand, self._rest = {}, {}
        for name, anchor in zip(world.plan.fixtures, anchors, strict=False):
            self._stand[name] = np.array([*(anchor + rng.normal(0, 0.05, 2)), 0.0])
            yaw = rng.choice([0.0, np.pi / 2, np.pi, np.pi, -np.pi / 2]) + rng.normal(0, 0.1)
            world.set_fixture(name, self._stand[name], yaw)
        for name in world.plan.objects:
            world.set_object(name, np.zeros(3), quat_of_matrix(rotate_z(0.0)))
        world.look()
        for name in world.plan.objects:
            height = -float(world.bounds(name)[0][2])
            self._rest[name] = np.array([*rng.uniform(*_TABLE), height])
            world.set_object(name, self._rest[name], quat_of_matrix(rotate_z(0.0)))

    def _scatter(self, rng: np.random.Generator) -> None:
        """Put some of the things elsewhere, not too near to each other."""
        world = self.world
        taken = [self._stand[name][:2] for name in world.plan.fixtures]
        for name in world.plan.objects:
            here = self._rest[name]
            if rng.random() < 0.7:
                for _ in range(10):
                    spot = rng.uniform(*_TABLE)
                    if all(np.hypot(*(spot - other)) > _APART for other in taken):
                        break
                here = np.array([*spot, here[2]])
                if rng.random() < 0.15:  # lifted, or on top of something
                    here[2] += rng.uniform(0, 0.25)
                world.set_object(name, here, quat_of_matrix(rotate_z(rng.uniform(-3.2, 3.2))))
            taken.append(here[:2])

    def _place_hand(self, rng: np.random.Generator) -> tuple[Point, Matrix]:
        """Put the hand near something, or anywhere within reach, its fingers somehow open."""
        world = self.world
        opening = rng.choice([0.0, MAX_OPENING, rng.uniform(0, MAX_OPENING)])
        world.data.qpos[self._fingers] = opening / 2
        near = [world.position(name) for name in world.plan.objects]
        near += [self._handle(key) for key in world.joints]
        for _ in range(_TRIES):
            hand, turn = self._hand_pose(near, rng)
            if world.driver.place(world.data, hand, turn):
                return hand, turn
        world.driver.go_home()
        return HOME, pointing_down()

    def _hand_pose(self, near: list[Point], rng: np.random.Generator) -> tuple[Point, Matrix]:
        if rng.random() < 0.65:
            goal = near[rng.integers(len(near))]
            above = rng.choice([0.03, 0.12]) * np.abs(rng.normal())
            offset = np.array([*rng.normal(0, 0.04, 2), above + rng.uniform(0, 0.04)])
            hand = goal + offset
        else:
            hand = rng.uniform([-0.35, -0.4, 0.02], [0.25, 0.4, 0.4])
        hand = np.clip(hand, self.world.reach[0], self.world.reach[1])
        yaw = rng.uniform(-1.6, 1.6) if rng.random() < 0.5 else rng.normal(0, 0.1)
        turn = matrix_of_rotvec(rng.normal(0, 0.08, 3)) @ pointing_down(yaw)
        if rng.random() < 0.15:  # reaching forward, as for a door
            turn = matrix_of_rotvec(np.array([0, rng.uniform(-1.2, 0.3), 0])) @ turn
        return hand, turn

    def _handle(self, key: str) -> Point:
        name, _, part = key.partition("/")
        body = self.world.joints[key].body
        spec = next(p for p in self.world.plan.fixtures[name].parts if p.name == part)
        data = self.world.data
        turned = data.xmat[body].reshape(3, 3) @ np.array(spec.handle)
        return np.asarray(data.xpos[body] + turned)

    def _recolor(self, rng: np.random.Generator) -> None:
        """Vary colors and light a little, so that other scenes look alike."""
        model = self.world.model
        colors = self._colors.copy()
        tint = 1 + rng.normal(0, 0.07, (len(colors), 1)) + rng.normal(0, 0.03, (len(colors), 3))
        colors[:, :3] = np.clip(colors[:, :3] * tint, 0, 1)
        model.geom_rgba[:] = colors
        self._camera.set_model(model, self._patterns)
        lamp = np.array([0.6, -0.9, 2.0]) + rng.normal(0, 0.25, 3)
        self._lighting = Lighting(
            lights=(
                Light(
                    position=(float(lamp[0]), float(lamp[1]), float(lamp[2])),
                    intensity=0.72 * float(np.exp(rng.normal(0, 0.12))),
                    color=(1.0, 0.97, 0.93),
                ),
                Light(direction=(-0.5, 0.5, -0.8), intensity=0.22, shadow=False),
            ),
            exposure=float(np.exp(rng.normal(0, 0.08))),
        )

    # ------------------------------------------------------------------ images

    def take(self, camera: str) -> tuple[NDArray[np.uint8], Labels]:
        """An image and where everything is in it."""
        assert camera in CAMERAS
        view = View.of_camera(self.world.model, self.world.data, camera)
        self.last = self._camera.render(self.world.data, view, self._lighting)
        return self.last.rgb, self.labels(self.last, view)

    def labels(self, frame: Frame, view: View) -> Labels:
        """Where the points are in an image that was taken of the state as it is."""
        world = self.world
        pixels = np.bincount(frame.geom.reshape(-1) + 1, minlength=world.model.ngeom + 1)[1:]
        of_body = np.zeros(world.model.nbody)
        np.add.at(of_body, world.model.geom_bodyid, pixels)
        values = np.zeros((4, len(self.names)), np.float32)
        found: dict[str, list[tuple[float, ...]]] = {}
        for category, point, body in self._points():
            right, up, back = view.rotation.T @ (point - view.position)
            half = -back * tan(radians(view.fovy) / 2)
            if back < -0.01 and of_body[body] >= _LEAST_PIXELS:
                seen = (float(right / half), float(-up / half), float(-back), 1.0)
                found.setdefault(category, []).append(seen)
        for category, places in found.items():
            for number, place in enumerate(sorted(places)):
                name = category if category in self.names else f"{category}:{number}"
                if name in self.names:
                    values[:, self.names.index(name)] = place
        return Labels(values[0], values[1], values[2], values[3] > 0)

    def _points(self) -> Iterable[tuple[str, Point, int]]:
        """All points of the scene in the world: name without number, place, and its body."""
        world, data = self.world, self.world.data
        for name in (HAND, LEFT, RIGHT):
            body = world.model.body(name).id
            yield name, self._tip(name, body), body
        for name in (*world.plan.objects, *world.plan.fixtures):
            body = world.bodies[name]
            yield _category(world.problem, name), np.array(data.xpos[body]), body
        for key, part in world.joints.items():
            name, _, label = key.partition("/")
            yield f"{_category(world.problem, name)}/{label}", self._handle(key), part.body

    def _tip(self, name: str, body: int) -> Point:
        """The hand's origin is between its tips; a finger's point is its geom."""
        if name == HAND:
            return np.array(self.world.data.xpos[body])
        return np.array(self.world.data.geom_xpos[self.world.model.geom(name).id])
