"""The QuantLab dialect of ONNX.

A layer is Conv, Gemm, MatMul or a pool with

    Mul(mul) Add(add) Div(2^d) [Add(1/2)] Floor Clip(lo, hi)

which is the plain reading of the nodes: y = clip((mul[c] * acc + add[c]) >> d, lo, hi). The Clip is
the truth about range and sign. Layer nodes carry weight_bits, which this frontend reads, and
bias_bits, mult_bits, add_bits and out_bits, which describe the storage of numbers that are in the
file anyway.

A residual is one Add node whose attributes carry everything; see :mod:`dory_quantlab.residual`.
The exporter of PLiNIO writes the same attributes, but a plain Add with Mul, Div, Floor and Clip.
"""

from __future__ import annotations

from pathlib import Path

from dory_onnx import AddMeaning, Dialect, Node, Operand, Step, import_onnx

from dory_core.api import Graph, NotSupported
from dory_core.importing import FrontendOptions
from dory_quantlab.residual import ADD_ATTRIBUTES, add_meaning

WEIGHT_BITS = (2, 4, 8)


class QuantlabDialect(Dialect):
    """Bits of weights and residuals come from attributes, everything else from the nodes."""

    reference = "quantlab"
    extra_attributes = ADD_ATTRIBUTES | {"weight_bits", "bias_bits"}

    def weight_bits(self, node: Node) -> int:
        """Return the attribute weight_bits; NotSupported when absent or none of 2, 4, 8."""
        bits = node.attributes.get("weight_bits")
        if bits is None:
            raise NotSupported(
                f"{node.label}: attribute weight_bits is missing, so that the precision of its"
                " weights is unknown",
                "export with the DORY exporter of QuantLab, or choose another frontend"
                " (see `dory frontends`)",
            )
        if bits not in WEIGHT_BITS:
            raise NotSupported(
                f"{node.label}: attribute weight_bits = {bits}, only weights of 2, 4 and 8 bits are"
                " supported",
                "quantise the weights to 2, 4 or 8 bits",
            )
        return int(bits)

    def residual_add(
        self, node: Node, operands: tuple[Operand, Operand], steps: tuple[Step, ...]
    ) -> AddMeaning:
        """Return the meaning of the attributes of an Add, followed by ``steps``.

        PLiNIO writes an Add without them, whose requantisation stands after it as nodes; so does
        that of every Sub.
        """
        plain = ADD_ATTRIBUTES.isdisjoint(set(node.attributes) - {"add_bits"})
        if node.op == "Sub" and not plain:
            raise NotSupported(f"{node.label}: attributes of a residual Add have no meaning here")
        if plain and (node.op == "Sub" or any(step.op == "Clip" for step in steps)):
            return super().residual_add(node, operands, steps)
        return add_meaning(node, operands, steps)


def parse(path: Path, options: FrontendOptions) -> Graph:
    """Return the integer network of a QuantLab file.

    Raises: UsageError when the file is missing, NotSupported when it cannot be computed exactly.
    """
    return import_onnx(path, options, QuantlabDialect())
