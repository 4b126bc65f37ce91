"""Average pools and means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import numpy as np
from dory_onnx import window_of

from dory_core.api import Requant, ops
from dory_core.importing import requant
from dory_qdq.call import Call
from dory_qdq.network import Axes
from dory_qdq.numerics import Quantisation, single
from dory_qdq.operators.movers import permuted, pooled
from dory_qdq.operators.products import scaled
from dory_qdq.operators.tables import by_byte
from dory_qdq.values import Place, Real

#: Steps of binary32 that are rounded away from a sum of products to its mean, per element and once.
_ROUNDINGS = 2.0**-23
#: Elements of a window, so that a damaged size costs neither time nor memory.
_MOST_TAPS = 1 << 16


def lower_average(call: Call) -> Place:
    """Append AveragePool: sums of reals in binary32, as QLinearAveragePool has them.

    A window of the whole image is GlobalAveragePool to it, which adds integers.
    """
    real = call.real()
    place = real.place
    name, window, inside = _windows(call, place, real.x)
    x, y, clip = real.x, call.output, call.clip()
    if any(window.pads):
        window = replace(window, pad_value=x.zero_point)
    elif window.taps == np.prod(place.shape[2:]):
        step = _integer_mean(call, x, window.taps)
        return pooled(call, call.emit(ops.AvgPool, name, window=window, requants=(step,)), place)
    if inside or not _is_certain(x, y, window.taps, clip):
        mean = ops.RealMean(x.scale, x.zero_point, y.scale, y.zero_point + call.shift)
        fields = {"window": window, "counts_padding": not inside, "real": mean}
        step = requant(1, -call.shift, 1, *clip)
        output = call.emit(ops.AvgPool, name, requants=(step,), **fields)
        return pooled(call, output, place)
    factor = single(x.scale / (window.taps * y.scale))
    step = scaled(call, factor, y.zero_point, clip, window.taps * x.zero_point)
    output = call.emit(ops.AvgPool, name, window=window, requants=(step,))
    return pooled(call, output, place)


def _windows(call: Call, place: Place, x: Quantisation) -> tuple[str, ops.Window, bool]:
    """Return the tensor, the window, and whether means are those of what it has in the tensor.

    What ceil_mode adds after the pads counts where onnxruntime counts pads in integers, and
    never in its reals, as ONNX says: pads are a layer of their own then.
    """
    name, size = call.image(place), place.shape[2:]
    kernel = call.attribute("kernel_shape", ())
    window = window_of(call.node, kernel, size)
    if window.taps > _MOST_TAPS:
        raise call.error(f"a window of {window.taps} elements; {_MOST_TAPS} are possible")
    if not call.attribute("count_include_pad", 0):
        return name, window, any(window.pads)
    top, left, bottom, right = given = window_of(call.node, kernel, size, ceil=False).pads
    if given == window.pads:
        return name, window, False
    if call.integer:
        call.network.notes.append(
            f"{call.node.label}: windows that ceil_mode adds are divided by all of their elements,"
            " as in onnxruntime's QLinearAveragePool, not by those in image and pads, as ONNX says"
        )
        return name, window, False
    if any(given):
        before, after, value = (0, top, left), (0, bottom, right), x.zero_point
        append = call.network.append
        name = append(ops.Pad, call.node.title, (name,), before=before, after=after, value=value)
    rest = tuple(pad - known for pad, known in zip(window.pads, given, strict=True))
    return name, replace(window, pads=rest), True


def _is_certain(x: Quantisation, y: Quantisation, taps: int, clip: tuple[int, int]) -> bool:
    """Return True when every sum of ``taps`` values is rounded the same in any order of additions.

    No sum is nearer to a tie than what binary32 can be wrong by.
    """
    lo, hi = ((end - x.zero_point) * taps for end in x.bounds)
    factor = Fraction(x.scale) / (taps * Fraction(y.scale))
    exact = np.arange(lo, hi + 1, dtype=np.float64) * float(factor) + y.zero_point
    reached = (exact > clip[0] - 1) & (exact < clip[1] + 1)
    wrong = _ROUNDINGS * (taps + 4) * (np.abs(exact) + 2 * abs(y.zero_point) + 1)
    return bool((np.abs(exact - np.floor(exact) - 0.5) > wrong)[reached].all())


def _integer_mean(call: Call, x: Quantisation, count: int) -> Requant:
    """Return the step of QLinearGlobalAveragePool, from the sum of ``count`` integers."""
    factor = np.asarray(single(x.scale) / (single(call.output.scale) * single(count)))
    return scaled(call, factor, call.output.zero_point, call.clip(), count * x.zero_point)


@dataclass(frozen=True, slots=True)
class _Reduced:
    """A reduction over rows and columns.

    Attributes:
        name: The tensor that is read.
        kernel: Rows and columns that become one.
        shape, axes: Of the result in the file.
    """

    name: str
    kernel: tuple[int, int]
    shape: tuple[int, ...]
    axes: Axes

    @property
    def window(self) -> ops.Window:
        """The window of the layer."""
        return ops.Window(kernel=self.kernel, strides=self.kernel)


def _reduced(call: Call, place: Place) -> _Reduced:
    """Bring the dimensions that a reduction takes along rows and columns."""
    rank = len(place.shape)
    if call.node.op.endswith("GlobalAveragePool"):
        if rank not in (3, 4):
            raise call.error(f"an input of shape {list(place.shape)} is no image")
        dimensions, keeps = list(range(2, rank)), True
    else:
        given = call.integers(1, "axes")
        if not given and call.attribute("noop_with_empty_axes", 0):
            raise call.error("it reduces no dimension", "leave it out")
        dimensions = sorted({d % rank for d in given}) if given else list(range(rank))
        keeps = bool(call.attribute("keepdims", 1))
    shape = [1 if d in dimensions else size for d, size in enumerate(place.shape)]
    left = list(range(rank)) if keeps else [d for d in range(rank) if d not in dimensions]
    result = tuple(shape[d] for d in left)
    wide = [d for d in dimensions if place.shape[d] > 1]
    axes = call.network.axes(place)
    if axes is None or any(axes[d] not in (1, 2) for d in wide):
        rest = [d for d in range(rank) if place.shape[d] > 1 and d not in wide]
        if len(wide) > 2 or len(wide) + len(rest) > 3:
            return _as_rows(call, place, wide, result)
        found = dict(zip([*wide, *rest[:-1]], (1, 2), strict=False)) | dict.fromkeys(rest[-1:], 0)
        axes = tuple(found.get(d) for d in range(rank))
    name, axes = call.tensor(place, axes)
    sizes = call.network.tensors[name].shape
    reduced = {axes[d] for d in wide}
    kernel = (sizes[1] if 1 in reduced else 1, sizes[2] if 2 in reduced else 1)
    kept = [None if d in dimensions else axes[d] for d in range(rank)]
    return _Reduced(name, kernel, result, tuple(kept[d] for d in left))


def _as_rows(call: Call, place: Place, wide: list[int], result: tuple[int, ...]) -> _Reduced:
    """Make rows of the elements that become one, and channels of those that stay apart."""
    rest = [d for d in range(len(place.shape)) if d not in wide]
    moved = permuted(call, place, [*wide, *rest])
    shape = prod(moved.shape[: len(wide)]), prod(moved.shape[len(wide) :])
    name, _ = call.tensor(replace(moved, shape=shape), (1, 0))
    return _Reduced(name, (shape[0], 1), result, (0,))


def lower_mean(call: Call) -> Place:
    """Append GlobalAveragePool, ReduceMean or ReduceSum, as QLinearGlobalAveragePool."""
    real = call.real()
    found = _reduced(call, real.place)
    count = found.window.taps
    step = _integer_mean(call, real.x, count)
    if call.node.op == "ReduceSum":
        factor = np.asarray(single(real.x.scale) / single(call.output.scale))
        turn = count * real.x.zero_point
        step = scaled(call, factor, call.output.zero_point, call.clip(), turn)
    output = call.emit(ops.AvgPool, found.name, window=found.window, requants=(step,))
    return call.network.placed(output, found.shape, found.axes)


def lower_largest(call: Call, source: Real) -> Place:
    """Append ReduceMax over stored values."""
    found = _reduced(call, source.place)
    output = call.emit(ops.MaxPool, found.name, window=found.window)
    return call.network.placed(output, found.shape, found.axes)


def lower_smallest(call: Call, source: Real) -> Place:
    """Append ReduceMin over stored values: the largest of the values in falling order."""
    found, x = _reduced(call, source.place), source.x
    falling = by_byte(sum(x.bounds) - x.values, x)
    name = call.network.append(ops.Lut, call.node.title, (found.name,), table=falling)
    largest = call.network.append(ops.MaxPool, call.node.title, (name,), window=found.window)
    output = call.emit(ops.Lut, largest, table=falling)
    return call.network.placed(output, found.shape, found.axes)
