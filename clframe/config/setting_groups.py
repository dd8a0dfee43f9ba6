"""The groups of settings that every run has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clframe.checkpoint.settings import CheckpointSettings
from clframe.core.trainer import TrainerSettings
from clframe.evaluation.evaluation_settings import EvaluationSettings
from clframe.recording.logging_settings import LoggingSettings
from clframe.utils import setting_checks

GROUPS_OF_SETTINGS: dict[str, type] = {
    "trainer": TrainerSettings,
    "evaluation": EvaluationSettings,
    "logging": LoggingSettings,
    "checkpoint": CheckpointSettings,
}
GROUP_OF = {
    name: group
    for group, settings in GROUPS_OF_SETTINGS.items()
    for name in setting_checks.defaults(settings)
}
"""The group of each setting; names are unique over the groups."""


def evaluation_settings(values: Mapping[str, Any] | None) -> EvaluationSettings:
    """Return the checked settings of the group ``evaluation``."""
    checked = setting_checks.check(EvaluationSettings, values or {}, "evaluation")
    return EvaluationSettings(**checked)


def logging_settings(values: Mapping[str, Any] | None) -> LoggingSettings:
    """Return the checked settings of the group ``logging``."""
    return LoggingSettings(**setting_checks.check(LoggingSettings, values or {}, "logging"))
