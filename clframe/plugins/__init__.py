"""Methods, evaluators and recorders, one file each."""

from clframe.plugins.adapter import Adapter
from clframe.plugins.aper import APER
from clframe.plugins.coda_prompt import CODAPrompt
from clframe.plugins.cumulative import Cumulative
from clframe.plugins.dualprompt import DualPrompt
from clframe.plugins.ewc import EWC
from clframe.plugins.fecam import FeCAM
from clframe.plugins.feedback_replay import FeedbackReplay
from clframe.plugins.freeze import Freeze
from clframe.plugins.generative_replay import GenerativeReplay
from clframe.plugins.inflora import InfLoRA
from clframe.plugins.l2p import L2P
from clframe.plugins.lora import LoRA
from clframe.plugins.lwf import LwF
from clframe.plugins.mas import MAS
from clframe.plugins.multitask import Multitask
from clframe.plugins.ncm import NCM
from clframe.plugins.packnet import PackNet
from clframe.plugins.randumb import RanDumb
from clframe.plugins.ranpac import RanPAC
from clframe.plugins.replay import Replay
from clframe.plugins.si import SI
from clframe.plugins.slca import SLCA
from clframe.plugins.slda import SLDA
from clframe.plugins.xdg import XdG

__all__ = [
    "APER",
    "EWC",
    "L2P",
    "MAS",
    "NCM",
    "SI",
    "SLCA",
    "SLDA",
    "Adapter",
    "CODAPrompt",
    "Cumulative",
    "DualPrompt",
    "FeCAM",
    "FeedbackReplay",
    "Freeze",
    "GenerativeReplay",
    "InfLoRA",
    "LoRA",
    "LwF",
    "Multitask",
    "PackNet",
    "RanDumb",
    "RanPAC",
    "Replay",
    "XdG",
]
