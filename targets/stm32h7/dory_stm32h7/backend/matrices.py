"""Products of two tensors of matrices, as convolutions whose weights are laid out first."""

from __future__ import annotations

from dory_core.api import (
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Tile,
    WeightBlock,
    ceil_div,
    ops,
    reject_type,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.epilogue import epilogue, reject_epilogue
from dory_stm32h7.backend.instance import (
    BYTES,
    OUTPUTS,
    InstanceKernel,
    tile_arguments,
    type_macros,
)
from dory_stm32h7.backend.weighted import blocks_tenths, output_extra, vectors

# Vectors of four whose sums a vector has.
_SUMMED = 64


class MatricesKernel(InstanceKernel):
    """Product of matrices of bytes: blocks of 2 rows x 2 columns."""

    name = "dory_stm32h7_matrices"
    template = "matrices"
    summary = "Product of two tensors of matrices, two rows and two columns at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes, with a requantisation after the sums."""
        if not isinstance(layer.op, ops.MatMul):
            return Rejection("it computes products of two tensors only")
        if not layer.op.requants:
            return Rejection("its sums are stored as they are")
        names = ("first operand", "second operand")
        wrong = (reject_type(x, n, BYTES) for x, n in zip(layer.inputs, names, strict=True))
        return (
            next((one for one in wrong if one is not None), None)
            or reject_type(layer.output, "output", OUTPUTS)
            or reject_epilogue(layer)
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of each channel."""
        return ceil_div(tile.c_out * epilogue(layer).channel_bytes, 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Parameters of the channels c_out[0] .. c_out[1] - 1."""
        data = epilogue(layer).parameters(slice(*c_out), layer.output.channels)
        return WeightBlock(data + bytes(-len(data) % 8), {"mul": 0})

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """A matrix as rows of weights, and the columns of a few rows."""
        together = 3 if epilogue(layer).in_assembly else 2
        return 4 * _vectors(layer) * (tile.c_out + 2 * together)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Laying out, columns of all rows, blocks, and the rows and columns that no block takes."""
        chosen, length = epilogue(layer), _vectors(layer)
        single = costs.SINGLE_VECTOR * length + costs.SINGLE + output_extra(chosen)
        single += costs.SINGLE_TURNED * chosen.turned
        blocks = blocks_tenths(chosen, chosen.in_assembly, length, tile.c_out, tile.w)
        column = costs.CENTRED_VECTOR * length + costs.CENTRED
        rows = tile.w * (column + tile.c_out % 2 * single) + blocks
        laid = tile.c_out * (costs.LAID_VECTOR * length + costs.LAID)
        return costs.CALL + tile.x_h * laid + tile.h * rows

    def label(self, layer: Layer) -> str:
        """Types and requantisation."""
        types = "_".join(t.type_name for t in (*layer.inputs, layer.output))
        shared = "".join(f"_one{n}" for n, one in enumerate(_shared(layer), start=1) if one)
        terms = "_terms" if _zero(layer) else ""
        pairs = "_pairs" if epilogue(layer).in_assembly else ""
        return f"{self.name}{shared}{terms}{pairs}_{types}{epilogue(layer).suffix}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the sizes of the matrices."""
        arguments = (
            *tile_arguments("x", "x2", "y", "scratch", "x_w", "y_h", "y_w", "y_c"),
            ("x_zero", _zero(layer)),
            ("x2_zero", layer.of(ops.MatMul).zero_points[1]),
            ("requant", epilogue(layer).struct()),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        x, factors = layer.inputs
        one_x, one_factors = _shared(layer)
        return (
            ("DORY_FLIP", 0 if x.signed else "0x80808080u"),
            ("DORY_TERMS", int(_zero(layer) != 0)),
            ("DORY_ONE_X", int(one_x)),
            ("DORY_ONE_X2", int(one_factors)),
            ("DORY_WINDOW", 0),
            ("DORY_PAIRS", int(epilogue(layer).in_assembly)),
            ("DORY_W_BITS", 8),
            *type_macros("X", factors),
            *type_macros("Y", layer.output),
            *epilogue(layer).macros,
        )


def _zero(layer: Layer) -> int:
    """Return the zero point of the first operand as signed bytes."""
    return layer.of(ops.MatMul).zero_points[0] - 128 * (not layer.inputs[0].signed)


def _shared(layer: Layer) -> tuple[bool, bool]:
    """Return which operands have one matrix for all of the output."""
    first, second = (x.height < layer.output.height for x in layer.inputs)
    return first, second


def _vectors(layer: Layer) -> int:
    """Return the vectors of a row, those of its sums included."""
    plain = int(vectors(layer.inputs[1].channels))
    return plain + (-(-plain // _SUMMED) if _zero(layer) else 0)
