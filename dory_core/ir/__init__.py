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
from dory_core.ir.movers import Concat, Pad, Reshape, Resize, Slice, Transpose
from dory_core.ir.ops import (
    Add,
    ArgMax,
    AvgPool,
    Conv,
    ConvTranspose,
    Linear,
    Lut,
    Maximum,
    MaxPool,
    Minimum,
    Mul,
    Op,
    Pairwise,
    Softmax,
    Window,
)
from dory_core.ir.requant import Requant, mean_requant, requant

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
    "mean_requant",
    "pixel_bytes",
    "requant",
    "storage_for",
    "ArgMax",
    "Concat",
    "ConvTranspose",
    "Lut",
    "Maximum",
    "Minimum",
    "Mul",
    "Pad",
    "Pairwise",
    "Reshape",
    "Resize",
    "Slice",
    "Softmax",
    "Transpose",
]
