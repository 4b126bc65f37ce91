"""Which layers only name bytes anew: where their tensors lie in one another."""

from __future__ import annotations

from itertools import accumulate

from dory_core.ir.graph import Layer, Tensor
from dory_core.ir.ops import Concat, Reshape, Slice, Triple

#: Kinds of layers whose inputs or output may be parts of each other.
VIEWS = (Concat, Reshape, Slice)


def offsets_of(layer: Layer) -> tuple[int, ...] | None:
    """Return where the smaller tensors of a layer begin in the larger one, in bytes.

    Of a Concat all inputs in the output, of a Slice or Reshape the output in the input. None when
    they are no ranges of bytes of it, or the layer does more than to name them.
    """
    op, y = layer.op, layer.output
    if any((t.bits, t.offset) != (y.bits, y.offset) for t in layer.inputs):
        return None  # elements are widened, as those of signed and unsigned bytes are
    if isinstance(op, Reshape):
        same = (y.channels == layer.inputs[0].channels) or y.bits >= 8
        return (0,) if same else None
    if isinstance(op, Concat):
        sizes = [t.size_bytes for t in layer.inputs]
        return tuple(accumulate(sizes[:-1], initial=0)) if _follow(y, op.axis) else None
    if isinstance(op, Slice):
        x = layer.inputs[0]
        axis = next((n for n in range(3) if op.size[n] != _shape(x)[n]), 1)
        whole = all(n == axis or (op.begin[n], op.step[n]) == (0, 1) for n in range(3))
        if whole and op.step[axis] == 1 and _follow(x, axis):
            bits = op.begin[axis] * (x.size_bytes * 8 // _shape(x)[axis])
            return (bits // 8,)
    return None


def _shape(tensor: Tensor) -> Triple:
    return (tensor.channels, tensor.height, tensor.width)


def _follow(tensor: Tensor, axis: int) -> bool:
    """Return whether what has successive places along an axis follows one another in memory."""
    if axis == 1:
        return True
    if axis == 2:
        return tensor.height == 1
    return (tensor.height, tensor.width) == (1, 1) and tensor.bits >= 8
