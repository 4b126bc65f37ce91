"""Operators that move elements: RESHAPE, PAD, CONCATENATION, slices, TRANSPOSE, resizing."""

from __future__ import annotations

import numpy as np

from dory_core.api import ops
from dory_core.importing import Array, requant
from dory_tflite.grids import around, axis_of, canonical_shape, is_grid, is_no_image
from dory_tflite.model import FileTensor
from dory_tflite.node import ACTIVATIONS, Constraint, Node, Operator
from dory_tflite.operators.common import (
    AXIS,
    DIMENSIONS,
    IMAGE,
    SAME_QUANTISATION,
    SAME_TYPE,
    activations,
    byte_tensors,
    constant,
    option_is,
)
from dory_tflite.places import Bound
from dory_tflite.preparation import bilinear_axis, nearest_axis

Triple = tuple[int, int, int]

_WHOLE = 1024  # weight of one row or column of RESIZE_BILINEAR


def _reshape(node: Node) -> None:
    if node.input().elements != node.output().elements:
        raise node.error(f"{node.input().elements} elements become {node.output().elements}")
    node.network.bind(node.output(), Bound(node.network.flat(node.input())))


def _pads(node: Node) -> list[tuple[int, int]]:
    values = node.integers(1)
    if len(values) != 2 * len(node.input().shape) or min(values) < 0:
        raise node.error(f"{values} are no pads of {list(node.input().shape)}")
    return list(zip(values[::2], values[1::2], strict=True))


def _pad(node: Node) -> None:
    source, output = node.input(), node.output()
    before, after = [0, 0, 0], [0, 0, 0]
    for dimension, (first, last) in enumerate(_pads(node)):
        axis = axis_of(source, dimension)
        if axis is None:
            if first or last:
                raise node.error("it pads the batch")
            continue
        before[axis], after[axis] = first, last
    padded = [b + s + a for b, s, a in zip(before, canonical_shape(source), after, strict=True)]
    node.network.check_shape(node.label, output, (padded[0], padded[1], padded[2]))
    value = node.quantisation(output).zero_point
    if node.op.code == "PADV2":
        value = int(node.constant(2).reshape(-1)[0])
    name = node.network.value(source)
    if before[0] or after[0]:
        node.emit(ops.Pad, output, name, before=tuple(before), after=tuple(after), value=value)
        return
    # Convolutions that read it take the padding; others have it computed.
    pads = (before[1], before[2], after[1], after[2])
    node.network.bind(output, Bound(name, None, pads, value))


def _concat(node: Node) -> None:
    output = node.output()
    if is_no_image(output):
        _join_along(node, node.option("Axis") % len(output.shape))
        return
    axis = axis_of(output, node.option("Axis"))
    _join(node, axis, [node.network.value(tensor) for tensor in node.inputs])


def _join(node: Node, axis: int | None, names: list[str]) -> None:
    if len(names) == 1:
        node.network.bind(node.output(), Bound(names[0]))
        return
    if axis is None:
        raise node.error("it joins along the batch")
    node.emit(ops.Concat, node.output(), *names, axis=axis)


def _join_along(node: Node, dimension: int) -> None:
    """Join inputs along a dimension of any number: as columns of what lies before and after it."""
    names = []
    for tensor in node.inputs:
        if len(tensor.shape) != len(node.output().shape):
            raise node.error(f"{tensor.label} has the shape {list(tensor.shape)}")
        before, size, after = around(tensor.shape, dimension)
        names.append(node.network.reshaped(tensor, (after, before, size)))
    node.network.placed(ops.Concat, node.label, node.output(), names, axis=2)


def _pack(node: Node) -> None:
    output = node.output()
    rank = len(output.shape)
    dimension = node.option("Axis") % rank
    if is_no_image(output):
        before, size, after = around(output.shape, dimension)
        columns = [node.network.reshaped(tensor, (after, before, 1)) for tensor in node.inputs]
        if len(columns) != size:
            raise node.error(f"{len(columns)} inputs become {size} parts")
        node.network.placed(ops.Concat, node.label, output, columns, axis=2)
        return
    shape = list(output.shape)
    shape[dimension] = 1
    one = FileTensor(-1, "", tuple(shape), output.type, None)
    names = [node.network.reshaped(tensor, canonical_shape(one)) for tensor in node.inputs]
    _join(node, axis_of(output, dimension), names)


def _slice_of(
    node: Node, output: FileTensor, begin: list[int], size: list[int], step: list[int]
) -> str:
    """Append the part of the input, per dimension of the file; the output's rank may be smaller."""
    source = node.input(1 if node.op.code == "SPLIT" else 0)
    if is_grid(source):
        return _part_of_grid(node, source, output, list(zip(begin, size, step, strict=True)))
    begins, steps = [0, 0, 0], [1, 1, 1]
    whole = canonical_shape(source)
    sizes = list(whole)
    for dimension, values in enumerate(zip(begin, size, step, strict=True)):
        axis = axis_of(source, dimension)
        if axis is not None:
            begins[axis], sizes[axis], steps[axis] = values
        elif values[1] != 1:
            raise node.error(f"it takes {values[1]} of a batch")
    for axis in range(3):
        last = begins[axis] + (sizes[axis] - 1) * steps[axis]
        if sizes[axis] < 1 or not (0 <= begins[axis] < whole[axis] and 0 <= last < whole[axis]):
            raise node.error(f"it reaches beyond {source.label} of shape {list(source.shape)}")
    if output.elements != sizes[0] * sizes[1] * sizes[2]:
        raise node.error(f"{output.label} has another number of elements than the part")
    name = node.network.value(source)
    if tuple(sizes) == whole and steps == [1, 1, 1]:
        node.network.bind(output, Bound(name))
        return name
    triple = tuple(begins), tuple(sizes), tuple(steps)
    return node.emit(ops.Slice, output, name, begin=triple[0], size=triple[1], step=triple[2])


def _part_of_grid(
    node: Node, source: FileTensor, output: FileTensor, taken: list[tuple[int, int, int]]
) -> str:
    """Append the slices of a tensor with more dimensions than axes, one after the other."""
    network, shape = node.network, list(source.shape)
    name = network.flat(source)
    cut = [n for n, part in enumerate(taken) if part != (0, shape[n], 1)]
    for dimension in cut:
        first, count, step = taken[dimension]
        last = first + (count - 1) * step
        if count < 1 or not (0 <= first < shape[dimension] and 0 <= last < shape[dimension]):
            raise node.error(f"it reaches beyond {source.label} of shape {list(source.shape)}")
        before, whole, after = around(shape, dimension)
        name = network.shaped(name, (after, before, whole))
        fields = {"begin": (0, 0, first), "size": (after, before, count), "step": (1, 1, step)}
        shape[dimension] = count
        if dimension == cut[-1]:
            network.placed(ops.Slice, node.label, output, (name,), **fields)
            return network.place(output).name
        name = network.hidden(ops.Slice, f"{node.label} part", (name,), **fields)
    network.bind(output, Bound(name))
    return name


def _slice(node: Node) -> None:
    shape = node.input().shape
    begin, size = node.integers(1), node.integers(2)
    if len(begin) != len(shape) or len(size) != len(shape):
        raise node.error(f"begin {begin} and size {size} do not fit {list(shape)}")
    size = [s if s >= 0 else whole - b for s, b, whole in zip(size, begin, shape, strict=True)]
    _slice_of(node, node.output(), begin, size, [1] * len(shape))


def _strided_slice(node: Node) -> None:
    shape = node.input().shape
    begins, ends, steps = (node.integers(n) for n in (1, 2, 3))
    if not len(begins) == len(ends) == len(steps) == len(shape) or 0 in steps:
        raise node.error(f"begin {begins}, end {ends}, step {steps} do not fit {list(shape)}")
    begin, size = [], []
    for d, (first, last, step, whole) in enumerate(zip(begins, ends, steps, shape, strict=True)):
        first, last = _clipped(node, d, first, last, step, whole)
        begin.append(first)
        size.append(len(range(first, last, step)))
    _slice_of(node, node.output(), begin, size, steps)


def _clipped(node: Node, d: int, first: int, last: int, step: int, whole: int) -> tuple[int, int]:
    """Return begin and end of one dimension as Python's ranges have them."""
    shrunk = bool(node.option("ShrinkAxisMask") >> d & 1)
    low, high = (0, whole) if step > 0 else (-1, whole - 1)
    given = first
    first = first + whole if first < 0 else first
    if node.option("Offset"):
        last = given + last
    last = last + whole if last < 0 else last
    first, last = min(max(first, low), high), min(max(last, low), high)
    if node.option("BeginMask") >> d & 1:
        first = low if step > 0 else high
    if node.option("EndMask") >> d & 1:
        last = high if step > 0 else low
    return (first, first + 1) if shrunk else (first, last)


def _split(node: Node) -> None:
    sizes = None if node.op.code == "SPLIT" else node.integers(1)
    source = node.input(1 if node.op.code == "SPLIT" else 0)
    rank, count = len(source.shape), len(node.outputs)
    dimension = node.integers(0 if node.op.code == "SPLIT" else 2)[0]
    if not -rank <= dimension < rank:
        raise node.error(f"dimension {dimension} of {list(source.shape)}")
    dimension %= rank
    whole = source.shape[dimension]
    if sizes is None:
        sizes = [whole // count] * count
    if -1 in sizes:
        rest = whole - sum(size for size in sizes if size >= 0)
        sizes = [rest if size < 0 else size for size in sizes]
    if len(sizes) != count or sum(sizes) != whole:
        raise node.error(f"parts {sizes} of {list(source.shape)}")
    at = 0
    for output, part in zip(node.outputs, sizes, strict=True):
        begin, size = [0] * rank, list(source.shape)
        begin[dimension], size[dimension] = at, part
        _slice_of(node, output, begin, size, [1] * rank)
        at += part


def _unpack(node: Node) -> None:
    shape = node.input().shape
    rank = len(shape)
    dimension = node.option("Axis") % rank
    if len(node.outputs) != shape[dimension]:
        raise node.error(f"{len(node.outputs)} outputs of {list(shape)}")
    for position, output in enumerate(node.outputs):
        begin, size = [0] * rank, list(shape)
        begin[dimension], size[dimension] = position, 1
        _slice_of(node, output, begin, size, [1] * rank)


def _transpose(node: Node) -> None:
    source = node.input()
    rank = len(source.shape)
    perm = [dimension % rank for dimension in node.integers(1)]
    if sorted(perm) != list(range(rank)):
        raise node.error(f"{perm} is no order of {rank} dimensions")
    if is_grid(source):
        grid = node.network.grid(source).permuted(perm)
        name = node.network.place(source).name
        node.network.bind(node.output(), Bound(name, grid=grid))
        return
    axes = node.network.axes(source)
    name = node.network.place(source).name
    node.network.bind(node.output(), Bound(name, tuple(axes[d] for d in perm)))


def _resize_nearest(node: Node) -> None:
    source, output = canonical_shape(node.input()), canonical_shape(node.output())
    taps = []
    for axis in (1, 2):
        positions = nearest_axis(source[axis], output[axis], *_corners(node))
        taps.append(Array(np.array([(place, place, 1, 0) for place in positions])))
    name = node.network.value(node.input())
    node.emit(ops.Resize, node.output(), name, rows=taps[0], columns=taps[1])


def _resize_bilinear(node: Node) -> None:
    source, output = canonical_shape(node.input()), canonical_shape(node.output())
    taps = []
    for axis in (1, 2):
        found = bilinear_axis(source[axis], output[axis], *_corners(node))
        rows = [
            (low, high, _WHOLE - weight, weight) if low != high else (low, low, _WHOLE, 0)
            for low, high, weight in zip(found.low, found.high, found.weight, strict=True)
        ]
        taps.append(Array(np.array(rows)))
    half = _WHOLE * _WHOLE // 2
    bounds = node.quantisation(node.output()).bounds
    node.emit(
        ops.Resize,
        node.output(),
        node.network.value(node.input()),
        rows=taps[0],
        columns=taps[1],
        requants=(requant(1, half, 2 * half, *bounds, add_negative=half - 1),),
    )


def _corners(node: Node) -> tuple[bool, bool]:
    return bool(node.option("AlignCorners")), bool(node.option("HalfPixelCenters"))


_MOVED = (activations(), SAME_TYPE, SAME_QUANTISATION)
_ALL = (activations(None), SAME_QUANTISATION)
_BYTES = (byte_tensors(), SAME_TYPE, SAME_QUANTISATION)
_NO_CONSTANT = Constraint(
    "no input is a constant", lambda node: all(tensor.data is None for tensor in node.inputs)
)
_NO_MASKS = tuple(option_is(name, (0,), f"{name} is 0") for name in ("EllipsisMask", "NewAxisMask"))
_SPLIT = (
    Constraint(
        "input and outputs are INT8, UINT8 or INT16",
        lambda node: {t.type for t in node.outputs} <= set(ACTIVATIONS) and bool(node.outputs),
    ),
)
_RESIZE = (IMAGE, constant(1, "the tensor of sizes"))

OPERATORS = (
    Operator("RESHAPE", "nothing, or Reshape", _reshape, _MOVED),
    Operator("SQUEEZE", "nothing, or Reshape", _reshape, _MOVED),
    Operator("EXPAND_DIMS", "nothing, or Reshape", _reshape, _MOVED),
    Operator("PAD", "pads of a Conv, or Pad", _pad, (*_MOVED, constant(1, "the tensor of pads"))),
    Operator(
        "PADV2",
        "pads of a Conv, or Pad",
        _pad,
        (*_MOVED, constant(1, "the tensor of pads"), constant(2, "the value")),
    ),
    Operator(
        "CONCATENATION",
        "Concat",
        _concat,
        (
            *_ALL,
            _NO_CONSTANT,
            AXIS,
            option_is("FusedActivationFunction", ("NONE",), "it has no fused activation"),
        ),
    ),
    Operator("PACK", "Concat", _pack, (*_ALL, _NO_CONSTANT, AXIS)),
    Operator("UNPACK", "Slice", _unpack, (*_MOVED, AXIS)),
    Operator("SPLIT", "Slice", _split, (*_SPLIT, constant(0, "the dimension"))),
    Operator(
        "SPLIT_V",
        "Slice",
        _split,
        (*_SPLIT, constant(1, "the tensor of sizes"), constant(2, "the dimension")),
    ),
    Operator(
        "SLICE", "Slice", _slice, (*_MOVED, constant(1, "the begin"), constant(2, "the size"))
    ),
    Operator(
        "STRIDED_SLICE",
        "Slice",
        _strided_slice,
        (
            *_MOVED,
            constant(1, "the begin"),
            constant(2, "the end"),
            constant(3, "the step"),
            *_NO_MASKS,
        ),
    ),
    Operator(
        "TRANSPOSE",
        "nothing, or Transpose",
        _transpose,
        (*_MOVED, constant(1, "the order"), DIMENSIONS),
    ),
    Operator("RESIZE_NEAREST_NEIGHBOR", "Resize", _resize_nearest, (*_MOVED, *_RESIZE)),
    Operator("RESIZE_BILINEAR", "Resize", _resize_bilinear, (*_BYTES, *_RESIZE)),
)
