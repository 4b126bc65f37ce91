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
    "ArgMax",
    "Array",
    "AvgPool",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Graph",
    "Layer",
    "LayerRanges",
    "Linear",
    "Lut",
    "MaxPool",
    "Maximum",
    "Minimum",
    "Mul",
    "Op",
    "Pad",
    "Pairwise",
    "Requant",
    "Reshape",
    "Resize",
    "Slice",
    "Softmax",
    "Tensor",
    "Transpose",
    "Window",
    "mean_requant",
    "pixel_bytes",
    "requant",
    "storage_for",
]
