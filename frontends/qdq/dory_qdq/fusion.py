"""Which layers onnxruntime computes in integers, and which it leaves in real numbers.

onnxruntime turns DequantizeLinear, an operator and QuantizeLinear into one integer operator only
where its conditions hold. Elsewhere it computes the operator in binary32, and a result may be one
step from the integer operator that this frontend makes of it. Source: microsoft/onnxruntime,
core/optimizer/qdq_transformer (qdq_selectors.cc, qdq_s8_to_u8.cc, relu_quantizelinear.cc,
clip_quantizelinear.cc), for x86 and ORT_ENABLE_EXTENDED.

One answer depends on the processor. Where products of uint8 and int8 are added in pairs that
saturate at 16 bits, as with AVX2 and without VNNI, `dory golden` asks for exact sums, and
onnxruntime then makes uint8 of int8 constants outside [-64, 64] (s8_to_u8.cc). A Gemm of int8 with
such weights is computed in reals there, and in integers on other processors; also sums and products
with such a constant differ. All these count as computed in reals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dory_onnx import Node, OnnxModel

from dory_qdq.numerics import Quantisation

#: Operators that have an integer form there.
_FORMS = frozenset(
    [
        "Add",
        "AveragePool",
        "Concat",
        "Conv",
        "Gemm",
        "GlobalAveragePool",
        "LeakyRelu",
        "MatMul",
        "Mul",
        "Sigmoid",
        "Softmax",
    ]
)
#: Of these, those whose integer form takes no int8 on x86.
_UNSIGNED = frozenset(["Conv", "MatMul"])
_BIASED = frozenset(["Conv", "Gemm"])
#: Operators that give the same in reals.
_SAME_IN_REALS = frozenset(["Cast", "Where"])
#: Operators that only give elements another shape or order.
MOVES = frozenset(
    ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Transpose"]
)
_EPSILON = float(np.finfo(np.float32).eps)
#: Largest absolute value of int8 weights that stay int8 on every processor.
_NARROW = 64


class Fusion:
    """Answers for the operators of one file."""

    def __init__(self, model: OnnxModel) -> None:
        self._model = model
        self._makers = {
            name: node
            for node in model.nodes
            for name in node.outputs
            if not model.is_constant(name)
        }
        self._unused: dict[str, list[Node]] = {}
        for node in model.unused:
            for name in dict.fromkeys(node.inputs):
                self._unused.setdefault(name, []).append(node)

    def is_integer(
        self, node: Node, y: Quantisation, lo: float | None = None, hi: float | None = None
    ) -> bool:
        """Return True when onnxruntime computes an operator of reals in integers.

        Args:
            y: Type to which the QuantizeLinear after the operator rounds.
            lo, hi: Bounds of activations between them.
        """
        if node.op in _SAME_IN_REALS:
            return True
        if node.op == "Relu":  # goes where the type cannot hold less than zero
            return y.zero_point == y.bounds[0]
        if node.op not in _FORMS or not _is_whole(y, lo, hi):
            return False
        rounding = self._rounding(node)
        sources = [self._maker(name) for name in node.inputs if name]
        if rounding is None or any(s is None or not _dequantises(s) for s in sources):
            return False
        operands = [source for source in sources if source is not None]
        if node.op in _BIASED and not self._biased(operands[2:]):
            return False
        data = operands[:1] if node.op in ("Conv", "Gemm", "MatMul") else operands
        if any(self._may_turn(source) for source in data):
            return False
        kinds = {self._kind(source.input(0), source) for source in data}
        kind = self._kind(rounding.outputs[0], rounding)
        if kinds != {kind}:
            return False
        if kind == "int8" and node.op in _UNSIGNED:
            return False
        if kind == "int8" and node.op == "Gemm":
            weights = operands[1]
            return self._stored_kind(weights.input(0)) == "int8" and not self._may_turn(weights)
        return True

    def is_turned(self, node: Node, y: Quantisation) -> bool:
        """Return True when an operator of int8 that :meth:`is_integer` computes with uint8.

        Each zero point is 128 higher there, which sums in binary32 round otherwise.
        """
        rounding = self._rounding(node)
        return y.signed and rounding is not None and self._is_turned(rounding.outputs[0])

    def is_shared(self, name: str) -> bool:
        """Return True when several operators read a value, or what is moved or rounded of it."""
        while name not in self._model.outputs:
            readers = self._readers(name)
            if len(readers) != 1 or readers[0].inputs.count(name) > 1:
                return True
            op = readers[0].op
            if not (op.endswith("QuantizeLinear") or _dequantises(readers[0]) or op in MOVES):
                return False
            name = readers[0].outputs[0]
        return True

    def _readers(self, name: str) -> tuple[Node, ...]:
        """Return the readers of a value: onnxruntime counts those that no output depends on."""
        return (*self._model.readers(name), *self._unused.get(name, ()))

    def _biased(self, biases: Sequence[Node]) -> bool:
        return all(self._stored_kind(bias.input(0)) == "int32" for bias in biases)

    def _maker(self, name: str) -> Node | None:
        return self._makers.get(name)

    def _rounding(self, node: Node) -> Node | None:
        """Return the only reader of a result if it is a QuantizeLinear, also after activations."""
        name = node.outputs[0]
        while name not in self._model.outputs:
            readers = self._readers(name)
            if len(readers) != 1 or readers[0].inputs.count(name) != 1:
                return None
            if readers[0].op.endswith("QuantizeLinear"):
                return readers[0]
            if readers[0].op not in ("Relu", "Clip"):
                return None
            name = readers[0].outputs[0]
        return None

    def _kind(self, stored: str, node: Node) -> str:
        """Return the type of integers once onnxruntime has turned some int8 into uint8."""
        kind = self._stored_kind(node.input(2)) or "uint8"
        return "uint8" if kind == "int8" and self._is_turned(stored) else kind

    def _is_turned(self, stored: str) -> bool:
        """Return True when int8 becomes uint8: between a QuantizeLinear and its one reader."""
        maker = self._maker(stored)
        if maker is None or not maker.op.endswith("QuantizeLinear") or _dequantises(maker):
            return False
        readers = self._readers(stored)
        if stored in self._model.outputs or len(readers) != 1 or not _dequantises(readers[0]):
            return False
        if not (maker.input(2) and readers[0].input(2)):
            return False
        reals = readers[0].outputs[0]
        edges = sum(node.inputs.count(reals) for node in self._readers(reals))
        return edges + (reals in self._model.outputs) <= 1

    def _may_turn(self, source: Node) -> bool:
        """Return True when it depends on the processor whether a constant is int8 or uint8."""
        content = self._model.constant(source.input(0))
        return content is not None and content.dtype == np.int8 and not are_narrow(content)

    def _stored_kind(self, name: str) -> str:
        content = self._model.constant(name) if name else None
        return "" if content is None else str(content.dtype)


def are_narrow(weights: npt.NDArray[Any]) -> bool:
    """Return True when no pair of products of int8 weights with uint8 leaves 16 bits."""
    return bool(((weights >= -_NARROW) & (weights <= _NARROW)).all())


def _dequantises(node: Node) -> bool:
    return node.op.endswith("DequantizeLinear")


def _is_whole(y: Quantisation, lo: float | None, hi: float | None) -> bool:
    """Return True when bounds of activations are no tighter than those of the stored type."""
    lowest, highest = (y.scale * (end - y.zero_point) for end in y.bounds)
    below = lo is None or lo - lowest <= _EPSILON
    return below and (hi is None or highest - hi <= _EPSILON)
