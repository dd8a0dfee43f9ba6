"""Methods, evaluators and recorders, one file each."""

from clframe.plugins.cumulative import Cumulative
from clframe.plugins.multitask import Multitask

__all__ = ["Cumulative", "Multitask"]
