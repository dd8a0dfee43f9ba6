"""LIBERO's environments as `clframe.robot` wants them: episodes that follow from their number.

Light on purpose: worker processes import it and have no use for torch. The package is imported
when the first episode begins, and only its environments, never its algorithms.
"""

from __future__ import annotations

import atexit
import bdb
import contextlib
import functools
import importlib
import importlib.util
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import ClframeError, DataError
from clframe.utils.console import warn_user
from clframe.worlds.environment import Environment
from clframe.worlds.libero.init_states import read_init_states
from clframe.worlds.libero.paths import Places, not_usable, versions
from clframe.worlds.libero.starts import Poses, Record, Settled, settled
from clframe.worlds.libero.state_vector import IMAGE, Layout, shrunk
from clframe.worlds.libero.tasks import LiberoTask

ACTION_SIZE = 7
_PLACINGS = 50
"""Maximum tries of placing objects that find no room; LIBERO itself tries forever."""
_ENVIRONMENT_NAME = {"agentview": "agentview", "eye_in_hand": "robot0_eye_in_hand"}
_SHOWN = (1,)
"""The geom group of what is to be seen; robosuite keeps collision shapes in group 0."""
_CONTEXTS = {
    "egl": ("egl_context", "EGLGLContext"),
    "osmesa": ("osmesa_context", "OSMesaGLContext"),
    "glfw": ("glfw_context", "GLFWGLContext"),
    "glx": ("glfw_context", "GLFWGLContext"),
}

_alive: list[LiberoEnvironment] = []
"""Environments of this process that hold a simulation: those of one task, since one with images
takes more than a gigabyte."""


@atexit.register
def _give_up_all() -> None:
    """Close what draws while the graphics library is still loaded."""
    for environment in list(_alive):
        environment.close()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the package prints, warns of or asks: it must not reach a worker's pipes."""
    kept = sys.stdin
    sys.stdin = io.StringIO()
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.stdin = kept


@contextlib.contextmanager
def _drawing(seed: int) -> Iterator[None]:
    """NumPy's global generator, which robosuite draws from, for this block alone."""
    kept = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(kept)


@contextlib.contextmanager
def _variables(**values: str) -> Iterator[None]:
    """Environment variables for this block alone."""
    kept = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@functools.cache
def _library() -> Any:
    """The package's environments, imported so that it asks nothing and needs no OpenGL."""
    problem = not_usable()
    if problem is not None:
        raise DataError(f"LIBERO cannot run here: {problem}")
    with tempfile.TemporaryDirectory() as folder, _quiet():
        # It asks for paths on standard input unless its settings file is there; what is in it is
        # never looked up by the environments.
        (Path(folder) / "config.yaml").write_text("{}\n", encoding="utf-8")
        with _variables(LIBERO_CONFIG_PATH=folder, MUJOCO_GL="disable"):
            _load_macros()
            importlib.import_module("libero.libero.envs")
            return importlib.import_module("libero.libero.envs.env_wrapper")


def _load_macros() -> None:
    """Load robosuite's switches first, to turn off its choice of OpenGL and its log files."""
    if "robosuite" in sys.modules:
        return
    spec = importlib.util.find_spec("robosuite")
    assert spec is not None
    assert spec.submodule_search_locations
    place = Path(spec.submodule_search_locations[0]) / "macros.py"
    macros_spec = importlib.util.spec_from_file_location("robosuite.macros", place)
    assert macros_spec is not None
    assert macros_spec.loader is not None
    macros: Any = importlib.util.module_from_spec(macros_spec)
    sys.modules["robosuite.macros"] = macros
    macros_spec.loader.exec_module(macros)
    macros.MUJOCO_GPU_RENDERING = False
    macros.CONSOLE_LOGGING_LEVEL = macros.FILE_LOGGING_LEVEL = None


def _bring_opengl() -> None:
    """Give robosuite the way to draw that ``MUJOCO_GL`` names, EGL if it names none."""
    binding: Any = importlib.import_module("robosuite.utils.binding_utils")
    if hasattr(binding, "GLContext"):
        return
    wanted = os.environ.get("MUJOCO_GL", "").lower() or "egl"
    module, name = _CONTEXTS.get(wanted, _CONTEXTS["egl"])
    try:
        with _quiet(), _variables(MUJOCO_GL=wanted, PYOPENGL_PLATFORM=wanted):
            context = importlib.import_module(f"robosuite.renderers.context.{module}")
            kind = getattr(context, name)
            kind(max_width=8, max_height=8, device_id=-1).free()
    except Exception as error:
        # A graphics library that is absent or has no device shows in many ways.
        raise DataError(
            f"LIBERO's images need OpenGL without a screen, and MUJOCO_GL={wanted} does not work "
            f"here ({_first_line(error)}): install EGL or OSMesa, or learn from the simulator's "
            "state with stream.cameras=null"
        ) from error
    binding.GLContext = kind


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]


class LiberoEnvironment(Environment):
    """One task of LIBERO; episode k begins at its initial state k.

    Its own steps without motion come first. Nothing ends an episode; the goal is LIBERO's own
    ``check_success``.

    Args:
        task: Which one.
        places: Where its parts are stored.
        layout: Of the state.
        cameras: Whose images are seen, as LIBERO draws them (upside down).
        size: Pixels of an image's side.
        settle: Steps without motion before an episode begins.
        seeds: The seeds that stand for episodes 0, 1, ...; other seeds stand for themselves.
    """

    video_cameras = tuple(_ENVIRONMENT_NAME)

    def __init__(
        self,
        task: LiberoTask,
        places: Places,
        layout: Layout,
        cameras: Sequence[str] = (),
        size: int = IMAGE,
        settle: int = 5,
        seeds: Sequence[int] = (),
    ) -> None:
        self.task, self.places, self.layout = task, places, layout
        self.cameras, self.size, self.settle = tuple(cameras), size, settle
        self.render_mode: str | None = None
        self.simulation: Any = None
        self.settled: Settled | None = None
        self._episodes = {seed: number for number, seed in enumerate(seeds)}
        self._eye: Any = None

    @functools.cached_property
    def init_states(self) -> NDArray[np.float64]:
        """LIBERO's initial states of this task."""
        return read_init_states(self.places.init_file(self.task), self.task.state_size)

    @functools.cached_property
    def _record(self) -> Record:
        return Record(self.places.record, self.task.suite, self.task.name, versions(), self.settle)

    def start_of(self, seed: int | None) -> int:
        """Which initial state a seed stands for."""
        number = 0 if seed is None else self._episodes.get(seed, seed)
        return number % len(self.init_states)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Begin an episode at an initial state; ``info`` tells which and how things settled."""
        inner = self._made()
        start = self.start_of(seed)
        # Fixtures are no part of a state and are placed by chance, here by the state's number.
        with _quiet(), _drawing(start):
            _with_room(inner.env.reset)
            inner.set_init_state(self.init_states[start])
            put = self._poses()
            raw = inner.env._get_observations()
            for _ in range(self.settle):
                raw, *_ = inner.step(np.zeros(ACTION_SIZE))
            success = bool(inner.check_success())
        self.settled = settled(put, self._poses())
        sentence = self._record.add(start, self.settled)
        # One process begins every episode, so the warning appears once.
        if sentence is not None and start == 0:
            warn_user(sentence)
        about = {"success": success, "init_state": start, "settled": self.settled.to_json()}
        return self._observe(raw), about

    def step(
        self, action: NDArray[Any]
    ) -> tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]:
        """Do one action: displacement (3), rotation (3) and gripper (1), each in -1..1."""
        with _quiet():
            raw, reward, success, _ = self.simulation.step(np.clip(action, -1.0, 1.0))
        return self._observe(raw), float(reward), False, False, {"success": bool(success)}

    def _made(self) -> Any:
        """Return the simulation, building it if needed; those of other tasks are closed."""
        for other in [one for one in _alive if one.task != self.task]:
            other.close()
        if self.simulation is None:
            _library()  # the package first: initial states come with it
            states = self.init_states
            self.simulation = _build(self.task, self.places, self.cameras)
            width = len(self.simulation.get_sim_state())
            if width != states.shape[1]:
                self.close()
                raise DataError(
                    f"the assets in '{self.places.asset_folder()}' make a scene of {width} numbers "
                    f"for '{self.task.name}', but its initial states have {states.shape[1]}"
                )
            _alive.append(self)
        return self.simulation

    def _poses(self) -> Poses:
        inner = self.simulation.env
        data = inner.sim.data
        poses = {}
        for name in inner.objects_dict:
            body = inner.obj_body_id[name]
            poses[name] = (np.array(data.body_xpos[body]), np.array(data.body_xquat[body]))
        return poses

    def _observe(self, raw: Any) -> dict[str, NDArray[Any]]:
        rows = [
            np.asarray(raw[f"robot0_{name}"])[None]
            for name in ("gripper_qpos", "joint_pos", "eef_pos")
        ]
        positions = np.array(self.simulation.sim.data.qpos)[None]
        seen: dict[str, NDArray[Any]] = {
            "state": self.layout.state(self.task, rows[0], rows[1], rows[2], positions)[0]
        }
        for camera in self.cameras:
            image = np.asarray(raw[f"{_ENVIRONMENT_NAME[camera]}_image"], np.uint8)
            seen[f"{camera}_rgb"] = shrunk(image, self.size, "the simulator")
        return seen

    def render(self) -> NDArray[np.uint8] | None:
        """An image for people, right side up, by ray casting."""
        if self.render_mode is None or self.simulation is None:
            return None
        return self.image("agentview", 192)

    def image(self, camera: str, size: int) -> NDArray[np.uint8]:
        """What a camera sees now, right side up, by ray casting."""
        from clframe.worlds.render import RayCamera, View

        model, data = self.simulation.sim.model._model, self.simulation.sim.data._data
        # Every episode has a model of its own.
        if self._eye is None or self._eye[0] is not model:
            self._eye = (model, {})
        eyes = self._eye[1]
        view = View.of_camera(model, data, _ENVIRONMENT_NAME[camera])
        if size not in eyes:
            eyes[size] = RayCamera(model, size, size, groups=_SHOWN)
        rgb: NDArray[np.uint8] = eyes[size].render(data, view).rgb
        return rgb

    def simulator_state(self) -> NDArray[np.float64]:
        """Time, positions and velocities, as LIBERO's files have them."""
        return np.asarray(self.simulation.get_sim_state(), np.float64)

    def close(self) -> None:
        """Give the simulation up; the next episode builds it again."""
        if self in _alive:
            _alive.remove(self)
        if self.simulation is not None:
            self._eye = None
            with _quiet(), contextlib.suppress(Exception):
                self.simulation.close()
            self.simulation = None


def _build(task: LiberoTask, places: Places, cameras: Sequence[str]) -> Any:
    """LIBERO's own environment of a task."""
    library = _library()
    assets = places.asset_folder()
    if cameras:
        _bring_opengl()
    # Otherwise it would look in its own folder and then try to download.
    sys.modules["libero.libero"].__dict__["_assets_path_cache"] = str(assets)
    construct = functools.partial(
        library.ControlEnv,
        bddl_file_name=str(places.bddl_file(task)),
        use_camera_obs=bool(cameras),
        has_offscreen_renderer=bool(cameras),
        camera_names=[_ENVIRONMENT_NAME[camera] for camera in cameras],
        camera_heights=IMAGE,
        camera_widths=IMAGE,
        # Past its horizon LIBERO's environment raises; the stream counts steps itself.
        ignore_done=True,
    )
    try:
        with _quiet(), _drawing(0):
            return _with_room(construct)
    except ClframeError:
        raise
    except Exception as error:
        # A mesh, texture or scene that is absent or broken shows in many ways.
        drawn = " (if this is about drawing: stream.cameras=null needs no OpenGL)"
        raise DataError(
            f"LIBERO's task '{task.name}' cannot be built with the assets in '{assets}': "
            f"{type(error).__name__}: {_first_line(error)}{drawn if cameras else ''}"
        ) from error


def _with_room(function: Callable[[], Any]) -> Any:
    """Call what places things by chance, again while they find no room.

    LIBERO's own loop swallows every exception and would never end on a real one; and one of its
    ways of failing is to call the debugger, which finds nothing to read and quits.
    """
    from robosuite.utils.errors import RandomizationError

    for _ in range(_PLACINGS):
        with contextlib.suppress(RandomizationError, bdb.BdbQuit):
            return function()
    raise DataError(f"LIBERO found no room for the things of its scene in {_PLACINGS} tries")


def make(*arguments: Any, **settings: Any) -> LiberoEnvironment:
    """The environment of a task; nothing is built before its first episode."""
    return LiberoEnvironment(*arguments, **settings)


def no_expert(environment: Any) -> Iterator[NDArray[Any]]:
    """LIBERO has recordings of people and no script that solves its tasks."""
    task, places = environment.task, environment.places
    raise DataError(
        f"LIBERO has no expert that could demonstrate '{task.name}': put its own recording at "
        f"'{places.demonstration_file(task)}'"
    )
