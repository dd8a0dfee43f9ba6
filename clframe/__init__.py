"""clframe: continual learning as a composition of plugins.

Public names are imported when first used, so that ``import clframe`` stays light.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from clframe.utils.version import __version__

if TYPE_CHECKING:
    from clframe.api import fit as fit
    from clframe.api import load as load
    from clframe.api import stream as stream
    from clframe.attached.attach import attach as attach
    from clframe.config.run_config import RunConfig as RunConfig
    from clframe.core.capabilities import Capabilities as Capabilities
    from clframe.core.hooks import TaskContext as TaskContext
    from clframe.core.learner import Learner as Learner
    from clframe.core.learner_factory import LearnerFactory as LearnerFactory
    from clframe.core.matrix import AccuracyMatrix as AccuracyMatrix
    from clframe.core.plugin import Plugin as Plugin
    from clframe.core.protocols import Model as Model
    from clframe.core.protocols import Policy as Policy
    from clframe.core.registry import Registry as Registry
    from clframe.core.results import Result as Result
    from clframe.core.step import Step as Step
    from clframe.core.step import Term as Term
    from clframe.core.stream import Experience as Experience
    from clframe.core.stream import Stream as Stream
    from clframe.core.stream import Task as Task
    from clframe.core.trainer import Budget as Budget
    from clframe.data.dataset import Batch as Batch
    from clframe.data.dataset import Data as Data
    from clframe.data.dataset import MapData as MapData
    from clframe.data.dataset import TensorData as TensorData
    from clframe.data.stream_from import stream_from as stream_from
    from clframe.errors import ClframeError as ClframeError
    from clframe.errors import DataError as DataError
    from clframe.errors import PluginError as PluginError
    from clframe.errors import SettingError as SettingError
    from clframe.hookspecs import hookimpl as hookimpl
    from clframe.recording.logger import RunLogger as RunLogger
    from clframe.recording.media import Heatmap as Heatmap
    from clframe.recording.media import Table as Table
    from clframe.reproduce.fork import fork as fork

# On a busy machine OpenMP's threads, which spin while they wait for each other, slow small models
# down twentyfold; waiting passively costs next to nothing. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HOME = {
    "AccuracyMatrix": "core.matrix",
    "Batch": "data.dataset",
    "Budget": "core.trainer",
    "Capabilities": "core.capabilities",
    "ClframeError": "errors",
    "Data": "data.dataset",
    "DataError": "errors",
    "Experience": "core.stream",
    "Heatmap": "recording.media",
    "Learner": "core.learner",
    "LearnerFactory": "core.learner_factory",
    "MapData": "data.dataset",
    "Model": "core.protocols",
    "Plugin": "core.plugin",
    "PluginError": "errors",
    "Policy": "core.protocols",
    "Registry": "core.registry",
    "Result": "core.results",
    "RunConfig": "config.run_config",
    "RunLogger": "recording.logger",
    "SettingError": "errors",
    "Step": "core.step",
    "Stream": "core.stream",
    "Table": "recording.media",
    "Task": "core.stream",
    "TaskContext": "core.hooks",
    "TensorData": "data.dataset",
    "Term": "core.step",
    "attach": "attached.attach",
    "fit": "api",
    "fork": "reproduce.fork",
    "hookimpl": "hookspecs",
    "load": "api",
    "stream": "api",
    "stream_from": "data.stream_from",
}
_MODULES = ("bddl", "metrics", "plugins", "report", "testing")

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"clframe.{_HOME[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"clframe.{name}")
    raise AttributeError(f"module 'clframe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
