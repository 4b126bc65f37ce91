"""Which rows and columns of the input an output row or column needs, where no window slides.

Axes are 0 (h) and 1 (w), as in ``dory_core.ir.geometry``.
"""

from __future__ import annotations

from dory_core.ir import Layer, ops

#: First and last input element of every output element, beyond the borders as well.
Places = tuple[tuple[int, int], ...]


def places_of(layer: Layer, axis: int) -> Places | None:
    """Return what every output element of an axis reads of the first input; None: its own place."""
    op, x, y = layer.op, layer.inputs[0], layer.output
    full, total = (x.height, y.height) if axis == 0 else (x.width, y.width)
    logical = axis + 1  # of (C, H, W)
    if isinstance(op, ops.Slice):
        if (op.begin[logical], op.step[logical], full) == (0, 1, total):
            return None
        return _single(op.begin[logical], op.step[logical], total)
    if isinstance(op, ops.Pad):
        return _single(-op.before[logical], 1, total) if full != total else None
    if isinstance(op, ops.Resize):
        taps = (op.rows if axis == 0 else op.columns).values[:, :2].tolist()
        return tuple((min(pair), max(pair)) for pair in taps)
    if isinstance(op, ops.ConvTranspose):
        return _upsampled(op, axis, total)
    whole = (
        isinstance(op, ops.Reshape | ops.Lstm)
        or (isinstance(op, ops.Transpose) and op.perm[logical] != logical)
        or (isinstance(op, ops.Concat) and op.axis == logical)
    )
    return ((0, full - 1),) * total if whole else None


def _single(first: int, step: int, count: int) -> Places:
    return tuple((first + n * step, first + n * step) for n in range(count))


def _upsampled(op: ops.ConvTranspose, axis: int, total: int) -> Places:
    window = op.window
    stride, before = window.strides[axis], window.pads[axis]
    reach = (window.kernel[axis] - 1) * window.dilations[axis]
    return tuple((-((reach - n - before) // stride), (n + before) // stride) for n in range(total))


def whole_axes(layer: Layer, operand: int) -> tuple[bool, bool, bool]:
    """Return of which axes (C, H, W) a tile takes all of an operand, whatever the tile is.

    Of the others it takes the channels, rows and columns of the first operand.
    """
    op = layer.op
    if isinstance(op, ops.Pairwise) and operand:
        sizes = zip(layer.inputs[operand].shape, layer.output.shape, strict=True)
        c, h, w = (mine != total for mine, total in sizes)
        return c, h, w
    if isinstance(op, ops.Concat):
        return op.axis == 0, op.axis == 1, op.axis == 2
    if isinstance(op, ops.Lstm) and operand:
        return True, True, True
    return False, False, False


def keeps_channels(layer: Layer) -> bool:
    """Return whether output channel c of a layer without a window needs input channel c alone."""
    op = layer.op
    if isinstance(op, ops.Slice):
        return (op.begin[0], op.step[0], op.size[0]) == (0, 1, layer.inputs[0].channels)
    if isinstance(op, ops.Pad):
        return op.before[0] == op.after[0] == 0
    if isinstance(op, ops.Concat):
        return op.axis != 0
    if isinstance(op, ops.Transpose):
        return op.perm[0] == 0
    return isinstance(op, ops.Pairwise | ops.Resize | ops.Lut)


def is_local(layer: Layer, axis: int) -> bool:
    """Return whether stripes along an axis are layers of the same kind with fewer rows.

    A row then needs the same row of all inputs, or all of an operand that has one row.
    """
    if places_of(layer, axis) is not None:
        return False
    constant = layer.op.constant if isinstance(layer.op, ops.Pairwise) else None
    return constant is None or constant.shape[axis + 1] == 1
