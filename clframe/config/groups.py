"""The groups of a run's config, each in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clframe.core.registry import Kind

NAMED: tuple[Kind, ...] = ("stream", "model", "learner", "optimizer", "scheduler")
"""Groups with one choice: its ``name``, and its settings."""
SEVERAL = ("strategy", "logger")
"""Groups with several choices: the settings of each are one level deeper, under its name."""
SETTINGS = ("trainer", "evaluation", "logging", "checkpoint")
"""Groups of settings that every run has."""
GROUPS = (
    *("stream", "strategy", "model", "learner", "optimizer", "scheduler"),
    *SETTINGS,
    *("logger", "experiment"),
)
CHOSEN = tuple(group for group in GROUPS if group == "trainer" or group not in SETTINGS)
"""Groups in which ``GROUP=NAME`` chooses."""
ROOT_KEYS = (
    *("seed", "scenario", "data_dir", "download", "active_outputs", "pretrain", "plugin_path"),
    *("run_dir", "resume", "progress"),
)
"""Keys outside of groups."""
KEYS_OF_FIT = ("seeds", "sweep", "sweep_dir", "resume", "resume_allow")
"""Keys that ``clframe fit`` reads itself; they are not part of a run's config."""
EMPTY_CHOICES = {
    "strategy": "naive",
    "model": "default",
    "learner": "default",
    "scheduler": "none",
    "logger": "none",
    "experiment": "null",
}
"""The choice after ``~GROUP`` or ``GROUP=null``. A stream decides which model is its default."""
