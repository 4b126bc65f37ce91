"""Products of two tensors of matrices on the 4x4 block.

The block multiplies four rows of the second input with four columns of the first one, which all
cores lay out first as it reads weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dory_core.api import (
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Term,
    WeightBlock,
    ceil_div,
    ops,
    reject_type,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.block_finish import RAW, Finish, finish_of
from dory_gap8.backend.block_terms import shared_cycles
from dory_gap8.backend.instance import (
    BYTE_TYPES,
    Arguments,
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    tile_arguments,
    vector_macros,
)
from dory_gap8.backend.requant import epilogue, reject_requants
from dory_gap8.backend.weights import encode, padded
from dory_gap8.objective import BETA_BALANCE, whole_units

if TYPE_CHECKING:
    from dory_core.api import Tile

_BYTES = ("u8", "i8")


@dataclass(frozen=True)
class MatricesKernel(ClusterKernel):
    """A matrix of bytes times another one."""

    name = "dory_gap8_matrices"
    summary = "product of two tensors of matrices"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes, with a requantisation after the sums."""
        if not isinstance(layer.op, ops.MatMul):
            return Rejection("it computes products of two tensors only", other_kind=True)
        if not layer.op.requants:
            return Rejection("its sums are stored as they are")
        names = ("first operand", "second operand")
        checks = (
            *(reject_type(x, n, _BYTES) for x, n in zip(layer.inputs, names, strict=True)),
            reject_type(layer.output, "output", BYTE_TYPES),
            reject_requants(layer, layer.op.requants),
        )
        return next((c for c in checks if c is not None), None)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the parameters of channels in fours."""
        done = _finish(layer)
        one = 4 * done.parameters.shape[1]
        if done.form == RAW:
            one = epilogue(layer).channel_bytes
        return ceil_div(padded(tile.c_out) * one, 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the parameters of channels, in fours."""
        done, channels = _finish(layer), c_out[1] - c_out[0]
        four = int(padded(channels))
        if done.form == RAW:
            chosen = epilogue(layer)
            if not chosen.channel_bytes:
                return None
            found = encode(chosen, np.zeros((channels, 0), np.int8), c_out)
            size = -(-four * chosen.channel_bytes // 8) * 8
            return WeightBlock(found.data.ljust(size, b"\0"), {"mul": found.parts["mul"]})
        table = np.zeros((four, done.parameters.shape[1]), dtype="<i4")
        table[:channels] = done.parameters[c_out[0] : c_out[1]]
        data = table.tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), {"mul": 0})

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the matrices as the block reads them, and of the terms of rows."""
        terms = 0 if not _zeros(layer)[0] else 4 * (tile.h * tile.w + 3)
        return tile.x_h * ceil_div(tile.c_out, 4) * _group_bytes(layer) + terms

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Laying out, and blocks of the core with the most of them."""
        x_zero, x2_zero = _zeros(layer)
        steps, done, groups = _steps(layer), _finish(layer), ceil_div(tile.c_out, 4)
        each = cal.MATRICES_GROUP + steps * (cal.MATRICES_STEP + 4 * (x2_zero != 0))
        first = ceil_div(tile.x_h * groups, self.cores) * each
        if x_zero:
            row = cal.MATRICES_ROW + cal.MATRICES_ROW_WORD * steps
            first += ceil_div(tile.h * tile.w, self.cores) * row
        group = (cal.BLOCK_STEP * steps + 16 * done.cycles) // 10
        group += cal.BLOCK_GROUP + cal.BLOCK_ONE_GROUP
        group += cal.MATRICES_TERMS * ((x_zero != 0) + (x2_zero != 0))
        group += cal.BLOCK_UNALIGNED * steps // 10 * (layer.inputs[1].channels % 4 != 0)
        pixel = cal.BLOCK_FOURS + cal.BLOCK_FOURS_SEGMENT + cal.BLOCK_ONE_FOURS
        blocks = ceil_div(tile.w, 4)
        best = shared_cycles(self.cores, blocks, pixel, groups, group)
        return cal.BLOCK_CALL + first + tile.h * (cal.MATRICES_MATRIX + best)

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Return the terms of a tile: rows in fours on all cores, columns in fours."""
        y = layer.output
        rows = whole_units(tile.w, 4 * self.cores, y.width)
        return (
            Term("PAR_BALANCE", BETA_BALANCE, rows),
            Term("MATMUL_CH", BETA_BALANCE, whole_units(tile.c_out, 4, y.channels)),
        )

    def label(self, layer: Layer) -> str:
        """Types and requantisation: ``dory_gap8_matrices_i8_i8_i8_terms_lu``."""
        types = "_".join(t.type_name for t in (*layer.inputs, layer.output))
        shared = [f"one{n}" for n, one in enumerate(_shared(layer), start=1) if one]
        tokens = [*shared, *(["terms"] if any(_zeros(layer)) else [])]
        done = _finish(layer)
        end = done.token + (epilogue(layer).suffix if done.form == RAW else "")
        return "_".join((self.name, types, *tokens, end))

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, factors = (t.type_name for t in layer.inputs)
        (one_x, one_factors), (x_zero, x2_zero) = _shared(layer), _zeros(layer)
        done = _finish(layer)
        macros = [
            *vector_macros(factors),
            ("DORY_LANES", "4"),
            ("DORY_HALVES", "0"),
            ("DORY_Y_T", c_type(layer.output.type_name)),
            ("DORY_CORES", str(self.cores)),
            ("DORY_BLOCK_SLIDE", "0"),
            *done.macros,
            ("DORY_BLOCK_PIXELS", "4"),
            ("DORY_BLOCK_ONE", "1"),
            ("DORY_BLOCK_COLUMN_TERMS", str(int(x2_zero != 0))),
            ("DORY_BLOCK_ROW_TERMS", str(int(x_zero != 0))),
            ("DORY_FLIP", "0x80808080u" if x == "u8" else "0"),
            ("DORY_ONE_X", str(int(one_x))),
            ("DORY_ONE_X2", str(int(one_factors))),
        ]
        if done.form == RAW:
            macros += epilogue(layer).macros
        purpose = f"Product of {factors} and {x} matrices, {layer.output.type_name} outputs."
        return Instance("matrices", self.label(layer), purpose, tuple(macros))

    def call(self, layer: Layer) -> FunctionCall:
        """One call for all matrices of the tile."""
        done, (x_zero, x2_zero) = _finish(layer), _zeros(layer)
        arguments = [*tile_arguments("x", "x2"), ("x_zero", x_zero), ("x2_zero", x2_zero)]
        block: Arguments = tile_arguments("y", "scratch", "x_w", "y_h", "y_w", "y_c")
        if done.form == RAW:
            block = (*block, ("requant", epilogue(layer).struct(pointed=True)))
        else:
            block = (*block, ("parameters", Operand("mul")), ("shift", done.shift))
            block = (*block, ("low_bits", done.low_bits), ("hi", done.hi))
        arguments += [(f"block.{name}", value) for name, value in block]
        return call_text(self.symbol(layer), "matrices", arguments)


def _finish(layer: Layer) -> Finish:
    """Return how the block turns the sums of a layer into outputs.

    A part of a layer has the parameters of all channels.
    """
    chosen = epilogue(layer)
    channels = max(len(chosen.records), layer.output.channels)
    return finish_of(chosen, layer.output.bits, channels)


def _zeros(layer: Layer) -> tuple[int, int]:
    """Return the zero points of both operands, of the first one as signed bytes."""
    first, second = layer.of(ops.MatMul).zero_points
    return first - 128 * (not layer.inputs[0].signed), second


def _shared(layer: Layer) -> tuple[bool, bool]:
    """Return which operands have one matrix for all of the output."""
    first, second = (x.height < layer.output.height for x in layer.inputs)
    return first, second


def _steps(layer: Layer) -> int:
    """Return the steps of the block: two at least."""
    return max(2, -(-layer.inputs[1].channels // 4))


def _group_bytes(layer: Layer) -> int:
    """Return the bytes of four columns with their terms."""
    return 16 * (_steps(layer) + (_zeros(layer)[1] != 0))
