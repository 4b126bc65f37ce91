"""Graph, layers, tensors and requantisation: the integer network between frontend and target."""

from dory_core.ir.array import Array
from dory_core.ir.graph import (
    Graph,
    Layer,
    LayerRanges,
    Tensor,
    pixel_bytes,
    storage_for,
)
from dory_core.ir.ops import Add, AvgPool, Conv, Linear, MaxPool, Op, Window
from dory_core.ir.requant import Requant, requant

__all__ = [
    "Add",
    "Array",
    "AvgPool",
    "Conv",
    "Graph",
    "Layer",
    "LayerRanges",
    "Linear",
    "MaxPool",
    "Op",
    "Requant",
    "Tensor",
    "Window",
    "pixel_bytes",
    "requant",
    "storage_for",
]
