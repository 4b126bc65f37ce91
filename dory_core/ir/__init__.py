"""Graph, layers, tensors and requantisation: the integer network between frontend and target."""

from dory_core.ir.array import Array
from dory_core.ir.graph import (
    Graph,
    LayerRanges,
    Tensor,
    TypedLayer,
    pixel_bytes,
    storage_for,
)
from dory_core.ir.layers import Add, AvgPool, Conv, Layer, Linear, MaxPool, Window
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
    "Requant",
    "Tensor",
    "TypedLayer",
    "Window",
    "pixel_bytes",
    "requant",
    "storage_for",
]
