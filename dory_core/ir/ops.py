"""Kinds of layers: ``ops.Conv``, ``ops.Linear`` and the others, each in a file of ``ir/kinds/``.

They are integer arithmetic with exact semantics, independent of dialect and chip. Activations have
logical shape (C, H, W); 1-D data is H = 1. A layer owns everything that follows it up to the next
layer: its requantisations are part of it. A plugin's own kind derives from ``ops.Operator``.
"""

from dory_core.ir.bounds import Accumulator, Interval
from dory_core.ir.kinds import KINDS
from dory_core.ir.kinds.arg_max import ArgMax
from dory_core.ir.kinds.avg_pool import AvgPool, RealMean
from dory_core.ir.kinds.channels import Selection
from dory_core.ir.kinds.concat import Concat
from dory_core.ir.kinds.conv import Conv
from dory_core.ir.kinds.conv_transpose import ConvTranspose
from dory_core.ir.kinds.fields import Steps, as_text, number, word
from dory_core.ir.kinds.instance_norm import InstanceNorm
from dory_core.ir.kinds.l2_norm import L2Norm
from dory_core.ir.kinds.layer_norm import LayerNorm, NormForm
from dory_core.ir.kinds.linear import Linear
from dory_core.ir.kinds.log_softmax import LogSoftmax
from dory_core.ir.kinds.lstm import LSTM_STEPS, Lstm
from dory_core.ir.kinds.lut import Lut
from dory_core.ir.kinds.matmul import MatMul
from dory_core.ir.kinds.max_pool import MaxPool
from dory_core.ir.kinds.norm import Norm
from dory_core.ir.kinds.operator import Bare, Loads, Offsets, Operator, Sample, Triple
from dory_core.ir.kinds.pad import Pad
from dory_core.ir.kinds.pairwise import Add, Maximum, Minimum, Mul, Pairwise
from dory_core.ir.kinds.piecewise import Piecewise
from dory_core.ir.kinds.pooled_conv import PooledConv
from dory_core.ir.kinds.quotient import Quotient
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.kinds.reshape import Reshape
from dory_core.ir.kinds.resize import Resize
from dory_core.ir.kinds.shares import Shares
from dory_core.ir.kinds.slice import Slice
from dory_core.ir.kinds.softmax import Softmax
from dory_core.ir.kinds.transpose import Transpose
from dory_core.ir.kinds.weighted import Weighted
from dory_core.ir.kinds.wide_softmax import WideSoftmax
from dory_core.ir.kinds.window import Window

#: Another name of ``ops.Operator``.
Op = Operator

__all__ = [
    "Operator",
    "Bare",
    "Offsets",
    "Accumulator",
    "Interval",
    "Selection",
    "Sample",
    "RandomParts",
    "as_text",
    "number",
    "word",
    "Steps",
    "Window",
    "Weighted",
    "Conv",
    "PooledConv",
    "ConvTranspose",
    "Linear",
    "Loads",
    "MatMul",
    "MaxPool",
    "AvgPool",
    "RealMean",
    "Pairwise",
    "Add",
    "Mul",
    "Quotient",
    "Maximum",
    "Minimum",
    "Lut",
    "Piecewise",
    "Softmax",
    "WideSoftmax",
    "LogSoftmax",
    "Shares",
    "Norm",
    "L2Norm",
    "LayerNorm",
    "InstanceNorm",
    "NormForm",
    "Lstm",
    "ArgMax",
    "Concat",
    "Slice",
    "Pad",
    "Resize",
    "Transpose",
    "Reshape",
    "KINDS",
    "LSTM_STEPS",
    "Op",
    "Triple",
]
