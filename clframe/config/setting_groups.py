"""The groups of settings that every run has."""

from __future__ import annotations

from clframe.checkpoint.settings import CheckpointSettings
from clframe.core.trainer import TrainerSettings

GROUPS_OF_SETTINGS = {"trainer": TrainerSettings, "checkpoint": CheckpointSettings}
