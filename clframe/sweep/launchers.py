"""Make the launcher that a sweep's settings name."""

from __future__ import annotations

from pathlib import Path

from clframe.sweep.launcher import Launcher
from clframe.sweep.local import LocalLauncher, visible_gpus
from clframe.sweep.settings import SweepSettings


def make_launcher(settings: SweepSettings, folder: Path) -> Launcher:
    """Return the launcher that the settings name.

    Args:
        settings: Settings of the sweep.
        folder: The sweep folder.

    Raises:
        SettingError: Something that it needs is not installed or missing.
    """
    if settings.launcher == "submitit":
        from clframe.sweep.cluster import SubmititLauncher

        return SubmititLauncher(settings, folder)
    if settings.launcher == "ray":
        from clframe.sweep.ray_launcher import RayLauncher

        return RayLauncher(settings)
    return LocalLauncher(settings, visible_gpus())
