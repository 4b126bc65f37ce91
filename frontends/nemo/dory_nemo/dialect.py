"""The NEMO dialect of ONNX.

A layer is Conv, Gemm or MatMul with kappa and lamda of its batch-norm and the requantisation m / D

    Mul(kappa) Add(lamda) [Cast] Mul(m) Div(D) [Cast] Clip

which is y = clip(floor((kappa * acc + lamda) * m / D)); without batch-norm kappa is 1, lamda is 0.

An average is Mul(kh * kw) Mul(ratio) Div(D) Floor after an AveragePool, and a residual is

    Mul(x, m1) Mul(z, m2) Add Div(D) Floor

which is y = floor((x * m1 + z * m2) / D),
where each factor belongs to the operand that feeds its Mul, and an activation after the Floor is a
second rounding. D is 2^k, or 2^k - 1 in files of older exporters: the graph is the truth. All of
this is the plain reading of the nodes that :class:`Dialect` gives; weights are 8 bits, and layer
nodes carry no attributes beyond the ONNX standard.

Files that PLiNIO exports for MATCH are of this kind, with integer types instead of floats: a Cast
to int32 after each layer, one to uint8 after each Clip, and weights of type int8 or uint8.
Weights of type uint8 are the bytes of signed weights (200 is -56): read so, the largest magnitude
of every output channel of such files is 127 or 128, as per-channel quantisation makes it.
"""

from __future__ import annotations

from pathlib import Path

from dory_onnx import Dialect, import_onnx

from dory_core.api import Graph
from dory_core.importing import FrontendOptions


class NemoDialect(Dialect):
    """The plain reading of all nodes, with weights of type uint8 as bytes of signed weights."""

    reference = "nemo"
    byte_weights = True


def parse(path: Path, options: FrontendOptions) -> Graph:
    """Return the integer network of a NEMO file.

    Raises: UsageError when the file is missing, NotSupported when it cannot be computed exactly.
    """
    return import_onnx(path, options, NemoDialect())
