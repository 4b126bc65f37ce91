"""Arithmetic of binary32 that numpy does not have, and functions that are defined by its order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Wide = npt.NDArray[np.float64]

#: Epsilons for which no operation on bytes leaves the normal numbers of binary32.
EPSILONS = (2.0**-60, 2.0**20)
#: Scales for which no operation on bytes leaves the normal numbers of binary32.
REAL_SCALES = (2.0**-20, 2.0**20)
#: Sums of squares that a row is divided into.
LANES = 8
#: Squares of the end of a row that are rounded before they are added, where there are as many.
ROUNDED = 4
#: Numbers that Eigen adds at once.
PACKET = 4


def single(value: npt.ArrayLike) -> Floats:
    """Return numbers in binary32."""
    return np.asarray(value, dtype=np.float32)


def fused(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return a * b + c, rounded once.

    The product is exact in binary64. The sum is rounded to odd there, so that what its last bits
    drop is seen when it is rounded again.
    """
    product, addend = np.broadcast_arrays(a.astype(np.float64) * b, c.astype(np.float64))
    total = np.asarray(product + addend)
    part = total - product
    error = (product - (total - part)) + (addend - part)
    bits = total.view(np.int64)
    towards = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & (bits & 1 == 0), bits + towards, bits)
    return single(odd.view(np.float64))


def sum_of_squares(values: Floats) -> Floats:
    """Return the sums of squares along axis 0, of at least eight elements.

    Elements n, n + 8, n + 16 and so on add up in sum n of eight, each by a fused step. Sums n and
    n + 4 are added, then those two apart, then both. Of what is left at the end, four squares are
    rounded and added, if there are as many, and the others added by fused steps.
    """
    whole = len(values) // LANES * LANES
    lanes = np.zeros_like(values[:LANES])
    for begin in range(0, whole, LANES):
        part = values[begin : begin + LANES]
        lanes = fused(part, part, lanes)
    halves = lanes[:4] + lanes[4:]
    total: Floats = (halves[0] + halves[2]) + (halves[1] + halves[3])
    rounded = whole + (ROUNDED if len(values) - whole >= ROUNDED else 0)
    for element in values[whole:rounded]:
        total = total + element * element
    for element in values[rounded:]:
        total = fused(element, element, total)
    return total


def layer_norm(
    x: Floats, weights: Floats, bias: Floats | None, epsilon: float, *, centred: bool = True
) -> Floats:
    """Return the layer normalisation along axis 0 as onnxruntime's kernel for AVX2 computes it.

    The mean is that of a sum without rounding. Source: microsoft/onnxruntime, pull request 31973;
    the order of its sums is what its results show.

    Args:
        x: binary32, shape (C, H, W).
        weights: binary32, shape (C,).
        bias: Like the weights, None without.
        epsilon: What is added to the variance.
        centred: The mean is taken off; otherwise it is 0.
    """
    mean = single(x.astype(np.float64).sum(axis=0) / len(x)) if centred else single(0)
    deviations = x - mean
    variance = sum_of_squares(deviations) / single(len(x))
    inverse = single(1) / np.sqrt(variance + single(epsilon))
    normal, scale = deviations * inverse, weights.reshape(-1, 1, 1)
    return normal * scale if bias is None else fused(normal, scale, bias.reshape(-1, 1, 1))


def norm_in_order(x: Floats, weights: Floats, epsilon: float, *, of_mean: bool) -> Floats:
    """Return x over a root along axis 0, with sums in the order of the elements.

    Args:
        x: binary32, shape (C, H, W).
        weights: binary32, shape (C,).
        epsilon: What is added under the root.
        of_mean: The root is of the mean of the squares, otherwise of their sum.
    """
    total = np.zeros_like(x[0])
    for element in x:
        total = total + element * element
    if of_mean:
        total = total / single(len(x)) + single(epsilon)
    root = np.sqrt(total)
    safe = np.where(root > 0, root, single(1))  # the elements are 0 then
    return np.asarray(x / safe * weights.reshape(-1, 1, 1))


def norm_in_packets(x: Floats, weights: Floats, epsilon: float, *, by_inverse: bool) -> Floats:
    """Return x over the root of its mean square along axis 0, by operators of their own.

    Args:
        x: binary32, shape (C, H, W), C a multiple of the packet.
        weights: binary32, shape (C,).
        epsilon: What is added under the root.
        by_inverse: The elements are multiplied by the inverse of the root.
    """
    root = np.sqrt(packed_sum(x * x, 0) / single(len(x)) + single(epsilon))
    normal = x * (single(1) / root) if by_inverse else x / root
    return np.asarray(normal * weights.reshape(-1, 1, 1))


def packed_sum(values: Floats, start: int) -> Floats:
    """Return the sums along axis 0 in the order of Eigen's packets of four.

    Elements from ``start`` on add up in two packets by turns; a packet that is left over is added
    to their sum. Then come the elements before ``start``, and those after the last packet.
    """
    start = min(start, len(values))
    whole = (len(values) - start) // PACKET * PACKET
    rest = [*values[:start], *values[start + whole :]]
    if not whole:
        total, rest = values[0], [*values[1:]]
    else:
        packets = [values[n : n + PACKET] for n in range(start, start + whole, PACKET)]
        pairs = len(packets) // 2 * 2
        first = packets[0]
        if pairs:
            second = packets[1]
            for n in range(2, pairs, 2):
                first, second = first + packets[n], second + packets[n + 1]
            first = first + second
            if pairs < len(packets):
                first = first + packets[pairs]
        total = (first[0] + first[2]) + (first[1] + first[3])
    for element in rest:
        total = total + element
    return np.asarray(total)


def instance_norm(
    x: Floats, weights: Floats, bias: Floats, epsilon: float, starts: npt.NDArray[np.int64]
) -> Floats:
    """Return the normalisation of each row as onnxruntime's InstanceNormalization computes it.

    Source: microsoft/onnxruntime, core/providers/cpu/nn/instance_norm.cc; the order of its sums is
    what its results show.

    Args:
        x: binary32, shape (C, elements).
        weights: binary32, shape (C,).
        bias: Like the weights.
        epsilon: What is added to the variance.
        starts: Elements before the first packet of the sum of a row, shape (C,).
    """
    count, mean = single(x.shape[1]), np.empty(len(x), np.float32)
    for start in range(PACKET):
        rows = starts == start
        if rows.any():
            mean[rows] = packed_sum(x[rows].T, start) / count
    deviations = x - mean[:, None]
    variance = packed_sum((deviations * deviations).T, 0) / count
    scale = single(1) / np.sqrt(variance + single(epsilon)) * weights
    return np.asarray(x * scale[:, None] + (bias - mean * scale)[:, None])
