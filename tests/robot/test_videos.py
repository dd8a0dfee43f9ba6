"""Videos of episodes: their timing, what is in them, where they go."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clframe
from clframe.cli.main import main
from clframe.errors import SettingError
from clframe.robot.video import record_video, video_files, video_frames
from clframe.worlds.point_robot import PointEnvironment, expert
from tests.helpers import wandb_runs
from tests.helpers.processes import ProcessServer

pytest.importorskip("h5py", reason="demonstrations are HDF5 files")

needs_av = pytest.mark.skipif(
    importlib.util.find_spec("av") is None,
    reason="the package av, clframe[video], is not installed",
)


def images(count: int = 7, height: int = 33, width: int = 50) -> list[Any]:
    draw = np.random.default_rng(0)
    base = draw.integers(0, 256, (height, width, 3), np.uint8)
    return [np.roll(base, number, 1) for number in range(count)]


def timing_of_gif(path: Path) -> list[int]:
    from PIL import Image, ImageSequence

    with Image.open(path) as image:
        return [frame.info["duration"] for frame in ImageSequence.Iterator(image)]


class TwoCameras:
    """An environment with two cameras at 10 Hz that ends at its goal."""

    metadata = {"render_fps": 10}  # noqa: RUF012
    video_cameras = ("front", "hand")

    def __init__(self, goal: int) -> None:
        self.goal, self.steps, self.closed = goal, 0, False

    def image(self, camera: str, size: int) -> Any:
        return np.full((size, size, 3), 200 if camera == "front" else 100, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return {}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return {}, 0.0, False, False, {"success": self.steps == self.goal}

    def close(self) -> None:
        self.closed = True


class Blind(TwoCameras):
    """One that has no cameras and no render()."""

    video_cameras = ()  # type: ignore[assignment]


def test_a_gif_runs_in_real_time_and_holds_its_end(tmp_path: Path) -> None:
    video_files.write(tmp_path / "a.gif", images(), 20)
    assert timing_of_gif(tmp_path / "a.gif") == [50] * 6 + [1000]
    video_files.write(tmp_path / "b.gif", images(31), 30)
    shown = timing_of_gif(tmp_path / "b.gif")
    assert set(shown[:-1]) == {30, 40}
    assert sum(shown[:-1]) == 1000


@needs_av
def test_an_mp4_has_every_image_at_its_time(tmp_path: Path) -> None:
    import av

    video_files.write(tmp_path / "a.mp4", images(), 20)
    with av.open(str(tmp_path / "a.mp4")) as container:
        (stream,) = container.streams.video
        assert stream.average_rate == 20
        found = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(found) == 7
    assert found[0].shape == (34, 50, 3)


def test_a_folder_of_images_holds_them_as_they_are(tmp_path: Path) -> None:
    from PIL import Image

    video_files.write(tmp_path / "video", images(2), 20)
    for number, frame in enumerate(images(2)):
        found = np.asarray(Image.open(tmp_path / "video" / f"{number:04d}.png"))
        np.testing.assert_array_equal(found, frame)


def test_what_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match=r"as 'a.avi'; use NAME.mp4, NAME.gif"):
        video_files.check_target(Path("a.avi"))
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        SettingError, match=r"'a.mp4' needs the package av .*'a.gif', which needs no package"
    ):
        video_files.check_target(Path("a.mp4"))


def test_a_video_has_a_image_for_each_step() -> None:
    environment = PointEnvironment(0, 4)
    recorded = record_video.RecordVideo(environment)
    recorded.reset(seed=1)
    steps, done = 0, False
    for action in expert(environment):
        *_, info = recorded.step(action)
        steps, done = steps + 1, info["success"]
        if done:
            break
    shots = recorded.video()
    assert [shot.step for shot in shots] == list(range(1, steps + 1))
    assert [shot.success for shot in shots] == [False] * (steps - 1) + [True]
    assert [shot.ended for shot in shots] == [False] * (steps - 1) + [True]
    found = recorded.captioned("reach the place", "the expert")
    assert len({image.shape for image in found}) == 1
    assert found[0].shape[1] >= 190
    with pytest.raises(clframe.ClframeError, match="provides no images"):
        record_video.RecordVideo(Blind(1)).look()


def test_cameras_stand_side_by_side_over_a_caption() -> None:
    environment = TwoCameras(goal=5)
    recorded = record_video.RecordVideo(environment, every=3)
    recorded.reset(seed=0)
    for _ in range(8):
        recorded.step(np.zeros(2))
    assert [shot.step for shot in recorded.video()] == [3, 5, 6, 8]
    first, _, _, last = recorded.captioned(
        "put the bowl on the plate " * 9, "naive, after 1 of 2: a"
    )
    assert first.shape[1] == video_frames.LARGE + video_frames.SMALL
    assert (first[: video_frames.LARGE, : video_frames.LARGE] == 200).all()
    assert (first[: video_frames.SMALL, video_frames.LARGE :] == 100).all()
    assert (first[video_frames.LARGE :] > 200).any()  # words
    assert (first != last).any()
    assert video_frames.fitted("abc " * 50, 13, 100).endswith("…")
    recorded.close()
    assert environment.closed


def test_a_grid_waits_for_its_longest_episode() -> None:
    def shots(length: int, value: int, success: bool) -> list[video_frames.Shot]:
        view = np.full((8, 8, 3), value, np.uint8)
        taken = [video_frames.Shot({"": view}, 2 * n + 2, False) for n in range(length - 1)]
        return [*taken, video_frames.Shot({"": view}, 2 * length, success, ended=True)]

    found = video_frames.grid({"a": shots(3, 10, True), "b": shots(5, 90, False)}, "title", 20)
    assert len(found) == 5
    assert len({image.shape for image in found}) == 1
    edge = found[0][
        22, 4 : 4 + video_frames.TILE
    ]  # the upper edge of the first image: a frame once it has ended
    assert (edge == 10).all()
    green = found[2][22, 4 : 4 + video_frames.TILE]
    assert (green[:, 1] > green[:, 0]).all()
    np.testing.assert_array_equal(found[4][22, 4 : 4 + video_frames.TILE], green)


def fit(run: Path, **settings: Any) -> Any:
    stream = {"n_tasks": 2, "num_demos": 5, "eval_episodes": 3, "horizon": 30, "num_workers": 0}
    return clframe.fit(
        {"name": "point_robot", **stream},
        "er",
        max_epochs=2,
        run_dir=run,
        progress=False,
        logger=None,
        **settings,
    )


def test_videos_of_all_learned_tasks_change_nothing(tmp_path: Path) -> None:
    from PIL import Image

    plain = fit(tmp_path / "plain")
    recorded = fit(tmp_path / "recorded", videos="gif")
    np.testing.assert_array_equal(plain.matrix.values, recorded.matrix.values)
    for one, two in zip(plain.model.parameters(), recorded.model.parameters(), strict=True):
        assert (one == two).all()
    files = sorted(path.name for path in (tmp_path / "recorded" / "videos").iterdir())
    assert files == ["exp0.gif", "exp1.gif"]
    with Image.open(tmp_path / "recorded" / "videos" / "exp1.gif") as video:
        assert video.n_frames <= 15  # type: ignore[attr-defined]  # every second step
    assert not (tmp_path / "plain" / "videos").exists()


def test_a_killed_run_ends_with_the_same_videos(
    tmp_path: Path, clframe_process: ProcessServer
) -> None:
    settings = ["stream=point_robot", "strategy=er", "n_tasks=2", "num_demos=5", "horizon=30"]
    settings += ["eval_episodes=3", "num_workers=0", "max_epochs=4", "videos=gif", "logger=none"]
    settings += [f"data_dir={tmp_path}"]
    assert main(["fit", *settings, f"run_dir={tmp_path / 'whole'}"]) == 0
    words = ["-m", "clframe", "fit", *settings, f"run_dir={tmp_path / 'part'}"]
    killed = clframe_process.start(words, tmp_path)
    first = tmp_path / "part" / "videos" / "exp0.gif"
    while not first.exists() and killed.poll() is None:
        time.sleep(0.001)
    killed.kill()
    assert not (tmp_path / "part" / "results.json").exists()
    assert main(["fit", f"resume={tmp_path / 'part'}"]) == 0
    for number in (0, 1):
        whole, part = (tmp_path / run / "videos" / f"exp{number}.gif" for run in ("whole", "part"))
        assert whole.read_bytes() == part.read_bytes()
    one, two = (
        json.loads((tmp_path / run / "results.json").read_text()) for run in ("whole", "part")
    )
    assert one["matrix"] == two["matrix"]


def test_a_video_of_the_final_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    fit(run, videos="gif")
    video = tmp_path / "video.gif"
    words = ["rollout", str(run), "--task", "turn_0_of_2", "--episodes", "1", "--video", str(video)]
    assert main(words) == 0
    said = capsys.readouterr().out
    count = len(timing_of_gif(video))
    assert f": {count} images in" in said
    assert f"mean {count:.1f} steps" in said


@pytest.mark.parametrize(
    ("stream", "said"),
    [("split_mnist", "needs robot episodes, which stream 'split_mnist' does not provide")],
)
def test_what_has_no_episodes_cannot_be_recorded(stream: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=said):
        clframe.fit(stream, videos="gif", run_dir=tmp_path / "run", progress=False, max_epochs=1)
    assert not (tmp_path / "run").exists()


def test_the_report_shows_videos_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clframe.report import videos
    from clframe.report.html import report_html
    from clframe.runs.reader import read_run

    run = tmp_path / "run"
    fit(run, videos="gif")
    page = report_html([read_run(run)])
    assert page.count("data:image/gif;base64,") == 2
    assert page.index("After 2: turn_1_of_2") < page.index("After 1: turn_0_of_2")
    newest = (run / "videos" / "exp1.gif").stat().st_size
    monkeypatch.setattr(videos, "MOST", newest)
    page = report_html([read_run(run)])
    assert page.count("data:image/gif;base64,") == 1
    assert "in &#39;videos&#39;: exp0.gif" in page
    (run / "videos" / "exp1.gif").write_bytes(b"<script>alert(1)</script>")
    assert "<script" not in report_html([read_run(run)])


LOGGED = """
from pathlib import Path
from clframe.recording.media import Media
from clframe.loggers.wandb import WandbRun

state = None
for steps in (4, 9):
    logger = WandbRun(Path("run").absolute(), mode="offline")
    if state is not None:
        logger.load_state_dict(state)
    logger.log_metrics({"loss": 1.0}, steps)
    if state is None:
        logger.log_media([Media("videos", "video", "videos/exp0.gif")], steps)
    state = logger.state_dict()
    logger.finalize("success")
"""


@pytest.mark.slow
def test_a_video_is_in_wandb_and_stays_when_the_run_is_resumed(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    video = tmp_path / "run" / "videos" / "exp0.gif"
    video_files.write(video, images(), 20)
    done = wandb_runs.run(LOGGED, tmp_path)
    assert done.returncode == 0, done.stderr
    # The second run takes the place of the first, with all that was logged before.
    (kept,) = (tmp_path / "run" / "wandb").glob("offline-run-*")
    (sent,) = kept.rglob("*.gif")
    assert sent.read_bytes() == video.read_bytes()
    points = (tmp_path / "run" / "wandb" / "points.jsonl").read_text().splitlines()
    media = {"videos": ["video", "videos/exp0.gif", ""]}
    assert json.loads(points[1]) == {"_media": media, "trainer/global_step": 4}
