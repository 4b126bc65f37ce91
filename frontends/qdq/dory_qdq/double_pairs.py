"""Pairs of QuantizeLinear and DequantizeLinear that follow each other, which onnxruntime makes one.

The one pair has the range that both had. Source: microsoft/onnxruntime,
core/optimizer/double_qdq_pairs_remover.cc.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from dory_onnx import Node, OnnxModel

from dory_core.api import NotSupported
from dory_qdq.numerics import Quantisation
from dory_qdq.parameters import quantisation_of

#: Operators that onnxruntime takes out before.
_NOTHING = frozenset(["Identity", "Dropout"])
#: Scales that differ by less count as equal there.
_SAME_SCALE = 1e-20


@dataclass(frozen=True, slots=True)
class _Double:
    """Two pairs. first: the QuantizeLinear of the first one. last: the ends of the second one.

    gone: nodes between them. x, y: what the first and the second pair quantise to.
    """

    first: Node
    last: tuple[Node, ...]
    gone: tuple[Node, ...]
    x: Quantisation
    y: Quantisation


def join_pairs(model: OnnxModel) -> OnnxModel:
    """Return a model where no two pairs of one type follow each other.

    Of four pairs the first two and the last two become one, and then these: each time the zero
    point is rounded.

    Raises: NotSupported where no number is in the range of both.
    """
    before = None
    while model is not before:
        before = model
        known = {node.position: node for node in model.nodes}
        for position in list(known):
            double = _double(model, known[position]) if position in known else None
            if double is not None:
                model = _joined(model, double)
                known = {node.position: node for node in model.nodes}
    return model


def _double(model: OnnxModel, first: Node) -> _Double | None:
    """Return the two pairs that begin with a node, if it begins two."""
    if not _rounds(first) or any(map(model.is_constant, (first.inputs[0], *first.outputs))):
        return None
    ends, gone = _readers(model, first)
    if len(ends) != 1 or not _is_pair(model, first, ends[0]):
        return None
    seconds, between = _readers(model, ends[0])
    if len(seconds) != 1 or not _rounds(seconds[0]):
        return None
    second = seconds[0]
    last, after = _readers(model, second)
    if not last or not all(_is_pair(model, second, node) for node in last):
        return None
    x, y = (quantisation_of(model, node, 1, 2) for node in (first, second))
    if x.signed != y.signed:
        return None
    return _Double(first, tuple(last), (*gone, *ends, *between, second, *after), x, y)


def _readers(model: OnnxModel, node: Node) -> tuple[list[Node], list[Node]]:
    """Return who reads a result, once for each time, and the nodes that pass it on.

    None reads it where it is an output of the network.
    """
    found: list[Node] = []
    passed: list[Node] = []
    waiting = list(node.outputs)
    while waiting:
        name = waiting.pop()
        if name in model.outputs:
            return [], []
        for reader in model.readers(name):
            if reader.op in _NOTHING and len(reader.outputs) == 1:
                passed.append(reader)
                waiting.append(reader.outputs[0])
            else:
                found += [reader] * reader.inputs.count(name)
    return found, passed


def _rounds(node: Node) -> bool:
    return node.op.endswith("QuantizeLinear") and len(node.inputs) == 3 and len(node.outputs) == 1


def _is_pair(model: OnnxModel, first: Node, second: Node) -> bool:
    """Return True when a DequantizeLinear has the one constant scale and zero point of a node."""
    if not second.op.endswith("DequantizeLinear"):
        return False
    values = [[model.constant(node.input(n)) for n in (1, 2)] for node in (first, second)]
    for one, other in zip(*values, strict=True):
        if one is None or other is None or one.dtype != other.dtype:
            return False
        if one.size != 1 or other.size != 1 or one.reshape(-1)[0] != other.reshape(-1)[0]:
            return False
    return all(str(zero.dtype) in ("int8", "uint8") for _, zero in values if zero is not None)


def _joined(model: OnnxModel, double: _Double) -> OnnxModel:
    """Return a model with one pair in place of two."""
    gone = {node.position for node in double.gone}
    names: tuple[str, ...] = double.first.inputs[1:]
    x, y = double.x, double.y
    if x.zero_point != y.zero_point or abs(np.float32(x.scale) - np.float32(y.scale)) > _SAME_SCALE:
        scale, zero = _common(double)
        names = tuple(f"{double.first.outputs[0]} {what}" for what in ("scale", "zero point"))
        model.define_constant(names[0], scale)
        model.define_constant(names[1], zero)
    changed = {double.first.position: double.first.inputs[0]}
    changed |= dict.fromkeys((node.position for node in double.last), double.first.outputs[0])
    nodes = (
        replace(node, inputs=(changed[node.position], *names)) if node.position in changed else node
        for node in model.nodes
        if node.position not in gone
    )
    return replace(model, nodes=tuple(nodes))


def _common(double: _Double) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return scale and zero point of the range that two pairs have in common, in binary32."""
    lo, hi = double.x.bounds
    ranges = [
        [np.float32(end - q.zero_point) * np.float32(q.scale) for end in (lo, hi)]
        for q in (double.x, double.y)
    ]
    low, high = max(r[0] for r in ranges), min(r[1] for r in ranges)
    scale = (high - low) / np.float32(hi - lo)
    if not scale > 0:
        raise NotSupported(
            f"{double.first.label}: the QuantizeLinear after it has no number in common with it"
            " but 0, and onnxruntime makes one of them",
            "leave one of the two out",
        )
    zero = np.float32(lo) - low / scale
    whole = int(np.floor(abs(zero) + 0.5)) * (1 if zero >= 0 else -1)
    return np.asarray(scale), np.asarray(whole, np.int8 if double.x.signed else np.uint8)
