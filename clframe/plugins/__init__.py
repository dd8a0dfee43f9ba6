"""The founding methods, evaluators and recorders, one file each.

More methods are in ``plugins_contrib``, written with public names only.
"""

from clframe.plugins.best_checkpoint import BestCheckpoint
from clframe.plugins.continual_world import ContinualWorld
from clframe.plugins.cost import Cost
from clframe.plugins.cumulative import Cumulative
from clframe.plugins.ewc import EWC
from clframe.plugins.feedback_replay import FeedbackReplay
from clframe.plugins.freeze import Freeze
from clframe.plugins.generative_replay import GenerativeReplay
from clframe.plugins.lwf import LwF
from clframe.plugins.mas import MAS
from clframe.plugins.multitask import Multitask
from clframe.plugins.online import Online
from clframe.plugins.packnet import PackNet
from clframe.plugins.plasticity import Plasticity
from clframe.plugins.predictions import Predictions
from clframe.plugins.replay import Replay
from clframe.plugins.reptile import Reptile
from clframe.plugins.si import SI
from clframe.plugins.xdg import XdG

__all__ = [
    "EWC",
    "MAS",
    "SI",
    "BestCheckpoint",
    "ContinualWorld",
    "Cost",
    "Cumulative",
    "FeedbackReplay",
    "Freeze",
    "GenerativeReplay",
    "LwF",
    "Multitask",
    "Online",
    "PackNet",
    "Plasticity",
    "Predictions",
    "Replay",
    "Reptile",
    "XdG",
]
