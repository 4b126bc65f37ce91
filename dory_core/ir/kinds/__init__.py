"""Kinds of layers, each in a file of its own: integer arithmetic with exact semantics.

Activations have logical shape (C, H, W); 1-D data is H = 1. A layer owns everything that follows it
up to the next layer: its requantisations are part of it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from dory_core.ir.kinds.arg_max import ArgMax
from dory_core.ir.kinds.avg_pool import AvgPool
from dory_core.ir.kinds.concat import Concat
from dory_core.ir.kinds.conv import Conv
from dory_core.ir.kinds.conv_transpose import ConvTranspose
from dory_core.ir.kinds.instance_norm import InstanceNorm
from dory_core.ir.kinds.l2_norm import L2Norm
from dory_core.ir.kinds.layer_norm import LayerNorm
from dory_core.ir.kinds.linear import Linear
from dory_core.ir.kinds.log_softmax import LogSoftmax
from dory_core.ir.kinds.lstm import Lstm
from dory_core.ir.kinds.lut import Lut
from dory_core.ir.kinds.matmul import MatMul
from dory_core.ir.kinds.max_pool import MaxPool
from dory_core.ir.kinds.norm import Norm
from dory_core.ir.kinds.operator import Operator
from dory_core.ir.kinds.pad import Pad
from dory_core.ir.kinds.pairwise import Add, Maximum, Minimum, Mul
from dory_core.ir.kinds.piecewise import Piecewise
from dory_core.ir.kinds.pooled_conv import PooledConv
from dory_core.ir.kinds.quotient import Quotient
from dory_core.ir.kinds.reshape import Reshape
from dory_core.ir.kinds.resize import Resize
from dory_core.ir.kinds.shares import Shares
from dory_core.ir.kinds.slice import Slice
from dory_core.ir.kinds.softmax import Softmax
from dory_core.ir.kinds.transpose import Transpose
from dory_core.ir.kinds.wide_softmax import WideSoftmax

__all__ = ["KINDS", "by_name"]

#: The kinds of the core; plugins add others with the hook ``dory_operators``.
KINDS: tuple[type[Operator], ...] = (
    *(Conv, PooledConv, ConvTranspose, Linear, MatMul, MaxPool, AvgPool),
    *(Add, Mul, Quotient, Maximum, Minimum),
    *(Lut, Piecewise, Softmax, WideSoftmax, LogSoftmax, Shares),
    *(Norm, L2Norm, LayerNorm, InstanceNorm, Lstm, ArgMax),
    *(Concat, Slice, Pad, Resize, Transpose, Reshape),
)


def by_name(*others: type[Operator]) -> Mapping[str, type[Operator]]:
    """Return the kinds of the core and others by the name that stands in the text of a Graph."""
    return MappingProxyType({kind.__name__: kind for kind in (*KINDS, *others)})
