"""Folding of operators whose inputs are constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_onnx.model import Node, OnnxModel

#: Function from a node and its constant inputs to its result, None when it is not folded.
Fold = Callable[[OnnxModel, Node, list[Any]], npt.NDArray[Any] | None]

_FOLDABLE_ELEMENTS = 4096  # shape arithmetic is tiny; weights are folded by few operators only


def _fold_slice(model: OnnxModel, node: Node, inputs: list[Any]) -> npt.NDArray[Any]:
    data, *bounds = inputs
    if "starts" in node.attributes:
        bounds = [node.attributes.get(name) for name in ("starts", "ends", "axes")]
    starts, ends, axes, steps = [*bounds, None, None, None, None][:4]
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    index = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[int(axis)] = slice(int(start), int(end) if end > -(2**31) else None, int(step))
    return np.asarray(data[tuple(index)])


def clipped(node: Node, inputs: Sequence[Any]) -> npt.NDArray[Any]:
    """Return a Clip of constants, in their type; inputs: data and bounds, None for one left out."""
    data, *given = inputs
    bounds = [*given, None, None][:2]
    lo, hi = (
        node.attributes.get(name) if bound is None else bound
        for name, bound in zip(("min", "max"), bounds, strict=True)
    )
    raised = data if lo is None else np.maximum(data, lo)
    return np.asarray(raised if hi is None else np.minimum(raised, hi), dtype=data.dtype)


def _fold_cast(model: OnnxModel, node: Node, inputs: list[Any]) -> npt.NDArray[Any] | None:
    dtype = {1: np.float32, 6: np.int32, 7: np.int64, 11: np.float64}.get(node.attributes["to"])
    return None if dtype is None else np.asarray(inputs[0]).astype(dtype)


def _fold_filled(model: OnnxModel, node: Node, inputs: list[Any]) -> npt.NDArray[Any] | None:
    from onnx import numpy_helper

    value = node.attributes.get("value")
    fill = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    shape = tuple(int(d) for d in inputs[0])
    if int(np.prod(shape, dtype=np.int64)) > _FOLDABLE_ELEMENTS:
        return None
    return np.full(shape, fill.reshape(-1)[0], dtype=fill.dtype)


#: Folds of operators that depend only on their inputs.
FOLDS: Mapping[str, Fold] = {
    "Identity": lambda model, node, inputs: inputs[0],
    "Clip": lambda model, node, inputs: clipped(node, inputs),
    "Gather": lambda model, node, inputs: np.take(
        inputs[0], inputs[1], axis=node.attributes.get("axis", 0)
    ),
    "Concat": lambda model, node, inputs: np.concatenate(inputs, axis=node.attributes["axis"]),
    "Transpose": lambda model, node, inputs: np.transpose(inputs[0], node.attributes.get("perm")),
    "Slice": _fold_slice,
    "Cast": _fold_cast,
    "ConstantOfShape": _fold_filled,
}
