"""Random operators that move elements: padding, slices, concatenation, resizing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dory_tflite.testing.draft import Draft


def pad(draft: Draft, x: int) -> int:
    """Add padding, with a value now and then."""
    pads = np.zeros((4, 2), np.int32)
    pads[1:3] = draft.random.integers(0, 2, (2, 2), endpoint=True)
    if draft.flag():
        pads[3] = draft.random.integers(0, 2, 2, endpoint=True)
    shape = tuple(int(s + p) for s, p in zip(draft.shape(x), pads.sum(axis=1), strict=True))
    y = draft.like(x, shape)
    inputs = [x, draft.builder.constant(pads)]
    code = "PAD"
    if draft.flag():
        value = draft.stored((1,))
        scale, zero_point = draft.quantisation(x)
        inputs.append(draft.builder.constant(value, [scale], [zero_point]))
        code = "PADV2"
    draft.builder.operator(code, inputs, [y])
    return y


def concat(draft: Draft, x: int) -> int:
    """Add a concatenation with inputs of the network."""
    axis = draft.number(1, 3)
    shapes = [list(draft.shape(x)) for _ in range(draft.number(1, 2))]
    for shape in shapes:
        shape[axis] = draft.number(1, 4)
    others = [draft.input(shape, *draft.quantisation(x)) for shape in shapes]
    whole = list(draft.shape(x))
    whole[axis] += sum(shape[axis] for shape in shapes)
    y = draft.like(x, tuple(whole))
    draft.builder.operator("CONCATENATION", [x, *others], [y], Axis=axis - 4 * draft.flag())
    return y


def split(draft: Draft, x: int) -> int:
    """Add a split in two, one part of which goes on."""
    shape = draft.shape(x)
    axis = draft.number(1, 3)
    if shape[axis] < 2:
        return strided_slice(draft, x)
    first = draft.number(1, shape[axis] - 1)
    parts = []
    for size in (first, shape[axis] - first):
        part = list(shape)
        part[axis] = size
        parts.append(draft.like(x, tuple(part)))
    sizes = draft.builder.constant(np.array([first, shape[axis] - first], np.int32))
    dimension = draft.builder.constant(np.array(axis, np.int32))
    draft.builder.operator("SPLIT_V", [x, sizes, dimension], parts, NumSplits=2)
    return parts[draft.number(0, 1)]


def strided_slice(draft: Draft, x: int) -> int:
    """Add a slice, with steps now and then."""
    shape = draft.shape(x)
    begin, end, step = [0], [1], [1]
    for size in shape[1:]:
        first = draft.number(0, size - 1)
        begin.append(first)
        end.append(draft.number(first + 1, size))
        step.append(draft.number(1, 2))
    sizes = [len(range(b, e, s)) for b, e, s in zip(begin, end, step, strict=True)]
    y = draft.like(x, tuple(sizes))
    places = [draft.builder.constant(np.array(v, np.int32)) for v in (begin, end, step)]
    draft.builder.operator("STRIDED_SLICE", [x, *places], [y])
    return y


def slice_(draft: Draft, x: int) -> int:
    """Add a slice."""
    shape = draft.shape(x)
    begin = [0, *(draft.number(0, size - 1) for size in shape[1:])]
    size = [1, *(draft.number(1, s - b) for s, b in zip(shape[1:], begin[1:], strict=True))]
    y = draft.like(x, tuple(size))
    places = [draft.builder.constant(np.array(v, np.int32)) for v in (begin, size)]
    draft.builder.operator("SLICE", [x, *places], [y])
    return y


def transpose(draft: Draft, x: int) -> int:
    """Add a transposition."""
    order = [0, *(int(p) + 1 for p in draft.random.permutation(3))]
    y = draft.like(x, tuple(draft.shape(x)[axis] for axis in order))
    perm = draft.builder.constant(np.array(order, np.int32))
    draft.builder.operator("TRANSPOSE", [x, perm], [y])
    return y


def resize(code: str) -> Callable[[Draft, int], int]:
    """Return the function that adds a change of size."""

    def build(draft: Draft, x: int) -> int:
        size = (draft.number(1, 12), draft.number(1, 12))
        y = draft.like(x, (1, *size, draft.shape(x)[3]))
        corners, half = [(False, False), (True, False), (False, True)][draft.number(0, 2)]
        sizes = draft.builder.constant(np.array(size, np.int32))
        draft.builder.operator(code, [x, sizes], [y], AlignCorners=corners, HalfPixelCenters=half)
        return y

    return build


def pack(draft: Draft, x: int) -> int:
    """Rows of pixels, packed and unpacked again."""
    _, height, width, channels = draft.shape(x)
    flat = draft.like(x, (height * width, channels))
    shape = draft.builder.constant(np.array((height * width, channels), np.int32))
    draft.builder.operator("RESHAPE", [x, shape], [flat], NewShape=(height * width, channels))
    axis = draft.number(0, 2)
    packed = [height * width, channels]
    packed.insert(axis, 2)
    y = draft.like(x, tuple(packed))
    draft.builder.operator("PACK", [flat, flat], [y], Axis=axis, ValuesCount=2)
    parts = [draft.like(x, (height * width, channels)) for _ in range(2)]
    draft.builder.operator("UNPACK", [y], parts, Axis=axis, Num=2)
    z = draft.like(x, (1, height, width, channels))
    shape = draft.builder.constant(np.array((1, height, width, channels), np.int32))
    draft.builder.operator("RESHAPE", [parts[1], shape], [z], NewShape=(1, height, width, channels))
    return z
