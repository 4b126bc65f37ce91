"""Random operators that take elements by constant places, and tensors of five dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dory_tflite.testing.draft import Draft


def _integers(draft: Draft, values: Sequence[int] | Sequence[Sequence[int]]) -> int:
    return draft.builder.constant(np.array(values, np.int32))


def _reshaped(draft: Draft, x: int, shape: tuple[int, ...]) -> int:
    y = draft.like(x, shape)
    draft.builder.operator("RESHAPE", [x, _integers(draft, shape)], [y], NewShape=shape)
    return y


def tile(draft: Draft, x: int) -> int:
    """Repeat an image along some dimensions."""
    times = [1, *(draft.number(1, 3) for _ in range(3))]
    y = draft.like(x, tuple(s * n for s, n in zip(draft.shape(x), times, strict=True)))
    draft.builder.operator("TILE", [x, _integers(draft, times)], [y])
    return y


def upsampling(draft: Draft, x: int) -> int:
    """Repeat pixels as Keras 3 writes it: RESHAPE and TILE of five dimensions."""
    _, height, width, channels = draft.shape(x)
    for shape, at in (
        ((1, height, 1, width, channels), 2),
        ((1, 2 * height, width, 1, channels), 3),
    ):
        x = _reshaped(draft, x, shape)
        y = draft.like(x, (*shape[:at], 2, *shape[at + 1 :]))
        draft.builder.operator(
            "TILE", [x, _integers(draft, [1 + (n == at) for n in range(5)])], [y]
        )
        x = y
    return _reshaped(draft, x, (1, 2 * height, 2 * width, channels))


def broadcast(draft: Draft, x: int) -> int:
    """Repeat the mean of some dimensions along them."""
    shape = list(draft.shape(x))
    for dimension in (1, 2, 3):
        shape[dimension] = 1 if draft.flag() else shape[dimension]
    zeros = [0, 0, 0, 0]
    part = draft.like(x, tuple(shape))
    draft.builder.operator("SLICE", [x, _integers(draft, zeros), _integers(draft, shape)], [part])
    wide = tuple(s if s > 1 else draft.number(1, 4) for s in shape)
    y = draft.like(x, (1, *wide[1:]))
    draft.builder.operator("BROADCAST_TO", [part, _integers(draft, (1, *wide[1:]))], [y])
    return y


def mirror_pad(draft: Draft, x: int) -> int:
    """Pad with the elements inside of the border."""
    mode = "SYMMETRIC" if draft.flag() else "REFLECT"
    shape = draft.shape(x)
    most = [size - (mode == "REFLECT") for size in shape]
    pads = [[0, 0], *([draft.number(0, min(2, m)) for _ in range(2)] for m in most[1:])]
    y = draft.like(x, tuple(s + sum(p) for s, p in zip(shape, pads, strict=True)))
    draft.builder.operator("MIRROR_PAD", [x, _integers(draft, pads)], [y], Mode=mode)
    return y


def reverse(draft: Draft, x: int) -> int:
    """Turn one dimension round."""
    y = draft.like(x, draft.shape(x))
    draft.builder.operator("REVERSE_V2", [x, _integers(draft, [draft.number(1, 3)])], [y])
    return y


def running_sum(draft: Draft, x: int) -> int:
    """Add up elements along one dimension, of which the interpreter's 32 bits hold the sums."""
    axis = draft.number(1, 3)
    shape = [size if n != axis else min(size, 15) for n, size in enumerate(draft.shape(x))]
    part = draft.like(x, tuple(shape))
    zeros = _integers(draft, [0, 0, 0, 0])
    draft.builder.operator("SLICE", [x, zeros, _integers(draft, shape)], [part])
    y = draft.output(tuple(shape), draft.quantisation(x)[0] * 100 * shape[axis] ** 0.5)
    flags = {"Exclusive": draft.flag(), "Reverse": draft.flag()}
    draft.builder.operator("CUMSUM", [part, draft.builder.constant(np.int32(axis))], [y], **flags)
    return y


def gather(draft: Draft, x: int) -> int:
    """Take elements along a dimension by places, some twice."""
    shape, axis = list(draft.shape(x)), draft.number(1, 3)
    places = [draft.number(0, shape[axis] - 1) for _ in range(draft.number(1, 5))]
    shape[axis] = len(places)
    y = draft.like(x, tuple(shape))
    draft.builder.operator("GATHER", [x, _integers(draft, places)], [y], Axis=axis)
    return y


def depth_to_space(draft: Draft, x: int) -> int:
    """Pad channels to blocks, and make pixels of them; sometimes back again."""
    size = draft.number(2, 3)
    _, height, width, channels = draft.shape(x)
    whole = -(-channels // (size * size)) * size * size
    if whole != channels:
        pads = [[0, 0], [0, 0], [0, 0], [0, whole - channels]]
        padded = draft.like(x, (1, height, width, whole))
        draft.builder.operator("PAD", [x, _integers(draft, pads)], [padded])
        x = padded
    y = draft.like(x, (1, height * size, width * size, whole // (size * size)))
    draft.builder.operator("DEPTH_TO_SPACE", [x], [y], BlockSize=size)
    if draft.flag():
        return y
    z = draft.like(x, (1, height, width, whole))
    draft.builder.operator("SPACE_TO_DEPTH", [y], [z], BlockSize=size)
    return z


def shuffle(draft: Draft, x: int) -> int:
    """An order of five dimensions: RESHAPE, TRANSPOSE, and something between them and RESHAPE."""
    _, height, width, channels = draft.shape(x)
    groups = next(n for n in (4, 3, 2, 1) if channels % n == 0)
    x = _reshaped(draft, x, (1, height, width, groups, channels // groups))
    order = [0, *(int(p) + 1 for p in draft.random.permutation(4))]
    y = draft.like(x, tuple(draft.shape(x)[axis] for axis in order))
    draft.builder.operator("TRANSPOSE", [x, _integers(draft, order)], [y])
    y = _inside(draft, y)
    a, b, c, d = draft.shape(y)[1:]
    return _reshaped(draft, y, (1, a, b, c * d))


def _inside(draft: Draft, x: int) -> int:
    """Add an operator of five dimensions, or none."""
    shape, axis = list(draft.shape(x)), draft.number(1, 4)
    choice = draft.number(0, 6)
    if choice >= 5:
        return _repeated_pair(draft, x)
    if choice == 0 and shape[axis] > 1:
        begin, size = [0] * 5, list(shape)
        begin[axis], size[axis] = 1, shape[axis] - 1
        y = draft.like(x, tuple(size))
        draft.builder.operator("SLICE", [x, _integers(draft, begin), _integers(draft, size)], [y])
        return y
    if choice == 1:
        shape[axis] *= 2
        y = draft.like(x, tuple(shape))
        draft.builder.operator("CONCATENATION", [x, x], [y], Axis=axis)
        return y
    if choice == 2:
        y = draft.builder.tensor(shape, 1 / 256, -128)
        draft.builder.operator("LOGISTIC", [x], [y])
        return y
    if choice == 3:
        axes = sorted({axis, draft.number(1, 4)})
        y = draft.like(x, tuple(1 if n in axes else size for n, size in enumerate(shape)))
        draft.builder.operator("REDUCE_MAX", [x, _integers(draft, axes)], [y], KeepDims=True)
        return y
    return x


def _repeated_pair(draft: Draft, x: int) -> int:
    """Add a pair whose second operand is repeated along axes of the first one."""
    shape = draft.shape(x)
    pixels = [n for n, size in enumerate(shape[:-1]) if size != 1]
    repeated = set(pixels[:-1])  # all dimensions that are rows
    if draft.flag():
        repeated.add(len(shape) - 1)
    if draft.flag():
        repeated.update(pixels[-1:])
    size = tuple(1 if n in repeated else most for n, most in enumerate(shape))
    scale, zero_point = draft.quantisation(x)
    if draft.flag():
        other = draft.builder.constant(draft.stored(size), [scale], [zero_point])
    else:
        other = draft.input(size, scale, zero_point)
    y = draft.output(shape, 200 * scale)
    operands = [x, other] if draft.flag() else [other, x]
    code = ("ADD", "SUB", "SQUARED_DIFFERENCE")[draft.number(0, 2)]
    fused = {} if code == "SQUARED_DIFFERENCE" else {"FusedActivationFunction": "NONE"}
    draft.builder.operator(code, operands, [y], **fused)
    return y
