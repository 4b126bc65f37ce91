"""Random layers that move elements."""

from __future__ import annotations

import numpy as np

from dory_qdq.testing.builder import Builder, Tensor
from dory_qdq.testing.elements import integers, like, other_tensor, relu


def concat(b: Builder, x: Tensor) -> Tensor:
    """Concat with a branch of another scale."""
    out = b.node("Concat", [x.name, other_tensor(b, x).name], axis=1)
    return b.quantised(out, (1, 2 * x.shape[1], *x.shape[2:]), b.scale())


def transpose(b: Builder, x: Tensor) -> Tensor:
    """Transpose of rows, columns and channels, in front of a Relu."""
    perm = [0, *(int(p) + 1 for p in b.rng.permutation(3))]
    out = b.node("Transpose", [x.name], perm=perm)
    return relu(b, b.quantised(out, tuple(x.shape[p] for p in perm), x.scale, x.zero))


def slice_of(b: Builder, x: Tensor) -> Tensor:
    """Slice of rows with a step."""
    step, begin = int(b.rng.choice([1, 2])), min(1, x.shape[2] - 1)
    values = ([begin], [x.shape[2]], [2], [step])
    out = b.node("Slice", [x.name, *(b.constant(np.array(v, np.int64)) for v in values)])
    rows = len(range(begin, x.shape[2], step))
    return b.quantised(out, (*x.shape[:2], rows, x.shape[3]), x.scale, x.zero)


def pad(b: Builder, x: Tensor) -> Tensor:
    """Pad with zeros."""
    pads = np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64)
    out = b.node("Pad", [x.name, b.constant(pads), b.constant(np.float32(0))])
    return b.quantised(out, (*x.shape[:2], x.shape[2] + 1, x.shape[3] + 2), x.scale, x.zero)


def resize(b: Builder, x: Tensor) -> Tensor:
    """Resize to the nearest neighbour."""
    scales = b.constant(np.array([1, 1, 2, 2], np.float32))
    mode = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    out = b.node("Resize", [x.name, "", scales], mode="nearest", **mode)
    return b.quantised(out, (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]), x.scale, x.zero)


def resize_linear(b: Builder, x: Tensor) -> Tensor:
    """Resize between neighbours, to sizes or by scales."""
    how = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    mode = {"coordinate_transformation_mode": str(b.rng.choice(how))}
    sizes = [int(b.rng.integers(1, 2 * size + 2)) for size in x.shape[2:]]
    given = b.constant(np.array([*x.shape[:2], *sizes], np.int64))
    inputs = [x.name, "", "", given]
    if b.rng.random() < 0.5:
        sizes = [2 * size for size in x.shape[2:]]
        inputs = [x.name, "", b.constant(np.array([1, 1, 2, 2], np.float32))]
    out = b.node("Resize", inputs, mode="linear", **mode)
    same = b.rng.random() < 0.6
    shape = (*x.shape[:2], *sizes)
    return b.quantised(out, shape, x.scale if same else b.scale(), x.zero if same else None)


def flatten(b: Builder, x: Tensor) -> Tensor:
    """Reshape to one dimension."""
    size = int(np.prod(x.shape))
    shape = b.constant(np.array([1, -1], np.int64))
    out = b.node("Reshape", [x.name, shape])
    return b.quantised(out, (1, size), x.scale, x.zero)


def depth_to_space(b: Builder, x: Tensor) -> Tensor:
    """Padding to whole blocks, DepthToSpace in both modes, sometimes SpaceToDepth."""
    size = int(b.rng.integers(2, 4))
    _, channels, height, width = x.shape
    whole = -(-channels // (size * size)) * size * size
    pads = integers(b, [0, 0, 0, 0, 0, whole - channels, 0, 0])
    x = like(b, x, b.node("Pad", [x.name, pads]), (1, whole, height, width))
    mode = str(b.rng.choice(["DCR", "CRD"]))
    out = b.node("DepthToSpace", [x.name], blocksize=size, mode=mode)
    shape = (1, whole // (size * size), height * size, width * size)
    if b.rng.random() < 0.5:
        return like(b, x, out, shape)
    x = like(b, x, out, shape)
    out = b.node("SpaceToDepth", [x.name], blocksize=size)
    return relu(b, like(b, x, out, (1, whole, height, width)))


def shuffle(b: Builder, x: Tensor) -> Tensor:
    """An order of five or six dimensions between reshapes."""
    _, channels, height, width = x.shape
    groups = next(n for n in (4, 3, 2, 1) if channels % n == 0)
    rows = next(n for n in (3, 2, 1) if height % n == 0)
    split = [1, groups, channels // groups, height // rows, rows, width]
    if b.rng.random() < 0.5:
        split[3:5] = [height]
    parts = b.node("Reshape", [x.name, integers(b, split)])
    order = [0, *(1 + b.rng.permutation(len(split) - 1)).tolist()]
    turned = b.node("Transpose", [parts], perm=order)
    sizes = [split[n] for n in order]
    shape = (1, int(np.prod(sizes[1:-2])), sizes[-2], sizes[-1])
    return relu(b, like(b, x, b.node("Reshape", [turned, integers(b, shape)]), shape))


def tile(b: Builder, x: Tensor) -> Tensor:
    """Tile along some dimensions."""
    times = [1, *b.rng.integers(1, 4, 3).tolist()]
    shape = tuple(s * n for s, n in zip(x.shape, times, strict=True))
    return relu(b, like(b, x, b.node("Tile", [x.name, integers(b, times)]), shape))


def expand(b: Builder, x: Tensor) -> Tensor:
    """Expand of the largest elements of some dimensions."""
    axes = sorted({int(n) for n in b.rng.integers(1, 4, 2)})
    small = tuple(1 if n in axes else size for n, size in enumerate(x.shape))
    x = like(b, x, b.node("ReduceMax", [x.name], axes=axes, keepdims=1), small)
    shape = tuple(int(b.rng.integers(1, 5)) if n in axes else s for n, s in enumerate(small))
    return relu(b, like(b, x, b.node("Expand", [x.name, integers(b, shape)]), shape))


def gather(b: Builder, x: Tensor) -> Tensor:
    """Gather of places, some of them twice or from the end."""
    axis = int(b.rng.integers(1, 4))
    size = x.shape[axis]
    places = b.rng.integers(-size, size, int(b.rng.integers(1, 6)))
    shape = tuple(len(places) if n == axis else s for n, s in enumerate(x.shape))
    return relu(b, like(b, x, b.node("Gather", [x.name, integers(b, places)], axis=axis), shape))


def pad_inside(b: Builder, x: Tensor) -> Tensor:
    """Pad with elements of the input."""
    mode = str(b.rng.choice(["reflect", "edge"]))
    pads = [int(n) for n in b.rng.integers(0, 3, 4)]
    shape = (*x.shape[:2], x.shape[2] + pads[0] + pads[2], x.shape[3] + pads[1] + pads[3])
    given = integers(b, [0, 0, *pads[:2], 0, 0, *pads[2:]])
    return relu(b, like(b, x, b.node("Pad", [x.name, given], mode=mode), shape))
