"""Scales and zero points of the file, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from dory_onnx import Node, OnnxModel, clipped

from dory_core.api import NotSupported
from dory_qdq.call import QUANTISE_HINT
from dory_qdq.numerics import Floats, Integers, Quantisation
from dory_qdq.values import QuantisedConstant

_TYPES = {"int8": True, "uint8": False}
_BITS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32}


def quantisation_of(model: OnnxModel, node: Node, scale: int, zero: int) -> Quantisation:
    """Return the one scale and zero point of an activation, which are inputs of an operator.

    Raises: NotSupported for missing, several or impossible ones, naming them.
    """
    scales, zeros = _scales(model, node, scale), _zeros(model, node, zero)
    if scales.size != 1 or zeros.size != 1:
        raise NotSupported(
            f"{node.label}: {scales.size} scales and {zeros.size} zero points"
            f" ('{node.input(scale)}') for an activation",
            "quantise activations per tensor; weights may be quantised per channel",
        )
    kind = str(zeros.dtype)
    if kind not in _TYPES:
        raise NotSupported(
            f"{node.label}: its zero point '{node.input(zero)}' is {kind}; supported are int8 and"
            " uint8",
            "quantise activations to 8 bits",
        )
    found = Quantisation(float(scales.reshape(-1)[0]), int(zeros.reshape(-1)[0]), _TYPES[kind])
    return found


def constant_of(
    model: OnnxModel, node: Node, values: npt.NDArray[Any], scale: int = 1, zero: int = 2
) -> QuantisedConstant:
    """Return a constant with its scales; raises NotSupported where they do not fit it."""
    kind = str(values.dtype)
    if kind not in _BITS:
        raise NotSupported(
            f"{node.label}: the constant '{node.input(0)}' is {kind}; supported are 8-bit weights"
            " and 32-bit biases",
            "quantise weights to 8 bits",
        )
    scales = _scales(model, node, scale)
    zeros = _zeros(model, node, zero, values.dtype)
    if zeros.dtype != values.dtype:
        raise NotSupported(
            f"{node.label}: its zero point '{node.input(zero)}' is {zeros.dtype}, the values are"
            f" {kind}"
        )
    if scales.ndim > 1 or zeros.size not in (1, scales.size):
        raise NotSupported(
            f"{node.label}: {scales.size} scales with {zeros.size} zero points; possible are one,"
            " or one per channel"
        )
    axis = int(node.attributes.get("axis", 1))
    if scales.size > 1:
        if not -values.ndim <= axis < values.ndim or values.shape[axis] != scales.size:
            raise NotSupported(
                f"{node.label}: {scales.size} scales along axis {axis} of shape"
                f" {list(values.shape)} ('{node.input(scale)}')",
                "quantise weights again, with one scale per output channel",
            )
        axis %= values.ndim
    flat_scales = np.asarray(scales.reshape(-1), dtype=np.float32)
    return QuantisedConstant(
        values.astype(np.int64),
        flat_scales,
        zeros.reshape(-1).astype(np.int64),
        axis if scales.size > 1 else 0,
        _BITS[kind],
    )


def _scales(model: OnnxModel, node: Node, position: int) -> Floats:
    name = node.input(position)
    content = model.constant(name) if name else None
    if content is None:
        what = f"its scale '{name}' is no constant" if name else "it has no scale"
        raise NotSupported(f"{node.label}: {what}", QUANTISE_HINT)
    if content.dtype != np.float32 or not content.size:
        raise NotSupported(f"{node.label}: its scale '{name}' is {content.dtype}, not float32")
    tiny = np.finfo(np.float32).tiny
    bad = content[~(np.isfinite(content) & (content >= tiny))]
    if bad.size:
        raise NotSupported(
            f"{node.label}: its scale '{name}' holds {bad.reshape(-1)[0]}; a scale is a positive"
            " number",
            "quantise the network again, with calibration data that reach this value",
        )
    return content


def _zeros(model: OnnxModel, node: Node, position: int, kind: npt.DTypeLike = np.uint8) -> Integers:
    name = node.input(position)
    if not name:
        return np.zeros(1, dtype=kind)
    content = model.constant(name)
    if content is None or not content.size:
        raise NotSupported(f"{node.label}: its zero point '{name}' is no constant", QUANTISE_HINT)
    return content


def fold_clips(model: OnnxModel) -> None:
    """Compute clips of constants, as Brevitas writes weights (QCDQ)."""
    for node in model.nodes:
        if node.op == "Clip" and all(model.is_constant(name) for name in node.inputs if name):
            contents = [model.constant(name) if name else None for name in node.inputs]
            model.define_constant(node.outputs[0], clipped(node, contents))
