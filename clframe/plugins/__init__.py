"""Methods, evaluators and recorders, one file each."""

from clframe.plugins.cumulative import Cumulative
from clframe.plugins.ewc import EWC
from clframe.plugins.feedback_replay import FeedbackReplay
from clframe.plugins.freeze import Freeze
from clframe.plugins.generative_replay import GenerativeReplay
from clframe.plugins.lwf import LwF
from clframe.plugins.mas import MAS
from clframe.plugins.multitask import Multitask
from clframe.plugins.packnet import PackNet
from clframe.plugins.replay import Replay
from clframe.plugins.si import SI
from clframe.plugins.xdg import XdG

__all__ = [
    "EWC",
    "MAS",
    "SI",
    "Cumulative",
    "FeedbackReplay",
    "Freeze",
    "GenerativeReplay",
    "LwF",
    "Multitask",
    "PackNet",
    "Replay",
    "XdG",
]
