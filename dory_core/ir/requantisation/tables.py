"""Layers that are functions of one byte, as tables of what becomes of each of its 256 patterns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_core.ir import Layer, ops
from dory_core.ir.requantisation.layers import cached_per_layer


@cached_per_layer
def byte_table(layer: Layer) -> npt.NDArray[np.int64] | None:
    """Return the outputs of a layer for each bit pattern of a byte; None for other layers.

    Shape (256,), or (C, 256) when it differs from channel to channel. A pair of a tensor and one
    number, or one for each channel, is such a function. Entries of bytes that the input never has
    are those of the nearest value that it may have.
    """
    op, x, y = layer.op, layer.inputs[0], layer.output
    signed = x.lo < 0
    if x.lo < -128 or x.hi > (127 if signed else 255):
        return None
    if isinstance(op, ops.Lut):
        return np.asarray(np.clip(op.table.values, y.lo, y.hi), np.int64)
    if not isinstance(op, ops.Pairwise) or op.constant is None or op.constant.shape[1:] != (1, 1):
        return None
    counts = [len(p) for step in op.steps for p in step.parameters]
    channels = max(op.constant.shape[0], *counts, 1)
    patterns = np.arange(256, dtype=np.int64)
    values = np.where(patterns > 127, patterns - 256, patterns) if signed else patterns
    rows = np.tile(np.clip(values, x.lo, x.hi), (channels, 1, 1))
    result = op.compute((rows,))
    for step in op.requants:
        result = step.apply(result)
    table = np.asarray(result[:, 0], np.int64)
    return table[0] if channels == 1 else table
