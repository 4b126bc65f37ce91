"""Operators that take elements along dimensions by constant places, and blocks of pixels.

TILE, BROADCAST_TO, MIRROR_PAD, REVERSE_V2 and GATHER are a Resize to given places, each along one
dimension. DEPTH_TO_SPACE and SPACE_TO_DEPTH are other orders of five dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dory_core.api import ops
from dory_core.importing import Array
from dory_tflite.grids import MOST_PIXELS, Grid, Triple, around
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.common import (
    AXIS,
    DIMENSIONS,
    SAME_QUANTISATION,
    SAME_TYPE,
    activations,
    byte_tensors,
    constant,
    option_is,
)
from dory_tflite.places import Bound

#: Places along a dimension, in the order of the output.
Places = Sequence[int]
_MOST_COPIES = 16


def _gather(node: Node, shape: Sequence[int], steps: Sequence[tuple[int, Places]]) -> None:
    """Append the layers that take places along dimensions; shape: of the input."""
    network, output, sizes = node.network, node.output(), list(shape)
    name = network.flat(node.input())
    moved = [(d, tuple(p)) for d, p in steps if tuple(p) != tuple(range(sizes[d]))]
    for number, (dimension, places) in enumerate(moved):
        if len(places) > MOST_PIXELS:
            raise node.error(f"{len(places)} elements along dimension {dimension}")
        kind, source, fields = _taken(sizes, dimension, places)
        if max(source[1:]) > MOST_PIXELS:
            raise node.error(f"shape {list(shape)} is beyond {MOST_PIXELS} rows and columns")
        copies = len(places) // sizes[dimension] if kind is ops.Concat else 1
        inputs = (network.shaped(name, source),) * copies
        sizes[dimension] = len(places)
        if number == len(moved) - 1:
            network.placed(kind, node.label, output, inputs, **fields)
            return
        name = network.hidden(kind, f"{node.label} {dimension}", inputs, **fields)
    network.bind(output, Bound(name))


def _taken(
    sizes: Sequence[int], dimension: int, places: Places
) -> tuple[type[ops.Operator], Triple, dict[str, Any]]:
    """Return kind, shape (C, H, W) of the input and fields of the layer for one dimension."""
    wide = [n for n in range(dimension) if sizes[n] > 1]
    if sizes[dimension] == 1 and wide:  # repeats each element of the dimension before
        dimension, times = wide[-1], len(places)
        places = [n for n in range(sizes[dimension]) for _ in range(times)]
    before, size, after = around(sizes, dimension)
    repeated = list(places) == list(range(size)) * (len(places) // size)
    if after == 1 and repeated and len(places) <= size * _MOST_COPIES:
        return ops.Concat, (size, before, 1), {"axis": 0}
    if before == 1:
        channels = sizes[-1] if after > 1 else 1
        shape = (channels, size, after // channels)
        return ops.Resize, shape, {"rows": _taps(places), "columns": _taps(range(shape[2]))}
    shape = (after, before, size)
    return ops.Resize, shape, {"rows": _taps(range(before)), "columns": _taps(places)}


def _taps(places: Places) -> Array:
    return Array([(place, place, 1, 0) for place in places])


def _tile(node: Node) -> None:
    shape, times = node.input().shape, node.integers(1)
    if len(times) != len(shape) or min(times, default=1) < 1:
        raise node.error(f"multiples {times} of {list(shape)}")
    _gather(node, shape, [(d, list(range(shape[d])) * n) for d, n in enumerate(times)])


def _broadcast(node: Node) -> None:
    wanted, shape = node.output().shape, node.input().shape
    shape = (1,) * (len(wanted) - len(shape)) + shape
    pairs = zip(shape, wanted, strict=False)
    if len(shape) != len(wanted) or any(size not in (1, most) for size, most in pairs):
        raise node.error(f"{list(node.input().shape)} does not become {list(wanted)}")
    steps = [(d, [0] * n) for d, n in enumerate(wanted) if shape[d] != n]
    _gather(node, shape, steps)


def _mirror_pad(node: Node) -> None:
    shape, pads = node.input().shape, node.integers(1)
    skipped = 1 if node.option("Mode") == "REFLECT" else 0
    steps = []
    for d, (first, last) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        if not 0 <= max(first, last) <= shape[d] - skipped or min(first, last) < 0:
            raise node.error(f"pads {pads} of {list(shape)}")
        low = range(first - 1 + skipped, skipped - 1, -1)
        high = range(shape[d] - 1 - skipped, shape[d] - 1 - skipped - last, -1)
        steps.append((d, [*low, *range(shape[d]), *high]))
    _gather(node, shape, steps)


def _reverse(node: Node) -> None:
    shape = node.input().shape
    dimensions = {d % len(shape) for d in node.integers(1)}
    _gather(node, shape, [(d, range(shape[d] - 1, -1, -1)) for d in sorted(dimensions)])


def _indices(node: Node) -> None:
    shape, places = node.input().shape, node.integers(1)
    dimension = node.option("Axis") % len(shape)
    if not places or not all(0 <= place < shape[dimension] for place in places):
        raise node.error(f"indices {places} of {list(shape)} along dimension {dimension}")
    _gather(node, shape, [(dimension, places)])


def _blocks(node: Node) -> None:
    """Append the order of DEPTH_TO_SPACE or SPACE_TO_DEPTH: blocks of pixels become channels."""
    size = node.option("BlockSize")
    is_depth = node.op.code == "DEPTH_TO_SPACE"
    small, large = (node.input(), node.output()) if is_depth else (node.output(), node.input())
    _, height, width, channels = large.shape
    if small.shape != (1, height // size, width // size, channels * size * size):
        raise node.error(f"{list(node.input().shape)} becomes {list(node.output().shape)}")
    rows, columns = height // size, width // size
    inner = (columns, size) if is_depth else (size, columns)
    grid = Grid((rows, *inner, size * channels), (0, 2, 1, 3))
    node.network.bind(node.output(), Bound(node.network.flat(node.input()), grid=grid))


def _pads_fit(node: Node) -> bool:
    return len(node.integers(1)) == 2 * len(node.input().shape)


def _are_blocks(node: Node) -> bool:
    size, shapes = node.option("BlockSize"), (node.input().shape, node.output().shape)
    return size >= 1 and all(len(shape) == 4 and shape[0] == 1 for shape in shapes)


_MOVED = (byte_tensors(), SAME_TYPE, SAME_QUANTISATION)


def _operator(code: str, lower: Callable[[Node], None], *more: Constraint) -> Operator:
    return Operator(code, "Resize, or Concat", lower, (*_MOVED, *more))


_BLOCKS = Constraint("tensors are images of a batch of 1, in blocks of one size", _are_blocks)

OPERATORS = (
    _operator("TILE", _tile, constant(1, "the tensor of multiples")),
    _operator("BROADCAST_TO", _broadcast, constant(1, "the shape")),
    _operator(
        "MIRROR_PAD",
        _mirror_pad,
        constant(1, "the tensor of pads"),
        Constraint("there are two pads for each dimension", _pads_fit),
    ),
    Operator(
        "REVERSE_V2",
        "Resize, or Concat",
        _reverse,
        (
            *(activations(), SAME_TYPE, SAME_QUANTISATION),
            constant(1, "the tensor of dimensions"),
            DIMENSIONS,
        ),
    ),
    _operator(
        "GATHER",
        _indices,
        constant(1, "the tensor of indices"),
        AXIS,
        option_is("BatchDims", (0,), "BatchDims is 0"),
    ),
    *(
        Operator(code, "Slice and Concat, or Transpose", _blocks, (*_MOVED, _BLOCKS))
        for code in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
    ),
)
