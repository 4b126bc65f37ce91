"""What kernels with weights share: parameters first, then rows of bytes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Layer,
    Number,
    Rejection,
    WeightBlock,
    ceil_div,
    reject_type,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.epilogue import Epilogue, epilogue, reject_epilogue
from dory_stm32h7.backend.instance import (
    BYTES,
    HALVES,
    OUTPUTS,
    InstanceKernel,
    type_macros,
)


def vectors(elements: Number) -> Number:
    """Return the vectors of four that elements fill."""
    return ceil_div(elements, 4)


def lift_of(layer: Layer) -> int:
    """Return the number to take from weights of a uint8 file so that they are bytes, else 0."""
    low, high = layer.weighted.weights.bounds
    lift = max(high - 127, 0) or min(low + 128, 0)
    is_byte = layer.inputs[0].bits == 8 and high - low < 256 and -127 <= lift <= 128
    return lift if is_byte else 0


def weight_bits(layer: Layer) -> int:
    """Return the bits of a weight in memory: 8, or 16 where those less the lift need more."""
    low, high = layer.weighted.weights.bounds
    lift = lift_of(layer)
    return 8 if low - lift >= -128 and high - lift <= 127 else 16


def in_fours(weights: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
    """Return weights, shape (..., 4), as they lie in memory: int8, or int16 by even and odd."""
    if bits == 8:
        return weights.astype(np.int8)
    return weights[..., (0, 2, 1, 3)].astype("<i2")


def interleaved(rows: npt.NDArray[Any], together: int, bits: int) -> bytes:
    """Return rows, shape (C, n), padded to multiples of four, ``together`` of them interleaved.

    The rows that are left over follow one by one. bits: of a weight.
    """
    count, length = rows.shape
    padded = np.zeros((count, -(-length // 4) * 4), dtype=np.int16)
    padded[:, :length] = rows
    whole = count // together * together
    shape = (whole // together, together, padded.shape[1] // 4, 4)
    blocks = padded[:whole].reshape(shape).swapaxes(1, 2)
    rest = padded[whole:].reshape(count - whole, padded.shape[1] // 4, 4)
    return in_fours(blocks, bits).tobytes() + in_fours(rest, bits).tobytes()


def paired(rows: npt.NDArray[Any], bits: int) -> bytes:
    """Return rows, shape (C, n), padded to multiples of four, two of them interleaved.

    Bytes of rows a, b lie as a0 b0 a2 b2 a1 b1 a3 b3; 16-bit numbers, and an odd last row, as
    ``interleaved`` has them.
    """
    if bits != 8:
        return interleaved(rows, 2, bits)
    both = len(rows) // 2 * 2
    vectors = np.frombuffer(interleaved(rows[:both], 2, 8), dtype=np.int8).reshape(-1, 2, 2, 2)
    return vectors.transpose(0, 3, 2, 1).tobytes() + interleaved(rows[both:], 1, 8)


class WeightedKernel(InstanceKernel):
    """Convolutions and fully connected layers; weights of up to 16 bits. inputs: types it takes."""

    inputs: ClassVar[tuple[str, ...]] = (*BYTES, *HALVES)

    def reject(self, layer: Layer) -> Rejection | None:
        """Return why types, weights or requantisation are not possible."""
        kind = layer.weighted
        weights = kind.weights.values
        if weights.min() < -32768 or weights.max() > 32767:
            return Rejection(
                f"its weights lie in [{weights.min()}, {weights.max()}], not in 16 bits"
            )
        outputs, x = OUTPUTS if kind.requants else ("i32",), layer.inputs[0]
        if x.hi > 32767:
            return Rejection(f"its input reaches {x.hi}, it multiplies signed 16-bit numbers")
        return (
            reject_type(x, "input", self.inputs)
            or reject_type(layer.output, "output", outputs)
            or reject_epilogue(layer)
        )

    @abstractmethod
    def rows_bytes(self, layer: Layer, count: Number) -> Number:
        """Return the bytes of the weights of ``count`` output channels."""

    def weight_bytes(self, layer: Layer, tile: Any) -> Number:
        """Parameters of each channel, then the weights."""
        parameters = tile.c_out * epilogue(layer).channel_bytes
        return ceil_div(parameters + self.rows_bytes(layer, tile.c_out), 8) * 8

    def block(self, layer: Layer, c_out: tuple[int, int], weights: bytes) -> WeightBlock:
        """Return a weight block: parameters of the channels c_out[0] .. c_out[1] - 1, weights."""
        chosen = epilogue(layer)
        data = chosen.parameters(slice(*c_out), layer.output.channels)
        parts = {chosen.part: 0} if data else {}
        parts["weights"] = len(data)
        data += weights
        return WeightBlock(data + bytes(-len(data) % 8), parts)

    def macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """Return the macros of types and requantisation."""
        x, y = layer.inputs[0], layer.output
        weights = ("DORY_W_BITS", weight_bits(layer))
        return (*type_macros("X", x), *type_macros("Y", y), weights, *epilogue(layer).macros)

    def types(self, layer: Layer) -> str:
        """Return types and requantisation as part of a name."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        weights = ("_u8" if lift_of(layer) else "") if weight_bits(layer) == 8 else "_i16"
        return f"{x}{weights}_{y}{epilogue(layer).suffix}"


def output_extra(chosen: Epilogue) -> int:
    """Return the tenths of cycles of an output beyond one step, a shift of 32, immediate bounds."""
    count = 0
    if chosen.steps:
        count += costs.SHIFT_EXTRA * (chosen.steps[0].shift != 32)
        count += costs.BOUNDS_EXTRA * (chosen.clip[0] == "BOUNDS")
        count += costs.SHIFTED_EXTRA * chosen.shifted
        count += costs.EVEN_EXTRA * chosen.even
        count += costs.SECOND * (len(chosen.steps) - 1)
    return count


def blocks_tenths(
    chosen: Epilogue, in_assembly: bool, length: int, channels: Number, pixels: Number
) -> Number:
    """Return the tenths of cycles of all blocks of pairs of channels (dory_stm32h7_matmul_impl.h).

    length: vectors of a column.
    """
    extra = costs.BLOCK_C_TURNED * chosen.turned + 4 * output_extra(chosen)
    block = costs.BLOCK_C_VECTOR * length + costs.BLOCK_C + extra
    if not in_assembly:
        return ceil_div(pixels, 2) * (costs.PIXELS + channels // 2 * block)
    counts = (pixels % 3 % 2, pixels % 3 // 2, pixels // 3)
    return sum(
        count * (costs.PIXELS + channels // 2 * _block_tenths(chosen, length, n))
        for n, count in enumerate(counts)
    )


def _block_tenths(chosen: Epilogue, length: int, n: int) -> Number:
    """Return the tenths of cycles of a block of n + 1 pixels in assembly."""
    outputs = costs.BLOCK[n] + costs.BLOCK_TURNED[n] * chosen.turned
    outputs += costs.BLOCK_EVEN[n] * chosen.even
    return outputs + costs.BLOCK_VECTOR[n] * length + costs.BLOCK_ROUND * ceil_div(length, 16)
