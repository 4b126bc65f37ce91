"""Evaluation of an integer ONNX graph node by node with the reference evaluator of onnx, in double.

An independent check of imported networks: it shares no code with the frontends. Doubles hold all
integers up to 2^53, which float32 as in the file does not. Every Div is made to round down, as the
quantiser does: ONNX leaves the rounding of negative integers open. Pools are our own, because those
of the evaluator get asymmetric pads wrong (onnx 1.23 forgets the ones in front).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from dory_onnx.testing.builder import OnnxBuilder

_OF_TWO_NUMBERS = frozenset(["Mul", "Add", "Sub", "Div", "Max", "Min", "Conv", "Gemm", "MatMul"])


def evaluate(
    model: onnx.ModelProto,
    image: npt.NDArray[np.int64],
    values: list[str],
    operators: Sequence[type[OpRun]] = (),
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the named values for one input without batch, shape as the network's input.

    operators: those of a dialect that ONNX does not define.
    """
    double = onnx.ModelProto()
    double.CopyFrom(model)
    graph = double.graph
    operands = {i for node in graph.node if node.op_type in _OF_TWO_NUMBERS for i in node.input}
    for tensor in graph.initializer:
        _widen(tensor, tensor.name in operands)
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.type == onnx.AttributeProto.TENSOR:
                _widen(attribute.t, node.output[0] in operands)
            if node.op_type == "Cast" and attribute.name == "to":
                attribute.i = TensorProto.DOUBLE
        graph.node.append(node)
        if node.op_type == "Div":
            exact = node.output[0] + "_exact"
            graph.node.append(helper.make_node("Floor", [exact], [node.output[0]]))
            graph.node[-2].output[0] = exact
    for value in graph.input:
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    del graph.output[:]
    graph.output.extend(helper.make_tensor_value_info(v, TensorProto.DOUBLE, None) for v in values)
    evaluator = ReferenceEvaluator(double, new_ops=[MaxPool, AveragePool, Floor, *operators])
    name = graph.input[0].name
    results = evaluator.run(None, {name: image[None].astype(np.float64)})
    return {v: np.asarray(r)[0] for v, r in zip(values, results, strict=True)}


def write_golden(builder: OnnxBuilder, path: Path, seed: int = 0) -> Path:
    """Evaluate a network for a seeded random input and write golden.npz with every layer."""
    lo, hi = builder.bounds[builder.input]
    shape = builder.shapes[builder.input]
    image = np.random.default_rng(seed).integers(lo, hi, shape, endpoint=True)
    values = evaluate(builder.model(), image, builder.layer_values)
    arrays: dict[str, Any] = {
        f"layer_{n:02d}": _hwc(values[v]) for n, v in enumerate(builder.layer_values)
    }
    np.savez(path, input=_hwc(image), **arrays)
    return path


def _hwc(values: np.ndarray) -> np.ndarray:
    """Flatten (C, H, W), (C, L) or (F,) in HWC order."""
    return np.moveaxis(values, 0, -1).reshape(-1).astype(np.int64)


def _windows(
    x: npt.NDArray[np.float64],
    kernel: list[int],
    strides: list[int] | None,
    pads: list[int] | None,
    fill: float,
) -> npt.NDArray[np.float64]:
    """Return the padded windows of x, (N, C, ...): shape (N, C, outputs..., kernel...)."""
    rank = len(kernel)
    borders = list(pads or [0] * 2 * rank)
    around = [(0, 0), (0, 0), *zip(borders[:rank], borders[rank:], strict=True)]
    padded = np.pad(x, around, constant_values=fill)
    axes = tuple(range(2, 2 + rank))
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), axes)
    steps = tuple(slice(None, None, s) for s in strides or [1] * rank)
    return windows[(slice(None), slice(None), *steps)]


class MaxPool(OpRun):
    """Maximum over the part of each window that lies in the image."""

    op_domain = ""

    def _run(self, x, kernel_shape=None, strides=None, pads=None, **others):  # type: ignore[no-untyped-def]
        assert others.get("auto_pad") in (None, "NOTSET")
        rank = len(kernel_shape)
        pads = list(pads or [0] * 2 * rank)
        for axis in range(rank if others.get("ceil_mode") else 0):
            stride = (strides or [1] * rank)[axis]
            extent = x.shape[2 + axis] + pads[axis]
            starts = range(0, extent + pads[rank + axis] - kernel_shape[axis] + stride, stride)
            last = max(start for start in starts if start < extent)
            pads[rank + axis] = max(pads[rank + axis], last + kernel_shape[axis] - extent)
        windows = _windows(x, kernel_shape, strides, pads, -np.inf)
        return (windows.max(axis=tuple(range(-len(kernel_shape), 0))),)


class AveragePool(OpRun):
    """Average over the elements of each window that count: those of the image, and the padding
    with count_include_pad; what ceil_mode adds after both never does."""

    op_domain = ""

    def _run(self, x, kernel_shape=None, strides=None, pads=None, **others):  # type: ignore[no-untyped-def]
        assert others.get("auto_pad") in (None, "NOTSET")
        rank = len(kernel_shape)
        strides, pads = list(strides or [1] * rank), list(pads or [0] * 2 * rank)
        counting = np.ones_like(x[:1, :1])
        around = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
        ones = np.pad(
            counting, around, constant_values=float(bool(others.get("count_include_pad")))
        )
        padded = np.pad(x, around)
        behind = [0] * rank
        for axis in range(rank if others.get("ceil_mode") else 0):
            extent, stride, kernel = padded.shape[2 + axis], strides[axis], kernel_shape[axis]
            last = -(-(extent - kernel) // stride) * stride
            if last < extent - pads[rank + axis]:
                behind[axis] = max(last + kernel - extent, 0)
        borders = [0] * rank + behind
        sums, numbers = (_windows(v, kernel_shape, strides, borders, 0.0) for v in (padded, ones))
        axes = tuple(range(-rank, 0))
        return (sums.sum(axis=axes) / numbers.sum(axis=axes),)


class Floor(OpRun):
    """Round down; an average times its count may be an integer except for the last bit of a double.

    Quotients that are no integers are 2^-31 or more below the next one.
    """

    op_domain = ""

    def _run(self, x):  # type: ignore[no-untyped-def]
        return (np.floor(x + 2.0**-36),)


def _widen(tensor: onnx.TensorProto, operand: bool) -> None:
    content = numpy_helper.to_array(tensor)
    if content.dtype == np.float32 or operand:
        tensor.CopyFrom(numpy_helper.from_array(content.astype(np.float64), tensor.name))
