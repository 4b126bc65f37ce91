"""Integer layers from single ONNX nodes: windows, weights, biases, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, ops
from dory_core.importing import ranges
from dory_onnx.arithmetic import Step, integers
from dory_onnx.model import EXPORT_HINT, Node, OnnxModel
from dory_onnx.shapes import Shape, integers_of, window_of

WINDOWED = frozenset(["Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
MATRICES = frozenset(["Gemm", "MatMul"])
LAYER_OPERATORS = WINDOWED | MATRICES
"""Operators that are always a layer; an Add of two tensors is one, too."""

# Least and most inputs of the operators that are computed, absent ones at the end not counted.
_INPUTS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("Floor", "Cast", "Relu", "MaxPool", "AveragePool"), (1, 1)),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), (1, 1)),
    **dict.fromkeys(("Mul", "Add", "Sub", "Div", "MatMul"), (2, 2)),
    **dict.fromkeys(("Conv", "Gemm"), (2, 3)),
    "Clip": (1, 3),
    "Pad": (1, 4),
}

Pads = tuple[int, int, int, int]


def check_attributes(node: Node, extra: frozenset[str]) -> None:
    """Raise NotSupported for an attribute that neither ONNX nor the dialect defines."""
    from onnx import defs

    unknown = sorted(set(node.attributes) - set(defs.get_schema(node.op).attributes) - extra)
    if unknown:
        raise NotSupported(
            f"{node.label}: attribute '{unknown[0]}' is unknown in this dialect of ONNX",
            "choose the frontend of the quantiser that wrote the file (see `dory frontends`)",
        )


def check_inputs(node: Node) -> None:
    """Raise NotSupported for a node with another number of inputs than its operator takes."""
    count = max((i + 1 for i, name in enumerate(node.inputs) if name), default=0)
    least, most = _INPUTS.get(node.op, (0, count))
    if not least <= count <= most or "" in node.inputs[:least]:
        takes = str(least) if least == most else f"{least} to {most}"
        raise NotSupported(
            f"{node.label}: it has {sum(map(bool, node.inputs))} inputs, but {node.op} takes"
            f" {takes}",
            EXPORT_HINT,
        )


def chw_of(shape: Shape) -> tuple[int, int, int] | None:
    """Return (C, H, W) of an ONNX shape with batch 1; None when it is not one image."""
    if len(shape) < 2 or len(shape) > 4 or shape[0] != 1:
        return None
    if len(shape) == 2:
        return (shape[1], 1, 1)
    if len(shape) == 3:
        return (shape[1], 1, shape[2])
    return (shape[1], shape[2], shape[3])


def rows_of(shape: Shape) -> tuple[int, int, int] | None:
    """Return (C, H, W) of an ONNX shape with batch 1 whose last axis is C; None for none."""
    if len(shape) != 1 and chw_of(shape) is None:
        return None
    sizes = shape if len(shape) == 1 else shape[1:]
    heads, rows, channels = (1, 1, *sizes)[-3:]
    return (channels, heads, rows)


def conv_window(
    node: Node, values: npt.NDArray[np.int64], shape: Shape, padded: Pads
) -> ops.Window:
    """Return the window of a Conv over a value of ``shape``, folded Pad nodes included.

    Args:
        values: The weights.
        shape: (1, C, H, W) or (1, C, L).

    Raises:
        NotSupported: Naming the node.
    """
    if values.ndim != len(shape) or values.ndim not in (3, 4):
        raise NotSupported(
            f"{node.label}: weights {list(values.shape)} on an input {list(shape)}: only 1-D and"
            " 2-D convolutions are supported"
        )
    kernel = tuple(int(k) for k in values.shape[2:])
    declared = node.attributes.get("kernel_shape")
    if declared is not None and tuple(declared) != kernel:
        raise NotSupported(
            f"{node.label}: attribute kernel_shape {list(declared)} contradicts the weights"
            f" {list(values.shape)}"
        )
    return with_pads(window_of(node, kernel, shape[2:]), padded)


def pool_window(node: Node, shape: Shape, padded: Pads) -> ops.Window:
    """Return the window of a pool over a value of ``shape``, folded Pad nodes included.

    Raises: NotSupported, naming the node.
    """
    if len(shape) not in (3, 4):
        raise NotSupported(f"{node.label}: a pool over an input {list(shape)} is not supported")
    if node.op in ("GlobalAveragePool", "GlobalMaxPool"):
        size = (1, *shape[2:]) if len(shape) == 3 else shape[2:]
        return ops.Window(kernel=(size[0], size[1]), pads=padded)
    kernel = node.attributes.get("kernel_shape")
    if kernel is None:
        raise NotSupported(f"{node.label}: attribute kernel_shape is missing")
    window = window_of(node, kernel, shape[2:])
    if node.attributes.get("storage_order", 0):
        raise NotSupported(f"{node.label}: attribute storage_order = 1 is not supported")
    return with_pads(window, padded)


def with_pads(window: ops.Window, padded: Pads) -> ops.Window:
    """Return a window with folded Pad nodes."""
    top, left, bottom, right = (a + b for a, b in zip(window.pads, padded, strict=True))
    return replace(window, pads=(top, left, bottom, right))


def weights_of(
    model: OnnxModel, node: Node, bits: int, byte_weights: bool
) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the weights of a Conv, or of a Gemm or MatMul as (outputs, inputs).

    byte_weights: an uint8 tensor holds the bytes of signed weights. The second result says whether
    the tensor is such a one and holds negative weights.

    Raises: NotSupported when they are not constant, not integers, or outside ``bits`` signed bits.
    """
    source = node.input(1)
    content = model.constant(source)
    if content is None:
        raise NotSupported(
            f"{node.label}: its second operand '{source}' is not a constant weight tensor"
        )
    values = integers(node, source, content)
    as_bytes = byte_weights and content.dtype == np.uint8 and bool((content > 127).any())
    if as_bytes:
        values = content.view(np.int8).astype(np.int64)
    if values.size == 0:
        raise NotSupported(f"{node.label}: weight tensor '{source}' is empty")
    if node.op in MATRICES:
        if values.ndim != 2:
            raise NotSupported(
                f"{node.label}: weight tensor '{source}' has shape {list(values.shape)}, not two"
                " dimensions"
            )
        if node.op == "MatMul" or not node.attributes.get("transB", 0):
            values = values.T
    lo, hi = int(values.min()), int(values.max())
    low, high = ranges.value_range(bits, signed=True)
    if lo < low or hi > high:
        name = "int8" if bits == 8 else f"signed {bits} bits"
        raise NotSupported(
            f"{node.label}: weight tensor '{source}' reaches from {lo} to {hi}, outside"
            f" {name} [{low}, {high}]",
            "quantise the weights again with fewer bits, or export them centred on zero",
        )
    return values, as_bytes


def bias_of(model: OnnxModel, node: Node, channels: int) -> npt.NDArray[np.int64] | None:
    """Return the bias of a Conv or Gemm, shape (channels,); None when absent or all zero.

    Raises: NotSupported, naming the node, when it is not constant, not integer or of another size.
    """
    source = node.input(2)
    if not source:
        return None
    content = model.constant(source)
    if content is None:
        raise NotSupported(f"{node.label}: its bias '{source}' is not a constant")
    values = integers(node, source, content).reshape(-1)
    if values.size == 1:
        values = np.repeat(values, channels)
    if values.size != channels:
        raise NotSupported(
            f"{node.label}: bias '{source}' has {values.size} values for {channels} channels"
        )
    _check_bias_range(node, source, values)
    return values if values.any() else None


def added_bias(
    step: Step, bias: npt.NDArray[np.int64] | None, channels: int
) -> npt.NDArray[np.int64]:
    """Return ``bias`` plus the constant of an Add directly after the layer, shape (channels,).

    Raises: NotSupported, naming the node, for another number of values or beyond 32 bits.
    """
    values = step.integers()
    if len(values) not in (1, channels):
        raise NotSupported(
            f"{step.node.label}: constant '{step.source}' has {len(values)} values for {channels}"
            " channels"
        )
    summand = np.broadcast_to(np.array(values, dtype=np.int64), (channels,))
    _check_bias_range(step.node, step.source, summand)
    return summand + (0 if bias is None else bias)


def _check_bias_range(node: Node, source: str, values: npt.NDArray[np.int64]) -> None:
    lo, hi = int(values.min()), int(values.max())
    if lo < -(2**31) or hi >= 2**31:
        raise NotSupported(
            f"{node.label}: bias '{source}' reaches from {lo} to {hi}, beyond 32 bits"
        )


def zero_pads(model: OnnxModel, node: Node, shape: Shape) -> Pads:
    """Return (top, left, bottom, right) of a Pad node over a value of ``shape``.

    Raises: NotSupported for anything but constant zeros around height and width.
    """
    mode = node.attributes.get("mode", "constant")
    if mode != "constant":
        raise NotSupported(f"{node.label}: mode '{mode}' is not supported, only zeros are")
    pads = integers_of(model, node, "pads")
    rank = len(shape)
    if pads is None or len(pads) != 2 * rank or node.input(3):
        raise NotSupported(
            f"{node.label}: its pads are not {2 * rank} constants for {list(shape)}", EXPORT_HINT
        )
    if not any(pads):
        return (0, 0, 0, 0)
    fill = node.attributes.get("value", 0.0)
    if node.input(2):
        content = model.constant(node.input(2))
        if content is None or content.size != 1:
            raise NotSupported(f"{node.label}: its value '{node.input(2)}' is not one constant")
        fill = float(content.reshape(-1)[0])
    if fill != 0.0:
        raise NotSupported(f"{node.label}: pads with {fill:g}, only zeros are supported")
    begins, ends = pads[:rank], pads[rank:]
    if rank not in (3, 4) or any(begins[:2]) or any(ends[:2]) or min(pads) < 0:
        raise NotSupported(f"{node.label}: pads {list(pads)} are not zeros around height and width")
    if rank == 3:
        return (0, begins[2], 0, ends[2])
    return (begins[2], begins[3], ends[2], ends[3])


def check_gemm(node: Node) -> None:
    """Raise NotSupported for a Gemm that is more than input * weights + bias."""
    for name, wanted in (("alpha", 1.0), ("beta", 1.0), ("transA", 0)):
        value = node.attributes.get(name, wanted)
        if value != wanted:
            raise NotSupported(f"{node.label}: attribute {name} = {value} is not supported")


def hwc_columns(weights: npt.NDArray[np.int64], chw: tuple[int, int, int]) -> npt.NDArray[np.int64]:
    """Reorder the columns of (outputs, C * H * W) weights to (outputs, H * W * C)."""
    outputs = weights.shape[0]
    return weights.reshape(outputs, *chw).transpose(0, 2, 3, 1).reshape(outputs, -1)
