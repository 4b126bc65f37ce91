"""Root mean square normalisations that are written as operators of their own.

Exporters of opsets before 23 write ``x / sqrt(mean(x * x) + epsilon) * weights``, or with the
inverse of the root. Where no QuantizeLinear stands inside, onnxruntime computes operator by
operator, and they are one operator here.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np
from dory_onnx import Node, OnnxModel

#: Operator that stands for them, and its attribute: which operator uses the root.
JOINED, BY = "SimplifiedLayerNormalization", "by"


def join_norms(model: OnnxModel) -> OnnxModel:
    """Return a model with one node for the operators of each normalisation."""
    makers = {name: node for node in model.nodes for name in node.outputs}
    found: dict[int, Node] = {}
    gone: set[int] = set()
    for node in model.nodes:
        parts = _parts(model, makers, node)
        if parts is not None:
            joined, inner = parts
            found[node.position] = joined
            gone |= {one.position for one in inner}
    if not found:
        return model
    kept = (found.get(n.position, n) for n in model.nodes if n.position not in gone)
    return replace(model, nodes=tuple(kept))


def _parts(model: OnnxModel, makers: dict[str, Node], node: Node) -> tuple[Node, list[Node]] | None:
    """Return the node that stands for a normalisation which a Mul ends, and those inside."""
    if node.op != "Mul" or len(node.inputs) != 2:
        return None
    weights = next((name for name in node.inputs if model.is_constant(name)), "")
    normal = next((makers[name] for name in node.inputs if name in makers), None)
    if not weights or normal is None or normal.op not in ("Div", "Mul"):
        return None
    if len(normal.inputs) != 2:
        return None
    source, divisor = normal.inputs
    inner = [normal]
    if normal.op == "Mul":
        inverse = makers.get(divisor)
        if inverse is None or inverse.op != "Reciprocal":
            return None
        inner.append(inverse)
        divisor = inverse.input(0)
    chain = _chain(model, makers, divisor)
    if chain is None:
        return None
    square, mean, add = chain[-1], chain[-2], chain[-3]
    epsilon = next((model.constant(n) for n in add.inputs if model.is_constant(n)), None)
    inner += chain
    if epsilon is None or epsilon.size != 1 or not _squares(model, square, source):
        return None
    results = [one.outputs[0] for one in inner]
    if any(len(model.readers(name)) != 1 or name in model.outputs for name in results):
        return None
    if not _is_of_rows(model, mean):
        return None
    attributes = {"epsilon": float(epsilon.reshape(-1)[0]), BY: normal.op}
    joined = replace(
        node, op=JOINED, inputs=(source, weights), attributes=MappingProxyType(attributes)
    )
    return joined, inner


def _chain(model: OnnxModel, makers: dict[str, Node], name: str) -> list[Node] | None:
    """Return Sqrt, Add, ReduceMean and the square that give a root."""
    found: list[Node] = []
    for op in (("Sqrt",), ("Add",), ("ReduceMean",), ("Pow", "Mul")):
        node = makers.get(name)
        if node is None or node.op not in op:
            return None
        found.append(node)
        name = next((one for one in node.inputs if not model.is_constant(one)), "")
    return found


def _squares(model: OnnxModel, node: Node, source: str) -> bool:
    if node.op == "Mul":
        return node.inputs == (source, source)
    power = model.constant(node.input(1))
    return node.input(0) == source and power is not None and bool((np.asarray(power) == 2).all())


def _is_of_rows(model: OnnxModel, node: Node) -> bool:
    """Return True for a mean over the last dimension, which stays."""
    axes = node.attributes.get("axes")
    if axes is None and node.input(1):
        axes = model.constant(node.input(1))
    is_last = axes is not None and np.reshape(axes, -1).tolist() == [-1]
    return is_last and bool(node.attributes.get("keepdims", 1))
