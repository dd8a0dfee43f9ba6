"""Datasets for training and evaluation: in memory, in mapped files or through workers."""

from clframe.data.concat import JoinedData, join
from clframe.data.dataset import Batch, BatchLoss, Data, MapData, TensorData
from clframe.data.dataset import Transform as Transform
from clframe.data.inputs import Inputs, cat_inputs, map_inputs
from clframe.data.storage import TensorSource

__all__ = [
    "Batch",
    "BatchLoss",
    "Data",
    "Inputs",
    "JoinedData",
    "MapData",
    "TensorData",
    "TensorSource",
    "Transform",
    "cat_inputs",
    "join",
    "map_inputs",
]
